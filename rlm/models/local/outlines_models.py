"""The models of Outlines, over weights that are loaded already.

Each is an Outlines model and a name: dspy uses an LM's `model` as a text in many places, and users of Outlines call
`lm.model(prompt, output_type)`. Without `backend` it uses the decode loop of this package; with `backend="xgrammar"`,
say, it does what Outlines does.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from outlines.models import MLXLM, LlamaCpp, Transformers

from .outlines_api import NamedModel


class _OutlinesModel(NamedModel):
    """A named model with both decode loops: that of this package and that of Outlines."""

    _outlines_class: Any

    def __call__(self, model_input: Any, output_type: Any = None, backend: str | None = None, **options: Any) -> Any:
        """Return the text of an answer."""
        if backend is None:
            return super().__call__(model_input, output_type, **options)
        local, cls = self.local, self._outlines_class
        return local.run_in_thread(lambda: cls.__call__(self, model_input, output_type, backend, **options))  # type: ignore[attr-defined]

    def stream(
        self, model_input: Any, output_type: Any = None, backend: str | None = None, **options: Any
    ) -> Iterator[Any]:
        """Yield the text of an answer in pieces."""
        if backend is None:
            return super().stream(model_input, output_type, **options)
        return iter(self._outlines_class.stream(self, model_input, output_type, backend, **options))


class NamedMLXLM(_OutlinesModel, MLXLM):  # type: ignore[misc]
    """`outlines.models.MLXLM` under the model's name."""

    _outlines_class = MLXLM

    def __init__(self, model: Any, weights: Any, tokenizer: Any) -> None:
        MLXLM.__init__(self, weights, tokenizer)


class NamedLlamaCpp(_OutlinesModel, LlamaCpp):  # type: ignore[misc]
    """`outlines.models.LlamaCpp` under the model's name."""

    _outlines_class = LlamaCpp

    def __init__(self, model: Any, weights: Any) -> None:
        LlamaCpp.__init__(self, weights)


class NamedTransformers(_OutlinesModel, Transformers):  # type: ignore[misc]
    """`outlines.models.Transformers` under the model's name."""

    _outlines_class = Transformers

    def __init__(self, model: Any, weights: Any, tokenizer: Any) -> None:
        Transformers.__init__(self, weights, tokenizer)
