"""Models on PyTorch through transformers, with the decode loop of this package."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from ..decoding import CachedModel, Sampler
from ..errors import LocalModelError, MissingExtra
from ..generator import LoadedModel, TokenModel
from ..hardware import default_threads
from ..limits import DEFAULT_CONTEXT
from ..sampling import numpy_sampler
from ..types import Settings


def torch_model(folder: Path, name: str, context: int | None = None) -> TokenModel:
    """Load the weights of a Hugging Face folder. It generates one answer at a time."""
    try:
        import llguidance.hf  # noqa: F401
        import outlines  # noqa: F401
        import torch  # noqa: F401
        import transformers  # noqa: F401
    except ImportError as error:
        raise MissingExtra("transformers", f"this model needs {error.name}, which is not installed") from error
    return TokenModel(name, "transformers", lambda model: _load(model, folder, context), _limited_threads)


@contextmanager
def _limited_threads() -> Iterator[None]:
    """Limit PyTorch to `default_threads()` while a model computes."""
    import torch

    before = torch.get_num_threads()
    torch.set_num_threads(default_threads())
    try:
        yield
    finally:
        torch.set_num_threads(before)


class TorchCachedModel(CachedModel):
    """A causal model of transformers with its key-value cache."""

    def __init__(self, model: Any, eos: frozenset[int]) -> None:
        super().__init__(eos)
        self._model = model
        self._cache = _new_cache()

    def sampler(self, settings: Settings) -> Sampler:
        """Return a sampler in NumPy."""
        return numpy_sampler(settings)

    def _advance(self, tokens: list[int]) -> Any:
        import torch

        with torch.inference_mode():
            ids = torch.tensor([tokens], device=self._model.device)
            out = self._model(input_ids=ids, past_key_values=self._cache, use_cache=True, logits_to_keep=1)
        return out.logits[0, -1].float().cpu().numpy()

    def _truncate(self, size: int) -> int:
        try:
            self._cache.crop(size - len(self._tokens))  # negative: the number of tokens to remove
        except RuntimeError:  # a cache that cannot be cropped
            self._cache, size = _new_cache(), 0
        return size


def _load(model: TokenModel, folder: Path, context: int | None) -> LoadedModel:
    from transformers import AutoModelForCausalLM, AutoTokenizer

    from ..outlines_models import NamedTransformers
    from .hf_tokenizer import HfTokenizer

    try:
        weights = AutoModelForCausalLM.from_pretrained(folder, local_files_only=True).eval()
        tokenizer = AutoTokenizer.from_pretrained(folder, local_files_only=True)
    except Exception as error:  # damaged tokenizers raise anything
        raise LocalModelError(f"{folder} is not a model that transformers can load: {error}") from error
    ends = weights.generation_config.eos_token_id
    eos = frozenset(ends if isinstance(ends, list) else [ends if ends is not None else tokenizer.eos_token_id])
    hf_tokenizer = HfTokenizer(tokenizer, eos)
    trained = int(getattr(weights.config, "max_position_embeddings", None) or DEFAULT_CONTEXT)
    return LoadedModel(
        model=TorchCachedModel(weights, eos),
        tokenizer=hf_tokenizer,
        grammars=hf_tokenizer.grammars(),
        context=min(context or DEFAULT_CONTEXT, trained),
        outlines=NamedTransformers(model, weights, tokenizer),
    )


def _new_cache() -> Any:
    from transformers import DynamicCache

    return DynamicCache()
