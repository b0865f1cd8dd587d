"""Values flattened into single values, and compared by them."""

from __future__ import annotations

import enum
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, TypeVar

from pydantic import BaseModel

from ...json_values import Path
from .match import normal
from .numbers import same_number

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Leaf:
    """A single value and its path in the whole."""

    path: Path
    value: Any


def leaves_of(value: Any, path: Path) -> Iterator[Leaf]:
    """Yield the single values in a value. The keys of a dict are data as well; the fields of a model are not."""
    if isinstance(value, enum.Enum):
        yield Leaf(path, value.value)
    elif isinstance(value, BaseModel):
        for name, item in value:
            yield from leaves_of(item, (*path, name))
    elif isinstance(value, Mapping) and value:
        for key, item in value.items():
            yield Leaf((*path, str(key)), key)
            yield from leaves_of(item, (*path, str(key)))
    elif isinstance(value, list | tuple | set | frozenset) and value:
        for index, item in enumerate(value):
            yield from leaves_of(item, (*path, index))
    else:
        yield Leaf(path, value)


def spread(items: list[T], limit: int) -> list[T]:
    """Return at most `limit` of the items, spread evenly."""
    step = len(items) / limit
    return items if step <= 1 else [items[int(index * step)] for index in range(limit)]


def same(value: Any, other: Any) -> bool:
    """Return whether two plain values are the same: numbers with a tolerance, strings in normal form."""
    if isinstance(value, bool | None) or isinstance(other, bool | None):
        return value is other
    if isinstance(value, int | float) and isinstance(other, int | float):
        return same_number(value, other)
    if isinstance(value, str) and isinstance(other, str):
        return value == other or (len(other) < 4 * len(value) + 100 and normal(value) == normal(other))
    if isinstance(value, list) and isinstance(other, list):
        return len(value) == len(other) and all(map(same, value, other))
    if isinstance(value, dict) and isinstance(other, dict):
        return value.keys() == other.keys() and all(same(item, other[key]) for key, item in value.items())
    return False
