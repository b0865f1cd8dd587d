"""YAML documents with the line and column of each key and value. Nothing here knows of tasks."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path as FilePath
from typing import Any

import yaml

from .. import yaml12
from .errors import TaskError, TaskProblem

MAX_BYTES = 500_000

Path = tuple[str | int, ...]


@dataclass(frozen=True, slots=True)
class Place:
    """A line and a column, both counted from 1."""

    line: int
    column: int


class Document:
    """The content of one YAML file, and the place of each part."""

    def __init__(self, name: str, text: str) -> None:
        self.name, self.text = name, text
        self.problems: list[TaskProblem] = []
        self._keys: dict[Path, Place] = {}
        self._nodes: dict[Path, Any] = {}
        root = self._compose()
        self.value: Any = self._build(root, ()) if root is not None else None

    def has(self, path: Path) -> bool:
        """Return whether the file has a value at a path."""
        return path in self._nodes

    def key_place(self, path: Path) -> Place:
        """Return the place of a key, or of the nearest part above it that the file has."""
        while path and path not in self._keys and path not in self._nodes:
            path = path[:-1]
        return self._keys.get(path) or self.value_place(path)

    def value_place(self, path: Path) -> Place:
        """Return the start of a value, or of the nearest value above it."""
        while path and path not in self._nodes:
            path = path[:-1]
        return _place(self._nodes[path].start_mark) if path in self._nodes else Place(1, 1)

    def place_inside(self, path: Path, position: int) -> Place:
        """Return the place of a character of a text; of folded and escaped texts, only their start is known."""
        begin, node = self.value_place(path), self._nodes.get(path)
        if not isinstance(node, yaml.ScalarNode):
            return begin
        before = node.value[:position]
        line, column = before.count("\n"), len(before) - (before.rfind("\n") + 1)
        if node.style == "|":
            lines = self.text.splitlines()[begin.line :]
            indent = next((len(text) - len(text.lstrip()) for text in lines if text.strip()), 0)
            return Place(begin.line + 1 + line, indent + column + 1)
        if node.style == ">" or node.start_mark.line != node.end_mark.line:
            return begin
        return Place(begin.line, begin.column + column + (1 if node.style else 0))

    def problem(self, message: str, place: Place) -> TaskProblem:
        """Return a problem of this file."""
        return TaskProblem(f"{self.name}:{place.line}:{place.column}", message, (place.line, place.column))

    def _compose(self) -> Any:
        try:
            return yaml12.compose(self.text)
        except yaml12.YamlError as error:
            raise TaskError([self.problem(error.message, Place(error.line, error.column))]) from None

    def _build(self, node: Any, path: Path) -> Any:
        self._nodes[path] = node
        if isinstance(node, yaml.MappingNode):
            return self._mapping(node, path)
        if isinstance(node, yaml.SequenceNode):
            return [self._build(item, (*path, index)) for index, item in enumerate(node.value)]
        try:
            return yaml12.scalar(node)
        except yaml12.YamlError as error:
            self.problems.append(self.problem(error.message, Place(error.line, error.column)))
            return None

    def _mapping(self, node: yaml.MappingNode, path: Path) -> dict[str, Any]:
        mapping: dict[str, Any] = {}
        for key, value in node.value:
            place = _place(key.start_mark)
            if not yaml12.is_text(key):
                self.problems.append(self.problem("a key must be text; put it into quotes", place))
            elif key.value in mapping:
                first = self._keys[(*path, key.value)].line
                self.problems.append(self.problem(f"{key.value!r} is already in line {first}; keep one", place))
            else:
                self._keys[(*path, key.value)] = place
                mapping[key.value] = self._build(value, (*path, key.value))
        return mapping


def read(path: FilePath, name: str | None = None) -> Document:
    """Read the document in a file. Raise `TaskError` if that is not possible."""
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


def _place(mark: Any) -> Place:
    return Place(mark.line + 1, mark.column + 1)
