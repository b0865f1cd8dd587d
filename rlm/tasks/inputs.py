"""The inputs of a task: read from their sources, and checked against the signature."""

from __future__ import annotations

import io
import json
import os
import re
import stat
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, get_origin

import sandbox

from ..mounts import File, Folder, holds_files
from ..signatures import Field, InvalidInputs, Signature
from ..text import near_name, suggestion
from ..units import size_text
from .errors import TaskProblem
from .schema import SOURCES, FileInput, FolderInput, GlobInput, InputEntry, JsonInput, McpInput, StdinInput, ValueInput
from .yaml_document import Document

if TYPE_CHECKING:
    from ..mcp.servers import McpServers

_FILES = 10_000
_YES_NO = frozenset({"yes", "no", "on", "off", "y", "n"})
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

    partial: bool = False
    """Whether inputs may be missing."""

    servers: McpServers | None = None
    """The MCP servers whose resources may be inputs. One that is named is started."""

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
        signature = self.signature
        if self.partial:
            given = tuple(field for field in signature.inputs if field.name in self._values)
            signature = Signature(signature.name, signature.instructions, given, signature.outputs)
        try:
            inputs = signature.check_inputs(self._values)
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
                if self._wants_files(name):
                    return mounted(path)
                return self._from_stdin(name) if is_standard_input(path) else read_text(path, entry.encoding)
            case GlobInput():
                return self._texts(name, entry)
            case FolderInput():
                return self._mounted_folder(name, self.folder / expand_home(entry.folder))
            case StdinInput():
                return self._from_stdin(name)
            case JsonInput():
                return read_json(self.folder / expand_home(entry.path))
            case ValueInput():
                return entry.value
            case McpInput():
                return self._resource(name, entry)
        return entry

    def _resource(self, name: str, entry: McpInput) -> Any:
        if self.servers is None:
            raise UnreadableInput(f"there is no MCP server {entry.mcp!r}; describe it under `mcp:`")
        from ..mcp.errors import McpError

        try:
            value = self.servers.read_resource(entry.mcp, entry.uri)
        except (McpError, TimeoutError) as error:
            raise UnreadableInput(str(error)) from None
        return self._fitting(name, value) if isinstance(value, str) else value

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
        wants_files = self._wants_files(name)
        texts = {
            key.as_posix(): mounted(path) if wants_files else read_text(path, entry.encoding)
            for key, path in zip(names, paths, strict=True)
        }
        return texts if entry.into == "dict" or (entry.into is None and wants_dict) else list(texts.values())

    def _wants_files(self, name: str) -> bool:
        return name in self._fields and holds_files(self._fields[name].type)

    def _mounted_folder(self, name: str, path: Path) -> Folder:
        if self.signature is not None and not self._wants_files(name):
            raise UnreadableInput(f"the signature has no folder here; write `{name}: Folder` in it, or use `glob`")
        return mounted_folder(path)

    def _from_option(self, name: str, text: str) -> Any:
        if self._wants_files(name):
            path = expand_home(text.removeprefix("@"))
            return mounted_folder(path) if self._fields[name].type is Folder else mounted(path)
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
            words = (
                "; write true or false"
                if expected == "bool" and got.strip('"').split('"')[0].lower() in _YES_NO
                else ""
            )
            problem = self._problem(name, inner, f"{dotted}: expected {expected}, got {got}{words}")
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
        if key is None:
            return
        near = near_name(key, SOURCES)
        if near is not None or not self._fields[name].typed:
            hint = f"did you mean {near}?" if near is not None else f"sources are {', '.join(SOURCES)}."
            message = f"inputs.{name} is a mapping with the key {key!r}; {hint} If it is the value, use `value:`"
            self.warnings.append(self._problem(name, (key,), message, key=True))

    def _problem(self, name: str, inner: tuple[str | int, ...], message: str, *, key: bool = False) -> TaskProblem:
        if name in self._options:
            return TaskProblem(f"-i {name}", message.removeprefix(f"inputs.{name}: "))
        path = ("inputs", name, *inner)
        return self.document.problem(message, (self.document.key_place if key else self.document.value_place)(path))


MAX_BYTES = 2_000_000_000
"""The largest input."""

_STANDARD_INPUT = frozenset({"/dev/stdin", "/dev/fd/0", "/proc/self/fd/0"})
_DESCRIPTOR = re.compile(r"/(?:dev|proc/self)/fd/[0-9]+")


