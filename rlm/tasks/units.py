"""Durations and sizes as people write them: `5m`, `1h30m`, `512MB`."""

from __future__ import annotations

import re
from typing import Annotated, Any

from pydantic import BeforeValidator, WithJsonSchema

_SECONDS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}
_BYTES = {"": 1, "k": 1024, "m": 1024**2, "g": 1024**3, "t": 1024**4}
_NUMBER = r"[0-9]+(?:\.[0-9]+)?"
_DURATION = rf"(?:{_NUMBER} ?(?:ms|s|m|h|d) ?)+"
_SIZE = rf"({_NUMBER}) ?([kKmMgGtT]?)i?[bB]"


def parse_duration(value: Any) -> Any:
    """Seconds from a text such as `5m`; anything that is not text is handed through to be checked."""
    if not isinstance(value, str):
        return value
    text = value.strip()
    if re.fullmatch(_NUMBER, text):
        return float(text)
    if not re.fullmatch(_DURATION, text):
        raise ValueError("a duration is a number of seconds or a text such as 90s, 5m or 1h30m")
    return sum(float(number) * _SECONDS[unit] for number, unit in re.findall(rf"({_NUMBER}) ?(ms|s|m|h|d)", text))


def parse_size(value: Any) -> Any:
    """Bytes from a text such as `512MB`; anything that is not text is handed through to be checked."""
    if not isinstance(value, str):
        return value
    found = re.fullmatch(_SIZE, value.strip())
    if found is None:
        raise ValueError("a size is a number of bytes or a text such as 512MB or 2GB")
    return int(float(found[1]) * _BYTES[found[2].lower()])


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
