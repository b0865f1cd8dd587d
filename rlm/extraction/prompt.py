"""The prompt for the outputs of a run that did not submit, and the schema of the answer.

In this schema every field may be null: a model that must give a number where there is none invents one. `settle_nulls`
decides what a null means: in a nullable field it is the value; a field with a default gets the default; any other field
is missing, and the run ends as `Failed` with the rest in `partial_outputs`.
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
"""Lengths for models with a smaller context."""

_MAX_VALUE = 4_000  # characters of one variable
_MIN_LINE = 80
_NONE = "(none)"


@dataclass(frozen=True, slots=True)
class ExtractFallbackInputs:
    """What the prompt of an extraction is made of."""

    history: Sequence[REPLHistoryEntry]
    variables: Mapping[str, Variable]
    output_fields: Sequence[Field]
    fallback_reason: str


def build(inputs: ExtractFallbackInputs, signature: Signature, max_chars: int = MAX_CHARS) -> str:
    """Return the prompt, in at most `max_chars` characters.

    The oldest history is shortened first, then the variables; a third is for these two, however long the task is.
    """
    task = {
        "task": signature.instructions,
        "output_fields": signature.field_list(inputs.output_fields),
        "output_schema": json.dumps(extraction_schema(signature), ensure_ascii=False),
    }
    template = Template(files(__package__).joinpath("prompts", "fallback.txt").read_text(encoding="utf-8"))
    room_for_task = max_chars * 2 // 3 - len(template.template) - len(inputs.fallback_reason)
    parts = dict(zip(task, _level(list(task.values()), room_for_task), strict=True))
    parts |= {"fallback_reason": inputs.fallback_reason, "history": "", "variables": ""}
    room = max_chars - len(template.substitute(parts))
    if room < 2 * len(_NONE):
        needed = max_chars - room
        raise ValueError(f"max_chars={max_chars} has no room for the history: the rest takes {needed} characters")
    parts["history"], parts["variables"] = _share(inputs, room)
    # A single pass: placeholders in the history are text.
    return template.substitute(parts)


def _share(inputs: ExtractFallbackInputs, room: int) -> tuple[str, str]:
    """Return the history and the variables, in `room` characters together."""
    lines = [_variable(variable) for variable in inputs.variables.values()] or [_NONE]
    history, variables = render(inputs.history).rstrip() or _NONE, "\n".join(lines)
    if len(history) + len(variables) > room:
        # The variables get up to half of the room: the output of the last iterations is worth as much.
        history = render(inputs.history, max(room - len(variables), room // 2)).rstrip() or _NONE
        variables = _fit(lines, room - len(history))
    return history, variables


def _fit(lines: list[str], max_chars: int) -> str:
    """Return the lines in at most `max_chars` characters."""
    return cut_middle("\n".join(line.replace("\n", " ") for line in _level(lines, max_chars)), max_chars)


def _level(texts: list[str], max_chars: int) -> list[str]:
    """Return the texts in at most `max_chars`: the longest are cut to one length, short ones stay whole."""
    length = max(map(len, texts))
    while length > _MIN_LINE and sum(min(len(text), length) + 1 for text in texts) > max_chars:
        length = max(_MIN_LINE, length * 9 // 10)
    return [cut_middle(text, length) for text in texts]


def _variable(variable: Variable) -> str:
    """Return a line with the value of a variable, or its preview if the value is not known."""
    value = json.dumps(variable.value, ensure_ascii=False) if variable.has_value else variable.preview
    size = "" if variable.size is None or variable.has_value else f", size {variable.size}"
    return f"- {variable.name} ({variable.type}{size}) = {cut_middle(value, _MAX_VALUE)}"


def extraction_schema(signature: Signature) -> dict[str, Any]:
    """Return the schema of the outputs, with every field nullable and required, and with notes."""
    schema = signature.output_schema()
    for field in signature.outputs:
        nullable = dict(schema["properties"][field.name])
        nullable.pop("default", None)
        if not field.nullable:
            description = {key: nullable.pop(key) for key in ("description",) if key in nullable}
            nullable = {"anyOf": [nullable, {"type": "null"}], **description}
        schema["properties"][field.name] = nullable
    schema["properties"][NOTES] = {"anyOf": [{"type": "string"}, {"type": "null"}]}
    schema["required"] = [field.name for field in signature.outputs]
    return schema


def split_notes(value: Mapping[str, Any]) -> tuple[dict[str, Any], str | None]:
    """Return the outputs of an answer without the notes, and the notes."""
    outputs = dict(value)
    notes = outputs.pop(NOTES, None)
    if notes is not None and not isinstance(notes, str):
        notes = json.dumps(notes, ensure_ascii=False)
    return outputs, notes or None


def settle_nulls(outputs: Mapping[str, Any], signature: Signature) -> tuple[dict[str, Any], tuple[str, ...]]:
    """Return the outputs without nulls that are no values, and the fields that are missing because of it."""
    fields = {field.name: field for field in signature.outputs}
    settled = {
        name: value
        for name, value in outputs.items()
        if value is not None or name not in fields or fields[name].nullable
    }
    return settled, tuple(name for name, field in fields.items() if field.required and name not in settled)


def missing_fields(outputs: Mapping[str, Any], signature: Signature) -> tuple[str, ...]:
    """Return the fields that a result needs and `outputs` lacks: not nullable and without a default."""
    return settle_nulls(outputs, signature)[1]
