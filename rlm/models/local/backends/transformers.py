"""A model on PyTorch through transformers, with the same decode loop."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from ..decoding import Pick, Reader
from ..errors import LocalModelError, MissingExtra
from ..generator import Loaded, TokenModel
from ..hardware import default_threads
from ..limits import DEFAULT_CONTEXT
from ..sampling import numpy_picker
from ..types import Settings


def torch_model(folder: Path, name: str, context: int | None = None) -> TokenModel:
    """The weights in a folder of Hugging Face's kind. One answer at a time."""
    try:
        import llguidance.hf  # noqa: F401
        import outlines  # noqa: F401
        import torch  # noqa: F401
        import transformers  # noqa: F401
    except ImportError as error:
        raise MissingExtra("transformers", f"this model needs {error.name}, which is not installed") from error
    return TokenModel(name, "transformers", lambda model: _load(model, folder, context), _calm)


@contextmanager
def _calm() -> Iterator[None]:
    """Limit PyTorch to `default_threads()` while a model computes."""
    import torch

    usual = torch.get_num_threads()
    torch.set_num_threads(default_threads())
    try:
        yield
    finally:
        torch.set_num_threads(usual)


class TorchReader(Reader):
    """A causal model of transformers and its cache."""

    def __init__(self, model: Any, eos: frozenset[int]) -> None:
        super().__init__(eos)
        self._model = model
        self._cache = _new_cache()

    def picker(self, settings: Settings) -> Pick:
        """Sampling in NumPy."""
        return numpy_picker(settings)

    def _advance(self, tokens: list[int]) -> Any:
        import torch

        with torch.inference_mode():
            ids = torch.tensor([tokens], device=self._model.device)
            out = self._model(input_ids=ids, past_key_values=self._cache, use_cache=True, logits_to_keep=1)
        return out.logits[0, -1].float().cpu().numpy()

    def _shorten(self, size: int) -> int:
        try:
            self._cache.crop(size - len(self._read))  # how many to take away, as a negative number
        except RuntimeError:  # a cache that cannot go back
            self._cache, size = _new_cache(), 0
        return size


def _load(model: TokenModel, folder: Path, context: int | None) -> Loaded:
    from transformers import AutoModelForCausalLM, AutoTokenizer

    from ..outlines_models import NamedTransformers
    from .hf_tokens import HfTokens

    try:
        weights = AutoModelForCausalLM.from_pretrained(folder, local_files_only=True).eval()
        tokenizer = AutoTokenizer.from_pretrained(folder, local_files_only=True)
    except Exception as error:  # of a tokenizer that is damaged, anything
        raise LocalModelError(f"{folder} is not a model that transformers can load: {error}") from error
    ends = weights.generation_config.eos_token_id
    eos = frozenset(ends if isinstance(ends, list) else [ends if ends is not None else tokenizer.eos_token_id])
    tokens = HfTokens(tokenizer, eos)
    trained = int(getattr(weights.config, "max_position_embeddings", None) or DEFAULT_CONTEXT)
    return Loaded(
        reader=TorchReader(weights, eos),
        tokens=tokens,
        grammars=tokens.grammars(),
        context=min(context or DEFAULT_CONTEXT, trained),
        outlines=NamedTransformers(model, weights, tokenizer),
    )


def _new_cache() -> Any:
    from transformers import DynamicCache

    return DynamicCache()
