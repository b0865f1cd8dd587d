"""Answers without JSON around them: one of some choices, or text that matches a pattern."""

from __future__ import annotations

import enum
import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Literal, get_args, get_origin


@dataclass(frozen=True, slots=True)
class BareAnswer:
    """The form of an answer without JSON around it."""

    constraint: Any
    """What a local model is constrained to: a `Literal`, an `Enum`, or a regular expression of Outlines."""

    instructions: str
    choices: Mapping[str, Any] | None = None
    pattern: re.Pattern[str] | None = None

    @property
    def opening(self) -> str:
        """The text before the answer where it is written inside JSON."""
        numbers = self.choices is not None and not any(isinstance(value, str) for value in self.choices.values())
        return "" if numbers else '"'

    def read(self, text: str) -> str | None:
        """Return the answer as JSON, if the text is an answer and nothing else."""
        text = text.strip()
        if self.choices is not None:
            return json.dumps(self.choices[text]) if text in self.choices else None
        return json.dumps(text) if self.pattern is not None and self.pattern.search(text) else None

    def find(self, text: str) -> str | None:
        """Return the answer of an unconstrained model as JSON; quotes, a full stop and another case are ignored."""
        answer = self.read(text)
        if answer is None and self.choices is not None:
            normalized = _normalized(text)
            matching = [choice for choice in self.choices if _normalized(choice) == normalized]
            answer = json.dumps(self.choices[matching[0]]) if len(matching) == 1 else None
        return answer


def bare_answer(output_type: Any) -> BareAnswer | None:
    """Return how a value of the type is written without JSON; None where it is not."""
    metadata: tuple[Any, ...] = ()
    while get_origin(output_type) is Annotated:
        output_type, *more = get_args(output_type)
        metadata += tuple(more)
    choices = _choices(output_type)
    if choices is not None:
        return BareAnswer(output_type, f"exactly one of these, and nothing else: {'; '.join(choices)}", choices)
    pattern = _pattern(metadata) if output_type is str else None
    if pattern is None:
        return None
    try:
        compiled = re.compile(pattern)
    except re.error:  # pydantic's own engine knows it, Python does not: it stays a JSON schema
        return None
    return BareAnswer(_regex(pattern), f"only text that matches {pattern}", pattern=compiled)


def _choices(output_type: Any) -> dict[str, Any] | None:
    if get_origin(output_type) is Literal:
        values = list(get_args(output_type))
    elif isinstance(output_type, type) and issubclass(output_type, enum.Enum):
        values = [member.value for member in output_type]
    else:
        return None
    plain = all(isinstance(value, str | int | float) and not isinstance(value, bool | enum.Enum) for value in values)
    texts = {str(value): value for value in values}
    # Two values that are written alike, and texts with space around them, cannot be told apart without JSON.
    distinct = len(texts) == len(values) and all(text == text.strip() != "" for text in texts)
    return texts if plain and distinct else None


def _pattern(metadata: Sequence[Any]) -> str | None:
    for entry in metadata:
        for part in (entry, *getattr(entry, "metadata", ())):  # pydantic's FieldInfo keeps the constraint inside
            pattern = getattr(part, "pattern", None)
            if pattern is not None:
                return str(getattr(pattern, "pattern", pattern))
    return None


def _regex(pattern: str) -> Any:
    """Return the pattern for Outlines, whose expressions match the whole text; a schema where Outlines is missing."""
    whole = pattern.removeprefix("^")
    if whole.endswith("$") and not whole.endswith(r"\$"):
        whole = whole[:-1]
    try:
        from outlines.types import Regex
    except ImportError:
        return {"type": "string", "pattern": pattern}
    return Regex(whole)


def _normalized(text: str) -> str:
    return text.strip().strip("\"'`*.!").strip().casefold()
