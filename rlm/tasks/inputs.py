"""The inputs of a task: read from where the file or the command line says, and checked against the signature."""

from __future__ import annotations

import io
import json
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, get_origin

from ..signatures import Field, InvalidInputs, Signature
from .errors import TaskProblem, suggestion
from .schema.task import SOURCES, FileInput, GlobInput, InputEntry, JsonInput, StdinInput, ValueInput
from .yaml_document import Document

_FILES = 10_000


class _Unreadable(Exception):
    """An input that cannot be read; the message says why and what to do."""


@dataclass
class InputReader:
    """Reads the inputs of one task and notes what is wrong with them."""

    signature: Signature | None
    """None: it cannot be read; then the inputs are only read, not checked."""

    folder: Path
    document: Document
    read_stdin: Callable[[], str] | None
    """None: what comes from standard input is not read, and taken to be right."""

    problems: list[TaskProblem] = field(default_factory=list)
    _values: dict[str, Any] = field(default_factory=dict)
    _given: dict[str, str] = field(default_factory=dict)
    _unknown: set[str] = field(default_factory=set)
    _stdin: str | None = None

    def read(self, entries: Mapping[str, InputEntry], given: Mapping[str, str], broken: set[str]) -> dict[str, Any]:
        """The typed inputs. `given` are those of the command line; `broken` ones have been reported already."""
        self.values({name: entry for name, entry in entries.items() if name not in given})
        for name, text in given.items():
            self._given[name] = text
            self._note(name, lambda name=name, text=text: self._from_option(name, text))  # type: ignore[misc]
        self._unknown |= broken - set(given)
        if self.signature is None:
            return {}
        try:
            return self.signature.check_inputs(self._values)
        except InvalidInputs as error:
            for one in error.problems:
                self._explain(one.path.split("/")[1:], one.expected, one.got)
        return {name: value for name, value in self._values.items() if name not in self._unknown}

    def values(self, entries: Mapping[str, InputEntry]) -> dict[str, Any]:
        """What entries say, read but not checked; those that cannot be read are left out, and noted."""
        for name, entry in entries.items():
            self._note(name, lambda name=name, entry=entry: self._from_entry(name, entry))  # type: ignore[misc]
        return dict(self._values)

    @property
    def _fields(self) -> dict[str, Field]:
        return {one.name: one for one in self.signature.inputs} if self.signature is not None else {}

    def _note(self, name: str, get: Callable[[], Any]) -> None:
        try:
            self._values[name] = get()
        except _Unreadable as error:
            self._unknown.add(name)
            if str(error):
                self.problems.append(self._problem(name, (), f"inputs.{name}: {error}"))

    def _from_entry(self, name: str, entry: Any) -> Any:
        match entry:
            case FileInput():
                return _text(self.folder / _home(entry.file), entry.encoding)
            case GlobInput():
                return self._texts(name, entry)
            case StdinInput():
                return self._from_stdin(name)
            case JsonInput():
                return _json(self.folder / _home(entry.path))
            case ValueInput():
                return entry.value
        return entry

    def _texts(self, name: str, entry: GlobInput) -> Any:
        pattern = _home(entry.glob)
        root = Path(pattern.anchor) if pattern.anchor else self.folder
        try:
            found = sorted(path for path in root.glob(str(pattern.relative_to(pattern.anchor))) if path.is_file())
        except (ValueError, NotImplementedError, IndexError):  # the last is what pathlib says to a pattern of nothing
            raise _Unreadable(f"{entry.glob!r} is no pattern for files, such as chapters/*.txt") from None
        if not found:
            raise _Unreadable(f"no file in {root} matches {entry.glob!r}")
        if len(found) > _FILES:
            raise _Unreadable(f"{entry.glob!r} matches {len(found):,} files; at most {_FILES:,} are read")
        wanted = self._fields.get(name)
        wants_dict = wanted is not None and dict in (wanted.type, get_origin(wanted.type))
        names = [path.relative_to(self.folder) if path.is_relative_to(self.folder) else path for path in found]
        texts = {one.as_posix(): _text(path, entry.encoding) for one, path in zip(names, found, strict=True)}
        return texts if entry.into == "dict" or (entry.into is None and wants_dict) else list(texts.values())

    def _from_option(self, name: str, text: str) -> Any:
        if text.startswith("@@"):
            return self._fitting(name, text[1:])
        if text == "@-":
            return self._from_stdin(name)
        if text.startswith("@"):
            return self._fitting(name, _text(_home(text[1:]), "utf-8"))
        return self._fitting(name, text)

    def _from_stdin(self, name: str) -> Any:
        if self._stdin is not None:
            raise _Unreadable("standard input is read by another input already")
        if self.read_stdin is None:
            self._stdin = ""
            raise _Unreadable("")
        self._stdin = self.read_stdin()
        return self._fitting(name, self._stdin)

    def _fitting(self, name: str, text: str) -> Any:
        """Text where the signature takes text; otherwise what it says as JSON, if it is JSON."""
        if self.signature is None or name not in self._fields or self.signature.takes(name, text):
            return text
        try:
            return json.loads(text)
        except (ValueError, RecursionError):
            return text

    def _explain(self, path: list[str], expected: str, got: str) -> None:
        name, names = path[0], list(self._fields)
        if name in self._unknown:
            return
        spelled = ".".join(["inputs", *path])
        if name not in names:
            takes = suggestion(name, names) if names else "; it has no inputs"
            self.problems.append(self._problem(name, (), f"{spelled} is no input of the signature{takes}", key=True))
        elif name not in self._values:
            message = f"input {name} ({expected}) is missing; give it under `inputs:`, or with -i {name}=VALUE"
            place = self.document.key_place(("inputs",))
            self.problems.append(self.document.problem(message, place))
        else:
            inner = tuple(int(step) if step.isdigit() else step for step in path[1:])
            hint = self._source_hint(name)
            self.problems.append(self._problem(name, inner, f"{spelled}: expected {expected}, got {got}{hint}"))

    def _source_hint(self, name: str) -> str:
        value = self._values[name]
        if not isinstance(value, dict) or len(value) != 1:
            return ""
        close = suggestion(next(iter(value)), SOURCES)
        return close if "did you mean" in close else ""

    def _problem(self, name: str, inner: tuple[str | int, ...], message: str, *, key: bool = False) -> TaskProblem:
        if name in self._given:
            return TaskProblem(f"-i {name}", message.removeprefix(f"inputs.{name}: "))
        path = ("inputs", name, *inner)
        return self.document.problem(message, (self.document.key_place if key else self.document.value_place)(path))


