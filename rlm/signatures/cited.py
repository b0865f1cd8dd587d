"""`Cited`: an output together with quotes from the inputs that support it.

class Answer(dspy.Signature):
    report: str = dspy.InputField()
    losses: rlm.Cited[int] = dspy.OutputField()

The model submits `{"value": 3, "quotes": ["three ships were lost"]}`. Each quote is looked up in the inputs; one that
is in none of them is refused. Their places are in the evidence of the result.
"""

from __future__ import annotations

import copyreg
from collections.abc import Iterator, Mapping
from typing import Any, Generic, TypeVar

from pydantic import BaseModel, ConfigDict, Field

from ..json_values import Path

T = TypeVar("T")
QUOTES = "quotes"


class _CitedType(type(BaseModel)):  # type: ignore[misc]
    """The class of `Cited[...]`, which pickle finds by its parameter: it is in no module."""


class Cited(BaseModel, Generic[T], metaclass=_CitedType):
    """A value with quotes from the inputs."""

    model_config = ConfigDict(frozen=True)

    value: T
    quotes: list[str] = Field(min_length=1, description="copied word for word from the inputs")


def _pickled(kind: Any) -> Any:
    inner = kind.__pydantic_generic_metadata__["args"]
    return (Cited.__class_getitem__, (inner[0],)) if inner else kind.__qualname__


copyreg.pickle(_CitedType, _pickled)


def is_cited(kind: Any) -> bool:
    """Return whether a type is `Cited`, or `Cited[...]`."""
    return isinstance(kind, type) and issubclass(kind, Cited)


def quotes_in(value: Any, path: Path = ()) -> Iterator[tuple[Path, str]]:
    """Yield every quote in typed outputs, with its path."""
    if isinstance(value, Cited):
        yield from (((*path, QUOTES, index), quote) for index, quote in enumerate(value.quotes))
        yield from quotes_in(value.value, (*path, "value"))
    elif isinstance(value, BaseModel):
        for name in type(value).model_fields:
            yield from quotes_in(getattr(value, name), (*path, name))
    elif isinstance(value, Mapping):
        for key, inner in value.items():
            yield from quotes_in(inner, (*path, str(key)))
    elif isinstance(value, list | tuple):
        for index, inner in enumerate(value):
            yield from quotes_in(inner, (*path, index))
