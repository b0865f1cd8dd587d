"""The prompt of a direct question: the task with its inputs whole, each under a heading of its own."""

from __future__ import annotations

import functools
import json
from collections.abc import Mapping
from importlib.resources import files
from string import Template
from typing import Any

from ..signatures import Signature


def direct_prompt(signature: Signature, inputs: Mapping[str, Any]) -> str:
    """Return the prompt, with texts as they are and other inputs as JSON."""
    sections = [f"### {name}\n\n{_text(value)}" for name, value in inputs.items()]
    return _template().substitute(
        task=signature.instructions,
        inputs="\n\n".join(sections),
        output_fields=signature.field_list(),
        output_schema=json.dumps(signature.output_schema(), ensure_ascii=False),
    )


@functools.cache
def _template() -> Template:
    return Template(files(__package__).joinpath("direct.md").read_text(encoding="utf-8"))


def _text(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=str)