class UnreadableInput(Exception):
    """An input that cannot be read; the message says why and what to do."""


def is_standard_input(path: Path) -> bool:
    """Return whether a path is another name of standard input."""
    return str(path) in _STANDARD_INPUT


def expand_home(path: str) -> Path:
    """Return a path in which `~` is the home directory, if there is one."""
    try:
        return Path(path).expanduser()
    except RuntimeError:
        return Path(path)


def read_text(path: Path, encoding: str = "utf-8") -> str:
    """Return the text of a regular file, or of a descriptor that the shell opened, as `<(command)` does."""
    try:
        content = _read_bytes(path)
    except OSError as error:
        raise UnreadableInput(f"{path} cannot be read ({error.strerror or error})") from None
    except ValueError as error:
        raise UnreadableInput(f"{path} cannot be read ({error})") from None
    if content.startswith(b"%PDF-"):
        raise UnreadableInput(f"{path} is a PDF; have code read it: write the type `File` for this input")
    try:
        return io.TextIOWrapper(io.BytesIO(content), encoding=encoding).read()
    except LookupError:
        raise UnreadableInput(f"there is no encoding {encoding!r}; try utf-8 or latin-1") from None
    except UnicodeError as error:
        raise UnreadableInput(f"{path} {_not_text(content, encoding, error)}") from None


def mounted(path: Path) -> File:
    """Return a file that code reads in place."""
    try:
        return File(path)
    except sandbox.InputError as error:
        raise UnreadableInput(str(error)) from None


def mounted_folder(path: Path) -> Folder:
    """Return a folder whose files code reads in place."""
    try:
        return Folder(path)
    except sandbox.InputError as error:
        raise UnreadableInput(str(error)) from None


def read_json(path: Path) -> Any:
    """Return the value of a JSON file."""
    text = read_text(path, "utf-8-sig")
    try:
        return json.loads(text)
    except json.JSONDecodeError as error:
        raise UnreadableInput(f"{path}:{error.lineno}:{error.colno} is not JSON ({error.msg})") from None
    except (ValueError, RecursionError) as error:
        raise UnreadableInput(f"{path} is not JSON that can be read ({error})") from None


def standard_input() -> str:
    """Return all of standard input. At a terminal, print that an input is expected."""
    if sys.stdin is None:
        raise UnreadableInput("standard input is closed; pipe the text in, or name a file")
    if sys.stdin.isatty():
        print("Reading an input from the terminal; end it with Ctrl-D.", file=sys.stderr)  # noqa: T201
    if isinstance(sys.stdin, io.TextIOWrapper):
        sys.stdin.reconfigure(encoding="utf-8", errors="strict")  # as files are read, whatever the locale is
    try:
        text = sys.stdin.read(MAX_BYTES + 1)
    except UnicodeDecodeError:
        raise UnreadableInput("standard input is not utf-8; convert it first, as with `iconv -t utf-8`") from None
    if len(text) > MAX_BYTES:
        raise UnreadableInput(f"standard input is larger than {size_text(MAX_BYTES)}")
    return text


def _read_bytes(path: Path) -> bytes:
    # Without O_NONBLOCK, opening a FIFO waits for a writer.
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    try:
        mode = os.fstat(descriptor).st_mode
        if stat.S_ISDIR(mode):
            raise UnreadableInput(f"{path} is a directory; several files are read with `glob: {path}/*.txt`")
        if not stat.S_ISREG(mode) and not _DESCRIPTOR.fullmatch(str(path)):
            raise UnreadableInput(f"{path} is not a regular file; pipe it in with `stdin: true` or -i NAME=@-")
        os.set_blocking(descriptor, True)
        with open(descriptor, "rb", closefd=False) as file:
            content = file.read(MAX_BYTES + 1)
    finally:
        os.close(descriptor)
    if len(content) > MAX_BYTES:
        raise UnreadableInput(
            f"{path} is larger than {size_text(MAX_BYTES)}; split it, and read the parts with `glob:`"
        )
    return content


def _not_text(content: bytes, encoding: str, error: UnicodeError) -> str:
    if b"\0" in content[:4096]:
        return f"is not text in {encoding}: it has zero bytes; extract its text first"
    position = f" (byte {error.start:,})" if isinstance(error, UnicodeDecodeError) else ""
    return f"is not {encoding}{position}; if it has another encoding, name it: `encoding: latin-1`"