def standard_input() -> str:
    """All of standard input; a person at a terminal is told what is waited for."""
    if sys.stdin is None:
        raise _Unreadable("standard input is closed; pipe the text in, or name a file")
    if sys.stdin.isatty():
        print("Reading an input from the terminal; end it with Ctrl-D.", file=sys.stderr)  # noqa: T201
    if isinstance(sys.stdin, io.TextIOWrapper):
        sys.stdin.reconfigure(encoding="utf-8", errors="strict")  # as files are read, whatever the locale says
    try:
        return sys.stdin.read()
    except UnicodeDecodeError:
        raise _Unreadable("what is piped in is not utf-8; convert it first, as with `iconv -t utf-8`") from None


def _home(path: str) -> Path:
    """A path in which `~` is the home directory, where there is one."""
    try:
        return Path(path).expanduser()
    except RuntimeError:
        return Path(path)


def _text(path: Path, encoding: str) -> str:
    try:
        return path.read_text(encoding=encoding)
    except OSError as error:
        raise _Unreadable(f"{path} cannot be read ({error.strerror or error})") from None
    except LookupError:
        raise _Unreadable(f"there is no encoding {encoding!r}; try utf-8 or latin-1") from None
    except UnicodeDecodeError as error:
        raise _Unreadable(
            f"{path} is not {encoding} (byte {error.start:,}); if it is another one, say so: `encoding: latin-1`"
        ) from None
    except ValueError as error:
        raise _Unreadable(f"{path} cannot be read ({error})") from None


def _json(path: Path) -> Any:
    text = _text(path, "utf-8-sig")
    try:
        return json.loads(text)
    except json.JSONDecodeError as error:
        raise _Unreadable(f"{path}:{error.lineno}:{error.colno} is not JSON ({error.msg})") from None
    except (ValueError, RecursionError) as error:
        raise _Unreadable(f"{path} is not JSON that can be read ({error})") from None
