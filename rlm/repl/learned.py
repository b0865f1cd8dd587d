"""What an optimizer has found for a task: instructions and examples, which go in front of the system prompt."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ..errors import RlmError
from ..files import write_atomic
from ..json_values import jsonable
from ..text import cut_middle

FORMAT = 1
_MAX_INPUT_CHARS = 600
_STEP = ("conversation", "reply")


class LearnedFileError(RlmError, ValueError):
    """A file that `learned:` of a task names cannot be used."""


@dataclass(frozen=True, slots=True)
class Learned:
    """Instructions and examples. An example is a step (`conversation` and `reply`), or inputs with their outputs."""

    instructions: str = ""
    demos: tuple[Mapping[str, Any], ...] = ()

    def before(self, system: str, outputs: Sequence[str]) -> str:
        """Return a system prompt with this in front and behind it. `outputs` are the names of the task's outputs."""
        examples = [text for demo in self.demos if (text := _example(demo, outputs))]
        front = [self.instructions] if self.instructions else []
        return "\n\n".join([*front, system, *examples])

    def to_dict(self) -> dict[str, Any]:
        """Return this as plain JSON values."""
        return {"instructions": self.instructions, "demos": [jsonable(dict(demo)) for demo in self.demos]}


def write_learned(path: Path, learned: Learned, about: Mapping[str, Any]) -> None:
    """Write a file for `learned:` of a task. `about` says how it was found."""
    content = {"format": FORMAT, **learned.to_dict(), "about": dict(about)}
    write_atomic(path, json.dumps(content, indent=2, ensure_ascii=False) + "\n")


def read_learned(path: Path) -> Learned:
    """Return what a file has. Raises `LearnedFileError`."""
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise LearnedFileError(f"{path}: cannot be read: {error.strerror}") from None
    except ValueError as error:
        raise LearnedFileError(f"{path}: not JSON: {error}") from None
    if not isinstance(content, dict) or content.get("format") != FORMAT:
        raise LearnedFileError(f"{path}: this is no file that `rlm optimize` wrote (format {FORMAT})")
    instructions, demos = content.get("instructions"), content.get("demos")
    if not isinstance(instructions, str) or not isinstance(demos, list) or not all(isinstance(d, dict) for d in demos):
        raise LearnedFileError(f"{path}: `instructions` is a text and `demos` a list of mappings; this is damaged")
    return Learned(instructions, tuple(demos))


def _example(demo: Mapping[str, Any], outputs: Sequence[str]) -> str:
    if demo.get("reply"):
        return f"Example:\n{demo.get('conversation', '')}\n{demo['reply']}"
    answers = {name: demo[name] for name in outputs if demo.get(name) is not None}
    if not answers:
        return ""
    hidden = {*outputs, *_STEP, "augmented"}
    given = [f"{name} = {_short(value)}" for name, value in demo.items() if name not in hidden]
    right = [f"{name} = {_short(value)}" for name, value in answers.items()]
    return "\n".join(["Example of the task, with the right answer:", *given, *right])


def _short(value: Any) -> str:
    text = value if isinstance(value, str) else json.dumps(jsonable(value), ensure_ascii=False)
    return cut_middle(text, _MAX_INPUT_CHARS, separator=" ")
