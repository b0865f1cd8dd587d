"""What the server answers: its task files by name. Clients give inputs, and nothing that would be code."""

from __future__ import annotations

import base64
import binascii
import json
import keyword
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from ..repl.tools import RESERVED
from ..task_session import QUESTION, task_of_inputs
from ..tasks import Task
from .errors import RequestRefused, bad_request

_MAX_INPUTS = 200
_MAX_NAME = 64
_BYTES = "$bytes"


@dataclass(frozen=True)
class ServedTask:
    """A task under its name, which clients give as `model`."""

    name: str
    task: Task

    free: bool = False
    """Whether the inputs are those that a client gives, and an answer is text: no task file."""

    @property
    def has_sessions(self) -> bool:
        """Whether questions can be asked in a session: plans need a kernel for each run."""
        return self.task.plans is None and self.task.agreement is None

    def with_inputs(self, inputs: Mapping[str, Any]) -> Task:
        """Return the task of one run. The inputs are values, whatever they look like: no file is read."""
        if self.free:
            source = self.task.source or {}
            others = {name: value for name, value in inputs.items() if name != QUESTION}
            made = task_of_inputs(others, source.get("models") or {}, source.get("budget") or {})
            return replace(made, inputs=dict(inputs))
        return replace(self.task, inputs={**self.task.inputs, **inputs})

    def divided(self, inputs: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
        """Return the inputs that the signature has, and further ones."""
        known = {field.name for field in self.task.signature.inputs}
        own = {name: value for name, value in inputs.items() if name in known}
        return own, {name: value for name, value in inputs.items() if name not in known}

    def about(self) -> dict[str, Any]:
        """Return what clients may know about the task."""
        signature = self.task.signature
        return {
            "instructions": signature.instructions,
            "inputs": [
                {
                    "name": field.name,
                    "type": field.type_text,
                    "required": field.required and field.name not in self.task.inputs and field.name != QUESTION,
                }
                for field in signature.inputs
            ],
            "outputs": [{"name": output.name, "type": output.type_text} for output in signature.outputs],
            "sessions": self.has_sessions,
        }


def read_inputs(inputs: Mapping[str, Any]) -> dict[str, Any]:
    """Return the inputs of a request as values; `{"$bytes": "..."}` is bytes in base64. Raise `RequestRefused`."""
    if len(inputs) > _MAX_INPUTS:
        raise bad_request(f"{len(inputs)} inputs are too many: {_MAX_INPUTS} at most", "inputs")
    for name in inputs:
        if not name.isidentifier() or keyword.iskeyword(name) or len(name) > _MAX_NAME or name.startswith("_"):
            shown = name[:_MAX_NAME]
            raise bad_request(f"{shown!r} cannot be the name of an input: it is to be a Python name", "inputs")
        if name in RESERVED:
            raise bad_request(f"{name!r} is a name of the REPL: give the input another one", "inputs")
    return {name: _value(name, value) for name, value in inputs.items()}


def size_of(value: Any) -> int:
    """Return the bytes of an input, as they are counted for the limits of a token."""
    if isinstance(value, bytes):
        return len(value)
    if isinstance(value, str):
        return len(value.encode("utf-8", "surrogatepass"))
    if isinstance(value, Mapping):
        return 2 + sum(size_of(key) + size_of(item) + 2 for key, item in value.items())
    if isinstance(value, list | tuple):
        return 2 + sum(size_of(item) + 1 for item in value)
    return len(json.dumps(value))


def _value(name: str, value: Any) -> Any:
    if isinstance(value, dict) and set(value) == {_BYTES}:
        try:
            return base64.b64decode(value[_BYTES], validate=True)
        except (binascii.Error, TypeError, ValueError):
            raise RequestRefused(
                400, f"input {name}: {_BYTES} is not base64", "invalid_request", param="inputs"
            ) from None
    return value
