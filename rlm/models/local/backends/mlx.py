"""A model on MLX: Metal on a Mac, and MLX's CPU build on Linux."""

from __future__ import annotations

import os
from pathlib import Path

from ..errors import LocalModelError, MissingExtra
from ..generator import Loaded, TokenModel
from ..limits import DEFAULT_CONTEXT


def mlx_model(folder: Path, name: str, context: int | None = None) -> TokenModel:
    """The weights in an MLX folder. One answer at a time."""
    # Without this, transformers says on every import that PyTorch is not there. It is not needed.
    os.environ.setdefault("TRANSFORMERS_VERBOSITY", "error")
    try:
        import llguidance.hf  # noqa: F401
        import mlx_lm  # noqa: F401
        import outlines  # noqa: F401

        from .mlx_cpu import calm
    except ImportError as error:
        raise MissingExtra("mlx", f"an MLX model needs {error.name}, which is not installed") from error
    return TokenModel(name, "mlx", lambda model: _load(model, folder, context), calm)


def _load(model: TokenModel, folder: Path, context: int | None) -> Loaded:
    from mlx_lm.utils import load

    from ..outlines_models import NamedMLXLM
    from .hf_tokens import HfTokens
    from .mlx_cpu import quicken
    from .mlx_reader import MlxReader

    try:
        weights, tokenizer = load(str(folder))[:2]
    except Exception as error:  # of a tokenizer that is damaged, anything; of weights, what MLX is written in
        raise LocalModelError(f"{folder} is not a model that mlx-lm can load: {error}") from error
    quicken(weights)
    eos = frozenset(tokenizer.eos_token_ids)
    tokens = HfTokens(tokenizer._tokenizer, eos)
    trained = int(getattr(getattr(weights, "args", None), "max_position_embeddings", 0) or DEFAULT_CONTEXT)
    return Loaded(
        reader=MlxReader(weights, eos),
        tokens=tokens,
        grammars=tokens.grammars(),
        context=min(context or DEFAULT_CONTEXT, trained),
        outlines=NamedMLXLM(model, weights, tokenizer),
    )
