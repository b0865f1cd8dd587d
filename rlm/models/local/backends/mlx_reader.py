"""Weights on MLX. The next pass is under way before Python has looked at the result of this one."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import mlx.core as mx
import numpy as np
from mlx_lm.models.cache import can_trim_prompt_cache, make_prompt_cache, trim_prompt_cache
from mlx_lm.sample_utils import make_sampler

from ..decoding import Pick, Reader
from ..sampling import numpy_picker, unpacked
from ..types import Settings
from .mlx_cpu import has_gpu


class MlxReader(Reader):
    """An MLX model and its cache."""

    def __init__(self, model: Any, eos: frozenset[int]) -> None:
        super().__init__(eos)
        self._model = model
        self._cache = make_prompt_cache(model)

    def picker(self, settings: Settings) -> Pick:
        """Sampling by mlx-lm on a GPU, and in NumPy without one."""
        if has_gpu():
            return MlxPick(settings)
        pick = numpy_picker(settings)
        return lambda scores, allowed: pick(np.asarray(scores[0]), allowed)

    def wait(self, scores: Any) -> None:
        """Until the scores, and with them the cache, have been computed."""
        mx.eval(scores, [layer.state for layer in self._cache])

    def free(self, scores: Any, pick: Pick, most: int) -> Iterator[int]:
        """As in `Reader`. On a GPU, the next pass is queued on a token that is not known yet."""
        if not isinstance(pick, MlxPick):
            yield from super().free(scores, pick, most)  # nothing to overlap with, and the last pass would be in vain
            return
        chosen = pick.draw(scores)
        for left in range(most, 0, -1):
            if left > 1:
                then = pick.draw(self._model(chosen[None], cache=self._cache)[:, -1, :])
                mx.async_eval(chosen, then)
            token = int(chosen.item())
            if left > 1:
                self._read.append(token)
                chosen = then
            yield token
            if token in self.eos:
                return

    def _advance(self, tokens: list[int]) -> Any:
        scores = self._model(mx.array([tokens]), cache=self._cache)[:, -1, :]
        mx.async_eval(scores)
        return scores

    def _shorten(self, size: int) -> int:
        if size and can_trim_prompt_cache(self._cache):
            trim_prompt_cache(self._cache, len(self._read) - size)
            return size
        self._cache = make_prompt_cache(self._model)
        return 0


class MlxPick:
    """Chooses tokens from scores that may still be on their way."""

    def __init__(self, settings: Settings) -> None:
        if settings.seed is not None:
            mx.random.seed(settings.seed)
        self._greedy = settings.temperature == 0
        self._sample = make_sampler(temp=settings.temperature, top_p=settings.top_p, top_k=settings.top_k)

    def __call__(self, scores: Any, allowed: bytes | None) -> int:
        """The token; only one that is allowed."""
        if allowed is not None:
            scores = mx.where(mx.array(unpacked(allowed, scores.shape[-1])), scores, -mx.inf)
        return int(self.draw(scores).item())

    def draw(self, scores: Any) -> Any:
        """The token, as an array that need not be computed yet."""
        if self._greedy:
            return mx.argmax(scores, axis=-1)
        return self._sample(scores - mx.logsumexp(scores, axis=-1, keepdims=True))
