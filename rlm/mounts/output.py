"""`OutputFile`: a file that code wrote, as an output of a run; and copies of such files where somebody wants them."""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Annotated, Any, Union, get_args, get_origin

from pydantic import BaseModel, GetCoreSchemaHandler
from pydantic_core import CoreSchema, PydanticCustomError, core_schema

import sandbox
from sandbox.collect import is_name

from .file import File, Folder, holds_files
from .media import media_type

OUT = "OUT"
"""The variable of the REPL that has the path of the folder for files."""

WORDS = f"the name of a file that your code wrote to the folder {OUT}"
_INSIDE = re.compile(r"(?:.*/rlm-scratch-[^/]+)?/out/(.+)", re.DOTALL)
_MAX_COPIES = 1000


class OutputFile:
    """A file that code wrote: `name`, `size`, `sha256`, `media_type`, `read()`, `save(path)`."""

    def __init__(self, name: str, content: bytes | None = None) -> None:
        self.name, self.content = name, content
        self.problem: str | None = None
        """Why there is no content."""

    @property
    def size(self) -> int | None:
        """Its bytes; None where its content is not known, as after reading a result from JSON."""
        return None if self.content is None else len(self.content)

    @property
    def sha256(self) -> str | None:
        """The hash of its content."""
        return None if self.content is None else hashlib.sha256(self.content).hexdigest()

    @property
    def media_type(self) -> str:
        """What kind of file it is, by its first bytes and its name."""
        return media_type(self.name, (self.content or b"")[:64])

    def read(self) -> bytes:
        """Return its content."""
        if self.content is None:
            raise FileNotFoundError(f"{self.name}: {self.problem or 'its content is in the trace of the run only'}")
        return self.content

    def save(self, path: str | os.PathLike[str], *, overwrite: bool = False) -> Path:
        """Write it to a path, or under its name into a folder; return where it is.

        Where there is a file already, it gets a number (`report-2.pdf`), unless `overwrite` is on.
        """
        target = Path(path)
        if target.is_dir() or str(path).endswith(("/", os.sep)):
            target = target / os.path.basename(self.name)
        content = self.read()
        target.parent.mkdir(parents=True, exist_ok=True)
        if overwrite:
            target.write_bytes(content)
            return target
        for number in range(1, _MAX_COPIES):
            numbered = target if number == 1 else target.with_name(f"{target.stem}-{number}{target.suffix}")
            try:
                with numbered.open("xb") as file:
                    file.write(content)
                return numbered
            except FileExistsError:
                continue
        raise FileExistsError(f"{target} and {_MAX_COPIES - 1} more of that name are there already")

    def __repr__(self) -> str:
        return f"OutputFile({self.name!r}{'' if self.size is None else f', {self.size:,} bytes'})"

    def __str__(self) -> str:
        return self.name

    def __eq__(self, other: object) -> bool:
        return isinstance(other, OutputFile) and (self.name, self.sha256) == (other.name, other.sha256)

    def __hash__(self) -> int:
        return hash(self.name)

    @classmethod
    def __get_pydantic_core_schema__(cls, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        def check(value: Any) -> OutputFile:
            if isinstance(value, OutputFile):
                return value
            inside = _INSIDE.fullmatch(value) if isinstance(value, str) else None
            name = inside[1] if inside is not None else value
            if not is_name(name):
                raise PydanticCustomError("file_name", f"Input should be {WORDS}")
            return OutputFile(name)

        shown = core_schema.plain_serializer_function_ser_schema(lambda value: value.name, when_used="json")
        return core_schema.no_info_plain_validator_function(check, serialization=shown)

    @classmethod
    def __get_pydantic_json_schema__(cls, schema: CoreSchema, handler: Any) -> dict[str, Any]:
        return {"type": "string", "description": WORDS}


def as_output(kind: Any) -> Any:
    """Return the type of an output: with the files that code writes in place of those that it reads."""
    if kind in (File, Folder):
        if kind is Folder:
            raise TypeError("an output cannot be a Folder; write `list[File]`")
        return OutputFile
    origin, inner = get_origin(kind), get_args(kind)
    if not holds_files(kind) or origin is None:
        return kind
    if origin is Annotated:
        return Annotated[(as_output(inner[0]), *inner[1:])]
    parts = tuple(as_output(part) for part in inner)
    made: Any = origin
    return made[parts] if origin in (list, dict, tuple, set, frozenset) else Union[parts]  # noqa: UP007


def written_in(value: Any) -> Iterator[OutputFile]:
    """Yield the files in typed outputs."""
    if isinstance(value, OutputFile):
        yield value
    elif isinstance(value, BaseModel):
        for _, inner in value:
            yield from written_in(inner)
    elif isinstance(value, Mapping):
        for inner in value.values():
            yield from written_in(inner)
    elif isinstance(value, list | tuple | set):
        for inner in value:
            yield from written_in(inner)


def missing(outputs: Any, files: tuple[sandbox.WrittenFile, ...]) -> str | None:
    """Say which file of the outputs is not among those that code wrote; None if all are."""
    known = {written.name: written for written in files}
    for file in written_in(outputs):
        found = known.get(file.name)
        if found is None:
            there = ", ".join(repr(name) for name in list(known)[:10]) or "nothing"
            return f"There is no file {file.name!r} in {OUT}; there is {there}. Write it first, then SUBMIT its name."
        if found.content is None:
            return f"The file {file.name!r} cannot be taken: {found.problem}. Write a smaller one."
    return None


def fill(outputs: Any, files: tuple[sandbox.WrittenFile, ...]) -> None:
    """Give the files of outputs their content."""
    known = {file.name: file for file in files}
    for file in written_in(outputs):
        found = known.get(file.name)
        file.content = found.content if found is not None else None
        file.problem = "code wrote no such file" if found is None else found.problem


def save_all(outputs: Any, places: Mapping[str, str], *, overwrite: bool = False) -> list[str]:
    """Copy the files of outputs to where they are wanted, by output. Say where each is, or why it is not saved."""
    said = []
    for name, place in places.items():
        files = list(written_in(getattr(outputs, name, None)))
        is_folder = len(files) > 1 or place.endswith(os.sep) or os.path.isdir(place)
        for file in files:
            wanted = Path(place, os.path.basename(file.name)) if is_folder else Path(place)
            try:
                path = file.save(wanted, overwrite=overwrite)
            except OSError as error:
                said.append(f"{name}: {file.name} was not saved ({error})")
            else:
                said.append(f"{name}: saved as {path}{'' if path == wanted else f'; {wanted} was there already'}")
    return said
