"""YAML with places: what a file says, and in which line and column it says it. Knows nothing of tasks.

The core schema of YAML 1.2, which is what editors check with: `no` is text, and so is `2026-11-16`. No tags beyond the
plain ones, no aliases (so no document that grows when it is read), no key twice.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path as FilePath
from typing import Any

import yaml
from yaml.composer import Composer, ComposerError
from yaml.events import AliasEvent
from yaml.parser import Parser
from yaml.reader import Reader, ReaderError
from yaml.resolver import BaseResolver
from yaml.scanner import Scanner

from .problems import TaskError, TaskProblem

MAX_BYTES = 500_000
_MAX_DEPTH = 40
_TAG = "tag:yaml.org,2002:"

Path = tuple[str | int, ...]


@dataclass(frozen=True, slots=True)
class Place:
    """A line and a column, both from 1."""

    line: int
    column: int


class Document:
    """What one YAML file says, and where it says it."""

    def __init__(self, name: str, text: str) -> None:
        self.name, self.text = name, text
        self.faults: list[TaskProblem] = []
        self._keys: dict[Path, Place] = {}
        self._nodes: dict[Path, Any] = {}
        root = self._compose()
        self.value: Any = self._build(root, ()) if root is not None else None

    def has(self, path: Path) -> bool:
        """Whether the file says anything at a path."""
        return path in self._nodes

    def key_place(self, path: Path) -> Place:
        """Where a key stands, or the nearest thing above it that stands anywhere."""
        while path and path not in self._keys and path not in self._nodes:
            path = path[:-1]
        return self._keys.get(path) or self.value_place(path)

    def value_place(self, path: Path) -> Place:
        """Where a value begins, or the nearest value above it."""
        while path and path not in self._nodes:
            path = path[:-1]
        return _place(self._nodes[path].start_mark) if path in self._nodes else Place(1, 1)

    def place_inside(self, path: Path, position: int) -> Place:
        """Where a character of a text stands. As near as can be said: folded and escaped texts are only pointed at."""
        begin, node = self.value_place(path), self._nodes.get(path)
        if not isinstance(node, yaml.ScalarNode):
            return begin
        before = node.value[:position]
        line, column = before.count("\n"), len(before) - (before.rfind("\n") + 1)
        if node.style == "|":
            lines = self.text.splitlines()[begin.line :]
            indent = next((len(one) - len(one.lstrip()) for one in lines if one.strip()), 0)
            return Place(begin.line + 1 + line, indent + column + 1)
        if node.style == ">" or node.start_mark.line != node.end_mark.line:
            return begin
        return Place(begin.line, begin.column + column + (1 if node.style else 0))

    def problem(self, message: str, place: Place) -> TaskProblem:
        """A problem of this file."""
        return TaskProblem(f"{self.name}:{place.line}:{place.column}", message, (place.line, place.column))

    def _compose(self) -> Any:
        try:
            return _Loader(self.text).get_single_node()
        except yaml.MarkedYAMLError as error:
            mark = error.problem_mark or error.context_mark
            message = error.problem or error.context or "this is not YAML"
            raise TaskError([self.problem(_readable(message), _place(mark) if mark else Place(1, 1))]) from None
        except ReaderError as error:
            message = f"a character that YAML does not allow (U+{error.character:04X})"
            raise TaskError([self.problem(message, _position(self.text, error.position))]) from None

    def _build(self, node: Any, path: Path) -> Any:
        self._nodes[path] = node
        if isinstance(node, yaml.MappingNode):
            return self._mapping(node, path)
        if isinstance(node, yaml.SequenceNode):
            return [self._build(one, (*path, index)) for index, one in enumerate(node.value)]
        try:
            return _scalar(node.tag, node.value)
        except ValueError:
            self.faults.append(self.problem(f"{node.value[:40]!r} cannot be read as a value", _place(node.start_mark)))
            return None

    def _mapping(self, node: yaml.MappingNode, path: Path) -> dict[str, Any]:
        made: dict[str, Any] = {}
        for key, value in node.value:
            place = _place(key.start_mark)
            if not isinstance(key, yaml.ScalarNode) or key.tag != _TAG + "str":
                self.faults.append(self.problem("a key is text; put it into quotes", place))
            elif key.value in made:
                first = self._keys[(*path, key.value)].line
                self.faults.append(self.problem(f"{key.value!r} is here already, in line {first}; keep one", place))
            else:
                self._keys[(*path, key.value)] = place
                made[key.value] = self._build(value, (*path, key.value))
        return made


def read(path: FilePath, name: str | None = None) -> Document:
    """The document in a file. `TaskError` if there is none."""
    shown = name or str(path)
    try:
        with path.open("rb") as file:
            content = file.read(MAX_BYTES + 1)
    except OSError as error:
        raise TaskError([TaskProblem(shown, f"cannot be read ({error.strerror or error})")]) from None
    if len(content) > MAX_BYTES:
        advice = "put long inputs into files of their own: `inputs: {doc: {file: doc.txt}}`"
        raise TaskError([TaskProblem(shown, f"is larger than {MAX_BYTES:,} bytes; {advice}")])
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        raise TaskError([TaskProblem(f"{shown}:{line}:1", "is not UTF-8; save it as UTF-8")]) from None
    return Document(shown, text)


def step_into(value: Any, step: str | int) -> tuple[bool, Any]:
    """Whether a step leads anywhere in a value, and where to."""
    if isinstance(value, Mapping) and step in value:
        return True, value[step]
    is_list = isinstance(value, Sequence) and not isinstance(value, str)
    if is_list and isinstance(step, int) and 0 <= step < len(value):
        return True, value[step]
    return False, None


class _Resolver(BaseResolver):
    """What plain words mean: the core schema of YAML 1.2."""


for _name, _pattern, _first in (
    ("null", r"~|null|Null|NULL|", ["~", "n", "N", ""]),
    ("bool", r"true|True|TRUE|false|False|FALSE", list("tTfF")),
    ("int", r"[-+]?[0-9]+|0o[0-7]+|0x[0-9a-fA-F]+", list("-+0123456789")),
    (
        "float",
        r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?|[-+]?\.(inf|Inf|INF)|\.(nan|NaN|NAN)",
        list("-+.0123456789"),
    ),
):
    _Resolver.add_implicit_resolver(_TAG + _name, re.compile(f"^(?:{_pattern})$"), _first)


class _Loader(Reader, Scanner, Parser, Composer, _Resolver):
    """PyYAML up to the tree of nodes; nothing is constructed."""

    def __init__(self, text: str) -> None:
        Reader.__init__(self, text)
        Scanner.__init__(self)
        Parser.__init__(self)
        Composer.__init__(self)
        BaseResolver.__init__(self)
        self._depth = 0

    def compose_node(self, parent: Any, index: Any) -> Any:
        event: Any = self.peek_event()  # type: ignore[no-untyped-call]
        if isinstance(event, AliasEvent):
            message = f"*{event.anchor}: aliases are not read here; write the value again"
            mark: Any = event.start_mark
            raise ComposerError(None, None, message, mark)
        self._depth += 1
        if self._depth > _MAX_DEPTH:
            raise ComposerError(None, None, f"nested more than {_MAX_DEPTH} deep", event.start_mark)
        try:
            return super().compose_node(parent, index)
        finally:
            self._depth -= 1


def _scalar(tag: str, text: str) -> Any:
    match tag.removeprefix(_TAG):
        case "str":
            return text
        case "null":
            return None
        case "bool":
            return {"true": True, "false": False}[text.lower()]
        case "int":
            return int(text, 0) if text[:2] in ("0x", "0o") else int(text)
        case "float":
            return float(text.replace(".inf", "inf").replace(".nan", "nan")) if text[-1:].isalpha() else float(text)
    raise ValueError(tag)


def _place(mark: Any) -> Place:
    return Place(mark.line + 1, mark.column + 1)


def _position(text: str, position: int) -> Place:
    before = text[:position]
    return Place(before.count("\n") + 1, len(before) - before.rfind("\n"))


def _readable(message: str) -> str:
    """PyYAML's words for the mistakes that are made most, with what to do about them."""
    if "mapping values are not allowed" in message:
        return "a second ': ' in this line; put a text that holds ': ' into quotes"
    if "cannot start any token" in message and "\\t" in message:
        return "a tab; indent with spaces"
    if "could not find expected ':'" in message:
        return "a key without ':'"
    if "expected a single document" in message or "found another document" in message:
        return "a second document ('---'); a file holds one"
    return message
