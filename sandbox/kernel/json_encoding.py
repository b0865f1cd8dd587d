"""JSON encoding of arguments that JSON has no form for: sets, dates, dataclasses, models, numpy numbers.

Such a value is sent as `{"$type": "set", "$value": [...]}`. A host function gets the plain value; one that asks for it
gets the type too, and can say "a set" where a set is not accepted. A type is sent as its name (`int`, `list[str]`,
`Literal['yes', 'no']`), and a pydantic model as its JSON schema.
"""

from __future__ import annotations

import dataclasses
import datetime
import decimal
import enum
import fractions
import pathlib
import types
import uuid
from collections.abc import KeysView, ValuesView
from typing import Any

_TEXTS = (uuid.UUID, pathlib.PurePath, decimal.Decimal, fractions.Fraction)
_MOMENTS = (datetime.date, datetime.time)  # a datetime is a date


def tagged(value: Any) -> Any:
    """Return what to write for a value that JSON does not know (`default` of `json`), or raise `TypeError`."""
    if isinstance(value, type) or hasattr(value, "__origin__") or isinstance(value, types.UnionType):
        return {"$type": "type", "$value": _of_type(value)}
    return {"$type": type(value).__name__, "$value": _plain(value)}


def _of_type(kind: Any) -> Any:
    if hasattr(kind, "__origin__") or isinstance(kind, types.UnionType):
        return repr(kind).replace("typing.", "")
    schema = getattr(kind, "model_json_schema", None)
    return schema() if callable(schema) else kind.__name__


def _plain(value: Any) -> Any:
    if isinstance(value, enum.Enum):
        return value.value
    if isinstance(value, _MOMENTS):
        return value.isoformat()
    if isinstance(value, datetime.timedelta):
        return value.total_seconds()
    if isinstance(value, set | frozenset):
        return _in_order(value)
    if isinstance(value, _TEXTS):
        return str(value)
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {field.name: getattr(value, field.name) for field in dataclasses.fields(value)}
    for method in ("model_dump", "_asdict", "to_dict", "tolist"):  # pydantic, named tuples, pandas, numpy
        convert = getattr(value, method, None)
        if callable(convert) and not isinstance(value, type):
            return convert()
    if isinstance(value, KeysView | ValuesView | range):
        return list(value)
    raise TypeError(f"a {type(value).__name__} cannot be sent to the host")


def _in_order(values: Any) -> list[Any]:
    try:
        return sorted(values)
    except TypeError:
        return list(values)
