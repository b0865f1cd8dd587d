"""`File` and `Folder`: values of inputs that code reads in place. A text never becomes one, whoever wrote it."""

from __future__ import annotations

import codecs
import os
from collections.abc import Iterator, Mapping
from typing import Any, get_args, get_origin

from pydantic import GetCoreSchemaHandler
from pydantic_core import CoreSchema, PydanticCustomError, SchemaSerializer, core_schema

import sandbox

from .media import media_type

SAMPLE_BYTES = 4_000_000
"""So much of a text is read to describe it."""

_MAX_PARTS = 100_000


def _schema_of(kind: type[sandbox.File]) -> CoreSchema:
    """Return a schema that takes instances, and no path: a path that a model wrote must not open a file."""

    def check(value: Any) -> Any:
        if isinstance(value, sandbox.File) and value.is_folder == kind.is_folder:
            return value
        name = kind.__name__
        raise PydanticCustomError("file_expected", "Input should be a {name}: rlm.{name}(path)", {"name": name})

    return core_schema.no_info_plain_validator_function(check, serialization=_AS_NAME)


_AS_NAME = core_schema.plain_serializer_function_ser_schema(lambda value: str(value.name), when_used="json")


class File(sandbox.File):
    """A file as an input: code reads it in place. `name`, `size` and `media_type` are in the prompt."""

    __pydantic_serializer__ = SchemaSerializer(core_schema.any_schema(serialization=_AS_NAME))

    @property
    def media_type(self) -> str:
        """What kind of file it is, by its first bytes and its name: `application/pdf`, `text/csv`."""
        return media_type(self.name, self.beginning(64))

    def beginning(self, size: int) -> bytes:
        """Return its first bytes; none if it cannot be read."""
        try:
            descriptor = os.open(self.path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
            with open(descriptor, "rb") as file:
                found = os.fstat(descriptor)
                return file.read(size) if (found.st_dev, found.st_ino) == self.identity else b""
        except OSError:
            return b""

    @property
    def sample(self) -> str | None:
        """Its text, or the beginning of it; None if it is not plain text in UTF-8."""
        content = self.beginning(SAMPLE_BYTES)
        if b"\0" in content:
            return None
        try:
            return codecs.getincrementaldecoder("utf-8-sig")().decode(content, final=self.size <= SAMPLE_BYTES)
        except UnicodeDecodeError:
            return None

    @classmethod
    def __get_pydantic_core_schema__(cls, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        return _schema_of(File)

    @classmethod
    def __get_pydantic_json_schema__(cls, schema: CoreSchema, handler: Any) -> dict[str, Any]:
        return {"type": "string", "format": "path"}


class Folder(sandbox.Folder):
    """A folder as an input, with all that is in it: code reads its files in place."""

    __pydantic_serializer__ = File.__pydantic_serializer__

    @classmethod
    def __get_pydantic_core_schema__(cls, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        return _schema_of(Folder)

    @classmethod
    def __get_pydantic_json_schema__(cls, schema: CoreSchema, handler: Any) -> dict[str, Any]:
        return {"type": "string", "format": "path"}


def holds_files(kind: Any, wanted: type = sandbox.File) -> bool:
    """Return whether values of a type are files, or have files in them."""
    if isinstance(kind, type) and issubclass(kind, wanted):
        return True
    parts = (part for part in (get_origin(kind), *get_args(kind)) if not isinstance(part, str | None))
    return any(holds_files(part, wanted) for part in parts)


def files_in(value: Any, place: str = "") -> Iterator[tuple[str, sandbox.File]]:
    """Yield the files in a value with their places: `docs/0`."""
    remaining, count = [(place, value)], 0
    while remaining and count < _MAX_PARTS:
        place, part = remaining.pop()
        count += 1
        if isinstance(part, sandbox.File):
            yield place, part
        elif isinstance(part, Mapping):
            remaining += [(f"{place}/{name}", inner) for name, inner in reversed(list(part.items()))]
        elif isinstance(part, list | tuple):
            remaining += [(f"{place}/{index}", inner) for index, inner in reversed(list(enumerate(part)))]


def has_files(value: Any) -> bool:
    """Return whether a value is a file, or has one in it."""
    return not isinstance(value, str | bytes | int | float | None) and next(files_in(value), None) is not None
