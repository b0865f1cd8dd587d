"""The prompt that asks for the outputs of a run that did not submit, and the schema that its answer is held to.

In that schema every field may be null: a model that has to give a number where there is none invents one. What a null
means is decided afterwards, by `settle_nulls`: in a nullable field it is the value; a field with a default takes the
default; any other field is missing, and the run ends as `Failed` with the rest in `partial_outputs`.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib.resources import files
from string import Template
from typing import TYPE_CHECKING, Any

from ..history import REPLHistoryEntry, render
from ..signatures import Field, Signature
from ..text import cut_middle

if TYPE_CHECKING:
    from sandbox.results import Variable

NOTES = "_extraction_notes"
MAX_CHARS = 60_000
SHORTER = (20_000, 6_000)
"""For models that cannot read as much."""

_MAX_VALUE = 4_000  # characters of one variable, however much room there is
_MIN_LINE = 80
_NONE = "(none)"


@dataclass(frozen=True, slots=True)
class ExtractFallbackInputs:
    """All that an extraction has to go on."""

    history: Sequence[REPLHistoryEntry]
    variables: Mapping[str, Variable]
    output_fields: Sequence[Field]
    fallback_reason: str


def build(inputs: ExtractFallbackInputs, signature: Signature, max_chars: int = MAX_CHARS) -> str:
    """The prompt, in at most `max_chars` characters.

    The oldest history is shortened first, then the variables; a third is theirs, however long the task is.
    """
    asked = {
        "task": signature.instructions,
        "output_fields": signature.field_list(inputs.output_fields),
        "output_schema": json.dumps(extraction_schema(signature), ensure_ascii=False),
    }
    template = Template(files(__package__).joinpath("prompts", "fallback.txt").read_text(encoding="utf-8"))
    about = max_chars * 2 // 3 - len(template.template) - len(inputs.fallback_reason)
    parts = dict(zip(asked, _level(list(asked.values()), about), strict=True))
    parts |= {"fallback_reason": inputs.fallback_reason, "history": "", "variables": ""}
    room = max_chars - len(template.substitute(parts))
    if room < 2 * len(_NONE):
        needed = max_chars - room
        raise ValueError(f"max_chars={max_chars} has no room for the history: the rest takes {needed} characters")
    parts["history"], parts["variables"] = _share(inputs, room)
    # A single pass: what looks like a placeholder inside the history stays what it is.
    return template.substitute(parts)


def _share(inputs: ExtractFallbackInputs, room: int) -> tuple[str, str]:
    """The history and the variables in the room for both."""
    lines = [_variable(variable) for variable in inputs.variables.values()] or [_NONE]
    history, variables = render(inputs.history).rstrip() or _NONE, "\n".join(lines)
    if len(history) + len(variables) > room:
        # The variables keep what they need up to half; what the last iterations printed is worth as much as they are.
        history = render(inputs.history, max(room - len(variables), room // 2)).rstrip() or _NONE
        variables = _fit(lines, room - len(history))
    return history, variables


def _fit(lines: list[str], max_chars: int) -> str:
    """The lines in so much room."""
    return cut_middle("\n".join(line.replace("\n", " ") for line in _level(lines, max_chars)), max_chars)


def _level(texts: list[str], max_chars: int) -> list[str]:
    """The texts in so much room: the longest are cut down to one length, so that short ones stay whole."""
    length = max(map(len, texts))
    while length > _MIN_LINE and sum(min(len(text), length) + 1 for text in texts) > max_chars:
        length = max(_MIN_LINE, length * 9 // 10)
    return [cut_middle(text, length) for text in texts]


def _variable(variable: Variable) -> str:
    """One line: the value where it is known, a preview where not."""
    value = json.dumps(variable.value, ensure_ascii=False) if variable.has_value else variable.preview
    size = "" if variable.size is None or variable.has_value else f", size {variable.size}"
    return f"- {variable.name} ({variable.type}{size}) = {cut_middle(value, _MAX_VALUE)}"


def extraction_schema(signature: Signature) -> dict[str, Any]:
    """The schema of the outputs with every field nullable and required, and notes allowed."""
    schema = signature.output_schema()
    for field in signature.outputs:
        asked = dict(schema["properties"][field.name])
        asked.pop("default", None)
        if not field.nullable:
            about = {key: asked.pop(key) for key in ("description",) if key in asked}
            asked = {"anyOf": [asked, {"type": "null"}], **about}
        schema["properties"][field.name] = asked
    schema["properties"][NOTES] = {"anyOf": [{"type": "string"}, {"type": "null"}]}
    schema["required"] = [field.name for field in signature.outputs]
    return schema


def split_notes(value: Mapping[str, Any]) -> tuple[dict[str, Any], str | None]:
    """The outputs of an answer without the notes, and the notes."""
    outputs = dict(value)
    notes = outputs.pop(NOTES, None)
    if notes is not None and not isinstance(notes, str):
        notes = json.dumps(notes, ensure_ascii=False)
    return outputs, notes or None


def settle_nulls(outputs: Mapping[str, Any], signature: Signature) -> tuple[dict[str, Any], tuple[str, ...]]:
    """The outputs without nulls where null is no value, and the fields that are missing for it."""
    fields = {field.name: field for field in signature.outputs}
    settled = {
        name: value
        for name, value in outputs.items()
        if value is not None or name not in fields or fields[name].nullable
    }
    return settled, tuple(name for name, field in fields.items() if field.required and name not in settled)


def missing_fields(outputs: Mapping[str, Any], signature: Signature) -> tuple[str, ...]:
    """The fields without which there is no result: null or absent, not nullable and without a default."""
    return settle_nulls(outputs, signature)[1]
