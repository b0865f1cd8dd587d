"""Weights on MLX with their cache. The next pass is queued before Python has seen the result of this one."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import mlx.core as mx
import numpy as np
from mlx_lm.models.cache import can_trim_prompt_cache, make_prompt_cache, trim_prompt_cache
from mlx_lm.sample_utils import make_sampler

from ..decoding import CachedModel, Sampler
from ..sampling import numpy_sampler, unpack_mask
from ..types import Settings
from .mlx_cpu import has_gpu


class MlxCachedModel(CachedModel):
    """An MLX model with its key-value cache."""

    def __init__(self, model: Any, eos: frozenset[int]) -> None:
        super().__init__(eos)
        self._model = model
        self._cache = make_prompt_cache(model)

    def sampler(self, settings: Settings) -> Sampler:
        """Return a sampler: of mlx-lm on a GPU, in NumPy without one."""
        if has_gpu():
            return MlxSampler(settings)
        sample = numpy_sampler(settings)
        return lambda logits, mask: sample(np.asarray(logits[0]), mask)

    def wait(self, logits: Any) -> None:
        """Wait until the logits, and with them the cache, have been computed."""
        mx.eval(logits, [layer.state for layer in self._cache])

    def generate(self, logits: Any, sample: Sampler, most: int) -> Iterator[int]:
        """Yield tokens without a grammar. On a GPU, the next pass is queued on a token that is not known yet."""
        if not isinstance(sample, MlxSampler):
            yield from super().generate(logits, sample, most)  # nothing overlaps, and the last pass would be wasted
            return
        current = sample.draw(logits)
        for left in range(most, 0, -1):
            if left > 1:
                following = sample.draw(self._model(current[None], cache=self._cache)[:, -1, :])
                mx.async_eval(current, following)
            token = int(current.item())
            if left > 1:
                self._tokens.append(token)
                current = following
            yield token
            if token in self.eos:
                return

    def _advance(self, tokens: list[int]) -> Any:
        logits = self._model(mx.array([tokens]), cache=self._cache)[:, -1, :]
        mx.async_eval(logits)
        return logits

    def _truncate(self, size: int) -> int:
        if size and can_trim_prompt_cache(self._cache):
            trim_prompt_cache(self._cache, len(self._tokens) - size)
            return size
        self._cache = make_prompt_cache(self._model)
        return 0


class MlxSampler:
    """Samples tokens from logits that may still be under computation."""

    def __init__(self, settings: Settings) -> None:
        if settings.seed is not None:
            mx.random.seed(settings.seed)
        self._greedy = settings.temperature == 0
        self._sample = make_sampler(temp=settings.temperature, top_p=settings.top_p, top_k=settings.top_k)

    def __call__(self, logits: Any, mask: bytes | None) -> int:
        """Return a token within the mask."""
        if mask is not None:
            logits = mx.where(mx.array(unpack_mask(mask, logits.shape[-1])), logits, -mx.inf)
        return int(self.draw(logits).item())

    def draw(self, logits: Any) -> Any:
        """Return a token as an array that need not be computed yet."""
        if self._greedy:
            return mx.argmax(logits, axis=-1)
        return self._sample(logits - mx.logsumexp(logits, axis=-1, keepdims=True))
