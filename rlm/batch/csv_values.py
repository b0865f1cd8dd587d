"""Cells of a CSV file as typed inputs: text where the signature takes text, and otherwise what it says as JSON."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

from ..signatures import Signature

_READINGS: tuple[Callable[[str], Any], ...] = (
    str,
    json.loads,
    lambda text: json.loads(text.strip().lower()),  # TRUE and NULL, as spreadsheets write them
    lambda text: None if not text.strip() else json.loads(""),
)


class Cells:
    """Reads the cells of one file for one signature."""

    def __init__(self, signature: Signature) -> None:
        self._signature = signature

    def typed(self, name: str, text: str) -> Any:
        """What a cell says, as the signature wants it; the text itself where it does not fit, for the message."""
        for read in _READINGS:
            try:
                value = read(text)
                if self._signature.takes(name, value):
                    return value
            except (ValueError, RecursionError):
                continue
        return text
