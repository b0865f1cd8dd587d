"""Durations and sizes as texts: `5m`, `1h30m`, `512MB`, `1GiB`. MB is 1,000,000 bytes, MiB is 1,048,576."""

from __future__ import annotations

import re
from typing import Annotated, Any

from pydantic import BeforeValidator, ByteSize, TypeAdapter, WithJsonSchema

_SECONDS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}
_NUMBER = r"[0-9]+(?:\.[0-9]+)?"
_DURATION = rf"(?:{_NUMBER} ?(?:ms|s|m|h|d) ?)+"
_SIZE = rf"{_NUMBER} ?(?:[kKmMgGtT][iI]?)?[bB]?"
_BYTE_SIZE = TypeAdapter(ByteSize)


def parse_duration(value: Any) -> Any:
    """Return the seconds of a text such as `5m`; return anything but text as it is."""
    if not isinstance(value, str):
        return value
    text = value.strip()
    if re.fullmatch(_NUMBER, text):
        return float(text)
    if not re.fullmatch(_DURATION, text):
        raise ValueError("a duration is a number of seconds or a text such as 90s, 5m or 1h30m")
    return sum(float(number) * _SECONDS[unit] for number, unit in re.findall(rf"({_NUMBER}) ?(ms|s|m|h|d)", text))


def parse_size(value: Any) -> Any:
    """Return the bytes of a text such as `512MB`; return anything but text as it is."""
    if not isinstance(value, str):
        return value
    if not re.fullmatch(_SIZE, value.strip()):
        raise ValueError("a size is a number of bytes or a text such as 512MB or 2GiB")
    return int(_BYTE_SIZE.validate_python(value.strip()))


def size_text(size: int) -> str:
    """Return a number of bytes as `parse_size` reads it: `1.2 MB` is 1,200,000 bytes, `4 MiB` is exactly 4 * 2**20.

    The page writes sizes in the same way (`viewer/static/lib/format.js`).
    """
    for power, unit in enumerate(("KiB", "MiB", "GiB", "TiB"), 1):
        if size % 1024**power == 0 and 0 < size // 1024**power < 1024:
            return f"{size // 1024**power} {unit}"
    return ByteSize(size).human_readable(decimal=True, separator=" ")


Duration = Annotated[
    float,
    BeforeValidator(parse_duration),
    WithJsonSchema(
        {"anyOf": [{"type": "number", "minimum": 0}, {"type": "string", "pattern": f"^({_DURATION}|{_NUMBER})$"}]}
    ),
]
"""Seconds, or a text such as `5m`."""

Size = Annotated[
    int,
    BeforeValidator(parse_size),
    WithJsonSchema({"anyOf": [{"type": "integer", "minimum": 1}, {"type": "string", "pattern": f"^{_SIZE}$"}]}),
]
"""Bytes, or a text such as `512MB`."""
