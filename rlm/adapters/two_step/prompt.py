"""The first step's prompt: a task for a person, without markers and without JSON."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from importlib.resources import files
from string import Template
from typing import Any

from dspy.adapters.base import Adapter
from dspy.adapters.utils import format_field_value, get_field_description_string, serialize_for_json


class Words(str):
    """What a model said, in place of each output that it is to be found in."""

    __slots__ = ()


class WordsAdapter(Adapter):  # type: ignore[misc]
    """Asks in plain words; the answer is kept as it is."""

    def format_system_message(self, signature: Any) -> str:
        """The task, what is given and what the answer has to say."""
        return text("words").substitute(
            instructions=signature.instructions,
            inputs=get_field_description_string(signature.input_fields) or "nothing",
            outputs=get_field_description_string(signature.output_fields),
        )

    def format_user_message_content(
        self, signature: Any, inputs: Mapping[str, Any], prefix: str = "", suffix: str = "", main_request: bool = False
    ) -> str:
        """The inputs, each under its name."""
        given = [f"{name}:\n{value}" for name, value in named_inputs(signature, inputs)]
        return "\n\n".join([prefix, *given, suffix]).strip() or "Go ahead."

    def format_assistant_message_content(
        self, signature: Any, outputs: Mapping[str, Any], missing_field_message: str | None = None
    ) -> str:
        """An example's answer, in words."""
        return in_words(signature, outputs)

    def parse(self, signature: Any, completion: str) -> dict[str, Any]:
        """The answer as it is, for every output."""
        return dict.fromkeys(signature.output_fields, Words(completion))


def named_inputs(signature: Any, inputs: Mapping[str, Any]) -> list[tuple[str, str]]:
    """The inputs that are given, as texts, each with its name as words."""
    fields = [(name, field) for name, field in signature.input_fields.items() if name in inputs]
    return [(plainly(name), format_field_value(field_info=field, value=inputs[name])) for name, field in fields]


def in_words(signature: Any, outputs: Mapping[str, Any]) -> str:
    """Outputs as a person would write them down."""
    given = {name: serialize_for_json(outputs[name]) for name in signature.output_fields if name in outputs}
    return "\n".join(f"The {plainly(name)}: {_told(value)}" for name, value in given.items())


def plainly(name: str) -> str:
    """The name of a field as words."""
    return name.replace("_", " ")


def _told(value: Any) -> str:
    if isinstance(value, dict):
        return ", ".join(f"{plainly(str(name))} {_told(part)}" for name, part in value.items())
    if isinstance(value, list):
        return "; ".join(map(_told, value)) or "none"
    return "none" if value is None else str(value)


@cache
def text(name: str) -> Template:
    """A prompt of this package."""
    return Template(files(__package__).joinpath("prompts", f"{name}.txt").read_text(encoding="utf-8").strip())
