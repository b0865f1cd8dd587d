"""The models of Outlines, over weights that are loaded already.

Each is a real Outlines model and a name: dspy takes an LM's `model` for a text in a dozen places, and users of Outlines
call `lm.model(prompt, output_type)`. One object serves both. Called without naming a backend, it uses the decode loop
of this package; with `backend="xgrammar"`, say, it does what Outlines does.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from outlines.models import MLXLM, LlamaCpp, Transformers

from .outlines_api import NamedModel


class _Outlines(NamedModel):
    """Which of the two ways to go."""

    _stock: Any

    def __call__(self, model_input: Any, output_type: Any = None, backend: str | None = None, **options: Any) -> Any:
        """The text that the model answers with."""
        if backend is None:
            return super().__call__(model_input, output_type, **options)
        local: Any = self.local
        return local.in_its_thread(lambda: self._stock.__call__(self, model_input, output_type, backend, **options))

    def stream(
        self, model_input: Any, output_type: Any = None, backend: str | None = None, **options: Any
    ) -> Iterator[Any]:
        """The same, piece by piece."""
        if backend is None:
            return super().stream(model_input, output_type, **options)
        return iter(self._stock.stream(self, model_input, output_type, backend, **options))


class NamedMLXLM(_Outlines, MLXLM):  # type: ignore[misc]
    """`outlines.models.MLXLM` under the model's name."""

    _stock = MLXLM

    def __init__(self, model: Any, weights: Any, tokenizer: Any) -> None:
        MLXLM.__init__(self, weights, tokenizer)


class NamedLlamaCpp(_Outlines, LlamaCpp):  # type: ignore[misc]
    """`outlines.models.LlamaCpp` under the model's name."""

    _stock = LlamaCpp

    def __init__(self, model: Any, weights: Any) -> None:
        LlamaCpp.__init__(self, weights)


class NamedTransformers(_Outlines, Transformers):  # type: ignore[misc]
    """`outlines.models.Transformers` under the model's name."""

    _stock = Transformers

    def __init__(self, model: Any, weights: Any, tokenizer: Any) -> None:
        Transformers.__init__(self, weights, tokenizer)
