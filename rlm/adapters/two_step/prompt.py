"""The prompt of the first step: a task in plain words, without markers and without JSON."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from importlib.resources import files
from string import Template
from typing import Any

from dspy.adapters.base import Adapter

from ...dspy_bridge import format_field_value, get_field_description_string, serialize_for_json


class Words(str):
    """A model's answer in its own words, in place of each output that is to be extracted from it."""

    __slots__ = ()


class FreeTextAdapter(Adapter):  # type: ignore[misc]
    """Asks in plain words, and returns the answer as it is."""

    def format_system_message(self, signature: Any) -> str:
        """Return the task, its inputs and what the answer has to contain."""
        return text("words").substitute(
            instructions=signature.instructions,
            inputs=get_field_description_string(signature.input_fields) or "nothing",
            outputs=get_field_description_string(signature.output_fields),
        )

    def format_user_message_content(
        self, signature: Any, inputs: Mapping[str, Any], prefix: str = "", suffix: str = "", main_request: bool = False
    ) -> str:
        """Return the inputs, each under its name."""
        named = [f"{name}:\n{value}" for name, value in named_inputs(signature, inputs)]
        return "\n\n".join([prefix, *named, suffix]).strip() or "Go ahead."

    def format_assistant_message_content(
        self, signature: Any, outputs: Mapping[str, Any], missing_field_message: str | None = None
    ) -> str:
        """Return the answer of an example, in words."""
        return in_words(signature, outputs)

    def parse(self, signature: Any, completion: str) -> dict[str, Any]:
        """Return the answer as it is, for every output."""
        return dict.fromkeys(signature.output_fields, Words(completion))


def named_inputs(signature: Any, inputs: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Return the inputs as texts, each with its name in words."""
    fields = [(name, field) for name, field in signature.input_fields.items() if name in inputs]
    return [(_name_in_words(name), format_field_value(field_info=field, value=inputs[name])) for name, field in fields]


def in_words(signature: Any, outputs: Mapping[str, Any]) -> str:
    """Return outputs as a person would write them down."""
    values = {name: serialize_for_json(outputs[name]) for name in signature.output_fields if name in outputs}
    return "\n".join(f"The {_name_in_words(name)}: {_value_in_words(value)}" for name, value in values.items())


def _name_in_words(name: str) -> str:
    return name.replace("_", " ")


def _value_in_words(value: Any) -> str:
    if isinstance(value, dict):
        return ", ".join(f"{_name_in_words(str(name))} {_value_in_words(part)}" for name, part in value.items())
    if isinstance(value, list):
        return "; ".join(map(_value_in_words, value)) or "none"
    return "none" if value is None else str(value)


@cache
def text(name: str) -> Template:
    """Return a prompt file of this package."""
    return Template(files(__package__).joinpath("prompts", f"{name}.txt").read_text(encoding="utf-8").strip())
