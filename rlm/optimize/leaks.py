"""Answers of training rows in instructions: an instruction that quotes them has learned rows by heart."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any

from .rows import LabeledRow

_MIN_CHARS = 3
_LABEL_SHARE = 0.1
"""A value that is the answer of more of the rows is a label, which instructions may name."""


def find_leaks(instructions: str, task: str, rows: Sequence[LabeledRow]) -> list[str]:
    """Return the answers of rows that are in the instructions and not in the task's own words, each once."""
    answers = Counter(answer for row in rows for answer in set(_leaves(row.expected)))
    often = max(1, len(rows) * _LABEL_SHARE)
    return [
        answer
        for answer, count in answers.items()
        if count <= often and len(answer) >= _MIN_CHARS and _has(instructions, answer) and not _has(task, answer)
    ]


def _has(text: str, value: str) -> bool:
    return re.search(rf"(?<!\w){re.escape(value)}(?!\w)", text, re.IGNORECASE) is not None


def _leaves(value: Any) -> Iterator[str]:
    if isinstance(value, dict):
        for part in value.values():
            yield from _leaves(part)
    elif isinstance(value, list | tuple):
        for part in value:
            yield from _leaves(part)
    elif isinstance(value, str):
        yield value.strip()
    elif isinstance(value, int | float) and not isinstance(value, bool):
        yield json.dumps(value)
