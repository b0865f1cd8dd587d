"""Answers that stand by themselves, without JSON around them: one of some choices, or text that fits a pattern."""

from __future__ import annotations

import enum
import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Literal, get_args, get_origin


@dataclass(frozen=True, slots=True)
class Bare:
    """How an answer stands by itself."""

    constraint: Any
    """What a local model is held to: a `Literal`, an `Enum`, or a regular expression of Outlines."""

    words: str
    choices: Mapping[str, Any] | None = None
    pattern: re.Pattern[str] | None = None

    @property
    def opening(self) -> str:
        """What stands before the answer where it is inside JSON."""
        numbers = self.choices is not None and not any(isinstance(one, str) for one in self.choices.values())
        return "" if numbers else '"'

    def read(self, text: str) -> str | None:
        """The answer as it stands in JSON, if the text is one and nothing else."""
        text = text.strip()
        if self.choices is not None:
            return json.dumps(self.choices[text]) if text in self.choices else None
        return json.dumps(text) if self.pattern is not None and self.pattern.search(text) else None

    def find(self, text: str) -> str | None:
        """As `read`, for a model that was not held to it: quotes, a full stop and another case do no harm."""
        found = self.read(text)
        if found is None and self.choices is not None:
            wanted = _loose(text)
            same = [choice for choice in self.choices if _loose(choice) == wanted]
            found = json.dumps(self.choices[same[0]]) if len(same) == 1 else None
        return found


def bare_of(kind: Any) -> Bare | None:
    """How a value of this type stands by itself; None where it does not."""
    metadata: tuple[Any, ...] = ()
    while get_origin(kind) is Annotated:
        kind, *more = get_args(kind)
        metadata += tuple(more)
    choices = _choices(kind)
    if choices is not None:
        return Bare(kind, f"exactly one of these, and nothing else: {'; '.join(choices)}", choices)
    pattern = _pattern(metadata) if kind is str else None
    if pattern is None:
        return None
    try:
        compiled = re.compile(pattern)
    except re.error:  # pydantic's own engine knows it, Python does not: it stays a JSON schema
        return None
    return Bare(_regex(pattern), f"only text that matches {pattern}", pattern=compiled)


def _choices(kind: Any) -> dict[str, Any] | None:
    if get_origin(kind) is Literal:
        values = list(get_args(kind))
    elif isinstance(kind, type) and issubclass(kind, enum.Enum):
        values = [member.value for member in kind]
    else:
        return None
    fit = all(isinstance(one, str | int | float) and not isinstance(one, bool | enum.Enum) for one in values)
    texts = {str(one): one for one in values}
    # Two values that are written alike, and texts with space around them, cannot be told apart by themselves.
    return texts if fit and len(texts) == len(values) and all(text == text.strip() != "" for text in texts) else None


def _pattern(metadata: Sequence[Any]) -> str | None:
    for one in metadata:
        for part in (one, *getattr(one, "metadata", ())):  # pydantic's FieldInfo keeps the constraint inside
            pattern = getattr(part, "pattern", None)
            if pattern is not None:
                return str(getattr(pattern, "pattern", pattern))
    return None


def _regex(pattern: str) -> Any:
    """For Outlines, whose expressions cover the whole text; a schema where Outlines is not installed."""
    whole = pattern.removeprefix("^")
    if whole.endswith("$") and not whole.endswith(r"\$"):
        whole = whole[:-1]
    try:
        from outlines.types import Regex
    except ImportError:
        return {"type": "string", "pattern": pattern}
    return Regex(whole)


def _loose(text: str) -> str:
    return text.strip().strip("\"'`*.!").strip().casefold()
