"""The script that a small model completes: the shapes of the inputs and the task as comments, then how code begins.

A coder model is better at completing code than at a conversation about it, and code for data that it has not seen fails
on how the data looks. Which models read this is decided in `profiles.py`.
"""

from __future__ import annotations

import json
import math
import re
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from typing import Any

from ..shapes import Shape, describe
from ..signatures import Field, Signature
from ..text import shorten
from .prompts import goal_of, shown_whole

_MOST, _WIDTH = 6, 150
_PLACES, _FEW_VALUES, _FEW_LINES = 12, 8, 5
_SAMPLED_PARTS, _SAMPLED_CHARS = 40, 10_000
_SEARCHED_CHARS, _STEMS, _ABOUT, _ABOUT_WIDTH = 5_000_000, 16, 3, 200
_ENDING = re.compile(r"(?<=\w{4})(?:ing|ed|es|ions?|ment|s)$")
_COMMON_WORDS = """
the and for are was were that this with what which who whom how many much most often times time number count line lines
log logs file does did has have had not from into than more less any all each every there their its give list name names
such per where when then them they one two first last different distinct total occur occurs
"""
_IMPORTS = "import re\nfrom collections import Counter, defaultdict"
_READERS = {
    "JSON": ("data", "json.loads({name})", "import json"),
    "JSON lines": ("records", "[json.loads(line) for line in {name}.splitlines() if line.strip()]", "import json"),
    "CSV": ("rows", "list(csv.DictReader({name}.splitlines()))", "import csv"),
    "TSV": ("rows", "list(csv.DictReader({name}.splitlines(), delimiter='\\t'))", "import csv"),
}
_LINES = ("lines", "{name}.splitlines()", "")
_TASK = "Task: {task}\nSet {outputs}. Use all of the data. Compare text without regard to case."


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
    return "\n#\n".join("\n".join(f"# {line}".rstrip() for line in part.splitlines()) for part in parts)


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


def parts_of_lines(text: str) -> str:
    """Describe the words of the lines by their place: the first line in parts, and the places with few values."""
    lines = [line for line in sample_lines(text) if line.strip()]
    rows = [line.split()[:_PLACES] for line in lines]
    if len(rows) < _FEW_LINES:
        return ""
    numbered = " ".join(f"[{place}] {word[:40]!r}" for place, word in enumerate(rows[0]))
    parts = [f"The first line in parts, as line.split() gives them: {numbered}"]
    for place in range(min(_PLACES, min(map(len, rows)))):
        values = Counter(row[place] for row in rows)
        if 1 < len(values) <= _FEW_VALUES:
            listed = ", ".join(repr(value[:40]) for value, _ in values.most_common())
            parts.append(f"line.split()[{place}] is one of {listed}")
    return "\n".join(parts)


def lines_about(task: str, text: str) -> str:
    """Describe the lines that have the most words of the task in them, however they are spelled, with their number.

    A word that few lines have counts more than one that many have.
    """
    if len(text) > _SEARCHED_CHARS:
        return ""
    lines = text.lower().splitlines()
    originals = text.splitlines()
    stems = [stem for stem in _stems(task) if any(stem in line for line in lines)]
    found = Counter(tuple(stem for stem in stems if stem in line) for line in lines) if stems else Counter()
    if len(lines) != len(originals) or not found:
        return ""
    weights = {stem: math.log(len(lines) / sum(n for key, n in found.items() if stem in key)) for stem in stems}
    ranked = sorted((key for key in found if key), key=lambda key: -sum(weights[stem] for stem in key))
    parts = []
    for key in ranked[:_ABOUT]:
        example = next(line for line, low in zip(originals, lines, strict=True) if _has(low, key, stems))
        parts.append(f"{found[key]:>7,} x  {shorten(example, _ABOUT_WIDTH)}")
    return "\n".join(["Lines with the most words of the task in them, how many there are, and an example:", *parts])


def sample_lines(text: str) -> list[str]:
    """Return some thousand lines from evenly spaced parts of a text."""
    step = max(1, len(text) // _SAMPLED_PARTS)
    if len(text) <= _SAMPLED_PARTS * _SAMPLED_CHARS:
        return text.splitlines()
    parts = (text[start : start + _SAMPLED_CHARS].splitlines()[1:-1] for start in range(0, len(text), step))
    return [line for part in parts for line in part]


def _has(line: str, key: tuple[str, ...], stems: Sequence[str]) -> bool:
    return all((stem in line) is (stem in key) for stem in stems)


def _stems(task: str) -> list[str]:
    """Return the words of a task in lower case, without endings and without words that every question has."""
    common = frozenset(_COMMON_WORDS.split())
    words = re.findall(r"[A-Za-z_][\w.-]{2,}|\d{3,}", task)
    stems = (_ENDING.sub("", word.lower().strip(".-")) for word in words if word.lower() not in common)
    return list(dict.fromkeys(stem for stem in stems if len(stem) >= 3))[:_STEMS]


def _output(field: Field) -> str:
    return f"`{field.name}` ({field.type_text})" + (f": {field.description}" if field.description else "")


def _described(name: str, value: Any, shape: Shape | None, task: str) -> str:
    kind = type(value).__name__
    if shape is not None:
        text = f"`{name}` is a {kind}: {shape.text(most=_MOST, width=_WIDTH)}"
        return f"{text}\n{parts_of_lines(value)}" if shape.kind == "log" else text
    if shown_whole(value):
        return f"{name} = {json.dumps(value, ensure_ascii=False) if isinstance(value, str) else repr(value)}"
    return f"`{name}` is a {kind}: {describe(value).text(most=_MOST, width=_WIDTH)}"
