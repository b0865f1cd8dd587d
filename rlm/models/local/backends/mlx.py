"""Models on MLX: with Metal on a Mac, and with MLX's CPU build on Linux."""

from __future__ import annotations

import os
from pathlib import Path

from ..errors import LocalModelError, MissingExtra
from ..generator import LoadedModel, TokenModel
from ..limits import DEFAULT_CONTEXT


def mlx_model(folder: Path, name: str, context: int | None = None) -> TokenModel:
    """Load the weights of an MLX folder. It generates one answer at a time."""
    # Without this, transformers warns on every import that PyTorch is missing, which is not needed.
    os.environ.setdefault("TRANSFORMERS_VERBOSITY", "error")
    try:
        import llguidance.hf  # noqa: F401
        import mlx_lm  # noqa: F401
        import outlines  # noqa: F401

        from .mlx_cpu import limited_threads
    except ImportError as error:
        raise MissingExtra("mlx", f"an MLX model needs {error.name}, which is not installed") from error
    return TokenModel(name, "mlx", lambda model: _load(model, folder, context), limited_threads)


def _load(model: TokenModel, folder: Path, context: int | None) -> LoadedModel:
    from mlx_lm.utils import load

    from ..outlines_models import NamedMLXLM
    from .hf_tokenizer import HfTokenizer
    from .mlx_cached import MlxCachedModel
    from .mlx_cpu import use_numpy_layers

    try:
        weights, tokenizer = load(str(folder))[:2]
    except Exception as error:  # damaged tokenizers raise anything, damaged weights the errors of MLX's C++
        raise LocalModelError(f"{folder} is not a model that mlx-lm can load: {error}") from error
    use_numpy_layers(weights)
    eos = frozenset(tokenizer.eos_token_ids)
    hf_tokenizer = HfTokenizer(tokenizer._tokenizer, eos)
    trained = int(getattr(getattr(weights, "args", None), "max_position_embeddings", 0) or DEFAULT_CONTEXT)
    return LoadedModel(
        model=MlxCachedModel(weights, eos),
        tokenizer=hf_tokenizer,
        grammars=hf_tokenizer.grammars(),
        context=min(context or DEFAULT_CONTEXT, trained),
        outlines=NamedMLXLM(model, weights, tokenizer),
    )
