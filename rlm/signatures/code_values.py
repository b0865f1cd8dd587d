"""Inputs as code gets them: plain values that keep the types which JSON has no form for."""

from __future__ import annotations

import datetime
import decimal
import enum
import uuid
from collections.abc import Mapping
from typing import Any, get_args, get_origin

from pydantic import BaseModel

import sandbox

from ..json_values import jsonable

_MOMENTS = (datetime.date, datetime.datetime, datetime.time, datetime.timedelta)
_KEPT = (*_MOMENTS, decimal.Decimal, uuid.UUID, complex, bytes)
_COLLECTIONS = (tuple, set, frozenset)


def keeps_types(kind: Any) -> bool:
    """Return whether a type has dates, sets, tuples and the like in it, or a dict whose keys are not texts."""
    origin, inner = get_origin(kind), get_args(kind)
    kept = (*_KEPT, *_COLLECTIONS, sandbox.File)
    if any(isinstance(part, type) and issubclass(part, kept) for part in (kind, origin)):
        return True
    if isinstance(origin, type) and issubclass(origin, Mapping) and inner and inner[0] is not str:
        return True
    return any(keeps_types(part) for part in inner if not isinstance(part, str))


def code_value(value: Any) -> Any:
    """Return a value with plain parts: models and dataclasses as dicts, members of enums as their values."""
    try:
        return _plain(value)
    except TypeError:  # a set of models
        return jsonable(value)


def _plain(value: Any) -> Any:
    kind = type(value)
    if value is None or kind in (str, int, float, bool):
        return value
    if isinstance(value, enum.Enum):
        return _plain(value.value)
    if kind in (datetime.datetime, datetime.time) and value.tzinfo is not None:
        offset = value.utcoffset()
        return value if offset is None else value.replace(tzinfo=datetime.timezone(offset))
    if kind in _KEPT or isinstance(value, sandbox.File):
        return value
    if isinstance(value, list):
        return [_plain(item) for item in value]
    for collection in _COLLECTIONS:
        if isinstance(value, collection):
            return collection(_plain(item) for item in value)
    if isinstance(value, Mapping):
        return {_plain(name): _plain(item) for name, item in value.items()}
    if isinstance(value, BaseModel):
        return {name: _plain(item) for name, item in value}
    return jsonable(value)
