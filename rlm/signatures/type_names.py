"""Types in words, for the list of fields in prompts and messages."""

from __future__ import annotations

import datetime
import enum
import json
import types
from typing import Annotated, Any, Literal, Union, get_args, get_origin

from pydantic import BaseModel

_WORDS: dict[Any, str] = {
    Any: "any JSON value",
    object: "any JSON value",
    None: "null",
    type(None): "null",
    datetime.date: "date (YYYY-MM-DD)",
    datetime.datetime: "datetime (ISO 8601)",
}
_BOUNDS = {"gt": ">", "ge": ">=", "lt": "<", "le": "<=", "multiple_of": "a multiple of", "pattern": "matching"}
_BOUNDS |= {"min_length": "length >=", "max_length": "length <="}
_DEPTH = 3  # nested models deeper than this appear by name; the schema has their fields


def describe(kind: Any, *, depth: int = _DEPTH) -> str:
    """Return a type in words: `int`, `one of "a", "b"`, `list of Person {name: str, age: int or null}`."""
    origin, inner = get_origin(kind), get_args(kind)
    if origin is Annotated:
        bounds = _bounds(inner[1:])
        return describe(inner[0], depth=depth) + (f" ({', '.join(bounds)})" if bounds else "")
    if origin is Union or origin is types.UnionType:
        return " or ".join(dict.fromkeys(describe(item, depth=depth) for item in inner))
    if origin is Literal:
        return _one_of([item.value if isinstance(item, enum.Enum) else item for item in inner])
    if inner and isinstance(origin, type):
        return _container(origin, inner, depth)
    if isinstance(kind, type) and issubclass(kind, enum.Enum):
        return _one_of([item.value for item in kind])
    if isinstance(kind, type) and issubclass(kind, BaseModel):
        return _model(kind, depth)
    return _word(kind)


def _word(kind: Any) -> str:
    try:
        return _WORDS[kind]
    except (KeyError, TypeError):
        return str(getattr(kind, "__name__", kind))


def accepts_null(kind: Any) -> bool:
    """Return whether None is a value of the type."""
    origin, inner = get_origin(kind), get_args(kind)
    if origin is Annotated:
        return accepts_null(inner[0])
    if origin is Union or origin is types.UnionType:
        return any(accepts_null(item) for item in inner)
    if origin is Literal:
        return None in inner
    return kind in (Any, object, None, type(None))


def _one_of(values: list[Any]) -> str:
    words = [json.dumps(value, ensure_ascii=False, default=str) for value in values]
    return f"one of {', '.join(words)}" if len(words) > 1 else f"always {words[0]}"


def _container(origin: type, inner: tuple[Any, ...], depth: int) -> str:
    words = ["..." if item is ... else describe(item, depth=depth) for item in inner]
    if issubclass(origin, dict) and len(words) == 2:
        return f"dict from {words[0]} to {words[1]}"
    if issubclass(origin, tuple) and inner[-1] is not ...:
        return f"list of exactly {len(words)}: {', '.join(words)}"
    unique = " without repeats" if issubclass(origin, set | frozenset) else ""
    return f"list of {words[0]}{unique}"


def _model(kind: type[BaseModel], depth: int) -> str:
    if depth <= 0:
        return kind.__name__
    fields = [
        f"{name}: {describe(_annotated(field.annotation, field.metadata), depth=depth - 1)}"
        for name, field in kind.model_fields.items()
    ]
    return f"{kind.__name__} {{{', '.join(fields)}}}"


def _annotated(kind: Any, metadata: list[Any]) -> Any:
    return Annotated[(kind, *metadata)] if metadata else kind


def _bounds(metadata: tuple[Any, ...]) -> list[str]:
    return [
        f"{word} {value}"
        for constraint in metadata
        for name, word in _BOUNDS.items()
        if (value := getattr(constraint, name, None)) is not None
    ]
