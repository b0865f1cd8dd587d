"""The inputs of a task: read from their sources, and checked against the signature."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, get_origin

from ..signatures import Field, InvalidInputs, Signature
from .errors import TaskProblem, near_name, suggestion
from .input_files import UnreadableInput, expand_home, is_standard_input, read_json, read_text
from .schema.task import SOURCES, FileInput, GlobInput, InputEntry, JsonInput, StdinInput, ValueInput
from .yaml_document import Document

_FILES = 10_000
_SOURCE_OPTIONS = frozenset({"encoding", "as"})


@dataclass
class InputReader:
    """Reads the inputs of one task and collects the problems."""

    signature: Signature | None
    """None if the signature is invalid; then inputs are read and not checked."""

    folder: Path
    document: Document
    read_stdin: Callable[[], str] | None
    """None: standard input is not read, and inputs from it are not checked."""

    problems: list[TaskProblem] = field(default_factory=list)
    warnings: list[TaskProblem] = field(default_factory=list)
    _values: dict[str, Any] = field(default_factory=dict)
    _options: Mapping[str, str] = field(default_factory=dict)
    """The inputs of the command line, as texts."""

    _unread: set[str] = field(default_factory=set)
    """Inputs without a value whose problem is reported already."""

    _stdin: str | None = None

    def read(self, entries: Mapping[str, InputEntry], options: Mapping[str, str], broken: set[str]) -> dict[str, Any]:
        """Return the typed inputs. `options` replace entries; the problems of `broken` ones are reported already."""
        self._options = options
        self.values({name: entry for name, entry in entries.items() if name not in options})
        for name, text in options.items():
            self._read(name, lambda name=name, text=text: self._from_option(name, text))  # type: ignore[misc]
        self._unread |= broken - set(options)
        if self.signature is None:
            return {}
        try:
            inputs = self.signature.check_inputs(self._values)
        except InvalidInputs as error:
            for problem in error.problems:
                self._report(problem.path.split("/")[1:], problem.expected, problem.got)
            return {name: value for name, value in self._values.items() if name not in self._unread}
        for name in entries:
            self._warn_of_source(name)
        return inputs

    def values(self, entries: Mapping[str, InputEntry]) -> dict[str, Any]:
        """Return the values of entries, not checked; those that cannot be read are reported and left out."""
        for name, entry in entries.items():
            self._read(name, lambda name=name, entry=entry: self._from_entry(name, entry))  # type: ignore[misc]
        return dict(self._values)

    @property
    def _fields(self) -> dict[str, Field]:
        return {field.name: field for field in self.signature.inputs} if self.signature is not None else {}

    def _read(self, name: str, get: Callable[[], Any]) -> None:
        try:
            self._values[name] = get()
        except UnreadableInput as error:
            self._unread.add(name)
            if str(error):
                self.problems.append(self._problem(name, (), f"inputs.{name}: {error}"))

    def _from_entry(self, name: str, entry: Any) -> Any:
        match entry:
            case FileInput():
                path = self.folder / expand_home(entry.file)
                return self._from_stdin(name) if is_standard_input(path) else read_text(path, entry.encoding)
            case GlobInput():
                return self._texts(name, entry)
            case StdinInput():
                return self._from_stdin(name)
            case JsonInput():
                return read_json(self.folder / expand_home(entry.path))
            case ValueInput():
                return entry.value
        return entry

    def _texts(self, name: str, entry: GlobInput) -> Any:
        pattern = expand_home(entry.glob)
        root = Path(pattern.anchor) if pattern.anchor else self.folder
        try:
            paths = sorted(path for path in root.glob(str(pattern.relative_to(pattern.anchor))) if path.is_file())
        except (ValueError, NotImplementedError, IndexError):  # pathlib raises IndexError for an empty pattern
            raise UnreadableInput(f"{entry.glob!r} is not a pattern for files, such as chapters/*.txt") from None
        if not paths:
            raise UnreadableInput(f"no file in {root} matches {entry.glob!r}")
        if len(paths) > _FILES:
            raise UnreadableInput(f"{entry.glob!r} matches {len(paths):,} files; at most {_FILES:,} are read")
        wanted = self._fields.get(name)
        wants_dict = wanted is not None and dict in (wanted.type, get_origin(wanted.type))
        names = [path.relative_to(self.folder) if path.is_relative_to(self.folder) else path for path in paths]
        texts = {key.as_posix(): read_text(path, entry.encoding) for key, path in zip(names, paths, strict=True)}
        return texts if entry.into == "dict" or (entry.into is None and wants_dict) else list(texts.values())

    def _from_option(self, name: str, text: str) -> Any:
        if text.startswith("@@"):
            return self._fitting(name, text[1:])
        if text == "@-" or (text.startswith("@") and is_standard_input(Path(text[1:]))):
            return self._from_stdin(name)
        if text.startswith("@"):
            return self._fitting(name, read_text(expand_home(text[1:])))
        return self._fitting(name, text)

    def _from_stdin(self, name: str) -> Any:
        if self._stdin is not None:
            raise UnreadableInput("another input reads standard input already")
        if self.read_stdin is None:
            self._stdin = ""
            raise UnreadableInput("")
        self._stdin = self.read_stdin()
        return self._fitting(name, self._stdin)

    def _fitting(self, name: str, text: str) -> Any:
        """Return the text where the field takes text; otherwise its value as JSON, if it is JSON."""
        if self.signature is None or name not in self._fields or self.signature.takes(name, text):
            return text
        try:
            return json.loads(text)
        except (ValueError, RecursionError):
            return text

    def _report(self, path: list[str], expected: str, got: str) -> None:
        name, names = path[0], list(self._fields)
        if name in self._unread:
            return
        dotted = ".".join(["inputs", *path])
        if name not in names:
            takes = suggestion(name, names) if names else "; it has no inputs"
            problem = self._problem(name, (), f"{dotted} is not an input of the signature{takes}", key=True)
        elif name not in self._values:
            message = f"input {name} ({expected}) is missing; add it under `inputs:`, or with -i {name}=VALUE"
            problem = self.document.problem(message, self.document.key_place(("inputs",)))
        elif len(path) == 1 and (key := self._unknown_source(name)) is not None:
            known = suggestion(key, SOURCES)
            problem = self._problem(name, (key,), f"{dotted}.{key} is not a source of an input{known}", key=True)
        else:
            inner = tuple(int(step) if step.isdigit() else step for step in path[1:])
            problem = self._problem(name, inner, f"{dotted}: expected {expected}, got {got}")
        self.problems.append(problem)

    def _unknown_source(self, name: str) -> str | None:
        """Return the first key of a mapping that seems to name a source: it has no other key but options of sources."""
        value = self._values.get(name)
        if name in self._options or not isinstance(value, dict) or not value.keys() - _SOURCE_OPTIONS:
            return None
        key, *others = (key for key in value if key not in _SOURCE_OPTIONS)
        return key if not others else None

    def _warn_of_source(self, name: str) -> None:
        """Warn of a mapping that fits the signature and yet looks like a misspelt source."""
        key = self._unknown_source(name)
        near = near_name(key, SOURCES) if key is not None else None
        if near is not None:
            message = f"inputs.{name} is a mapping with the key {key!r}; did you mean {near}? If not, use `value:`"
            self.warnings.append(self._problem(name, (str(key),), message, key=True))

    def _problem(self, name: str, inner: tuple[str | int, ...], message: str, *, key: bool = False) -> TaskProblem:
        if name in self._options:
            return TaskProblem(f"-i {name}", message.removeprefix(f"inputs.{name}: "))
        path = ("inputs", name, *inner)
        return self.document.problem(message, (self.document.key_place if key else self.document.value_place)(path))
