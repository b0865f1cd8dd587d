"""The script that a small model completes: the shapes of the inputs and the task as comments, then how code begins.

A coder model is better at completing code than at a conversation about it, and code for data that it has not seen fails
on how the data looks. Which models read this is decided in `profiles.py`.
"""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Mapping, Sequence
from typing import Any

from ..shapes import Shape, describe
from ..signatures import Field, Signature
from .line_facts import fields_of_lines, lines_about
from .prompts import goal_of, shown_whole

_MOST, _WIDTH = 6, 150
_IMPORTS = "import re\nfrom collections import Counter, defaultdict"
_READERS = {
    "JSON": ("data", "json.loads({name})", "import json"),
    "JSON lines": ("records", "[json.loads(line) for line in {name}.splitlines() if line.strip()]", "import json"),
    "CSV": ("rows", "list(csv.DictReader({name}.splitlines()))", "import csv"),
    "TSV": ("rows", "list(csv.DictReader({name}.splitlines(), delimiter='\\t'))", "import csv"),
}
_LINES = ("lines", "{name}.splitlines()", "")
_TASK = "Task: {task}\nSet {outputs}. Use all of the data. Spell text as it is in the lines above."
_KINDS = "The commonest kinds of lines, how many there are of each", "Kinds of lines, how many there are of each"


def script_head(
    signature: Signature,
    inputs: Mapping[str, Any],
    shapes: Mapping[str, Shape],
    notes: Sequence[str] = (),
    shown: Collection[str] = (),
) -> str:
    """Return the comments at the top of the script: what is in the inputs, and the task with what is `shown`."""
    task = task_of(signature, inputs, shown)
    parts = [_described(name, value, shapes.get(name), task) for name, value in inputs.items() if value not in (task,)]
    outputs = ", ".join(_output(field) for field in signature.outputs)
    texts = {name: inputs[name] for name in shapes}
    parts += [about for text in list(texts.values())[:1] if (about := lines_about(task, text))]
    parts += [*notes, _TASK.format(task=task, outputs=outputs)]
    return "\n#\n".join(map(as_comments, parts))


def as_comments(text: str) -> str:
    """Return a text as the lines of a comment."""
    return "\n".join(f"# {line}".rstrip() for line in text.splitlines())


def script_opening(shapes: Mapping[str, Shape], taken: Collection[str]) -> str:
    """Return the first lines of code: imports, and the longest input taken apart. `taken` are names in use."""
    for name, shape in shapes.items():
        variable, reader, needed = _READERS.get(shape.kind, _LINES)
        if shape.kind != "one line" and variable not in taken:
            imports = "\n".join(filter(None, (needed, _IMPORTS)))
            return f"{imports}\n\n{variable} = {reader.format(name=name)}\n"
    return f"{_IMPORTS}\n"


def text_shapes(inputs: Mapping[str, Any]) -> dict[str, Shape]:
    """Return the shapes of the long texts, the longest first."""
    texts = {name: value for name, value in inputs.items() if isinstance(value, str) and not shown_whole(value)}
    return {name: describe(texts[name]) for name in sorted(texts, key=lambda name: -len(texts[name]))}


def task_of(signature: Signature, inputs: Mapping[str, Any], shown: Collection[str] = ()) -> str:
    """Return the task in words: the instructions, where somebody wrote some, and the inputs that are sentences."""
    goal = goal_of(signature, inputs, shown)
    own = signature.instructions
    return goal if goal == own or re.match(r"(Given `|Produce `)", own) else f"{own}\n{goal}"


def _output(field: Field) -> str:
    return f"`{field.name}` ({field.type_text})" + (f": {field.description}" if field.description else "")


def _described(name: str, value: Any, shape: Shape | None, task: str) -> str:
    kind = type(value).__name__
    if shape is not None:
        text = f"`{name}` is a {kind}: {shape.text(most=_MOST, width=_WIDTH).replace(*_KINDS)}"
        return f"{text}\n{fields_of_lines(value)}" if shape.kind == "log" else text
    if shown_whole(value):
        return f"{name} = {json.dumps(value, ensure_ascii=False) if isinstance(value, str) else repr(value)}"
    return f"`{name}` is a {kind}: {describe(value).text(most=_MOST, width=_WIDTH)}"
