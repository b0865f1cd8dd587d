"""Files that the code of a session wrote for its caller, taken from its kernel: names and bytes, none of it trusted."""

from __future__ import annotations

import base64
import binascii
import posixpath
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

Ask = Callable[[dict[str, Any]], dict[str, Any]]
"""Asks the kernel."""

MAX_FILES = 500
_NAME_CHARS = 300
_PIECE = 2 << 20
_READING = 200


@dataclass(frozen=True, slots=True)
class WrittenFile:
    """A file from the out folder of a session."""

    name: str
    """Its name in the folder: relative, with no `..` in it."""

    content: bytes | None
    """None where it was left out, for one of the reasons in `problem`."""

    problem: str | None = None

    @property
    def size(self) -> int:
        """How many bytes there are."""
        return len(self.content or b"")


def collect(ask: Ask, max_bytes: int) -> tuple[WrittenFile, ...]:
    """Return the files of a kernel, at most so many bytes of them in all."""
    listed = ask({"op": "out"}).get("files")
    files: list[WrittenFile] = []
    left = max_bytes
    for entry in listed if isinstance(listed, list) else ():
        if not (isinstance(entry, list) and len(entry) == 2 and is_name(entry[0]) and type(entry[1]) is int):
            continue
        name, size = entry
        if len(files) == MAX_FILES:
            break
        if not 0 <= size <= left:
            files.append(WrittenFile(name, None, f"it has {size:,} bytes; {left:,} were left of {max_bytes:,}"))
            continue
        content = _content(ask, name, size)
        left -= len(content) if content is not None else 0
        files.append(WrittenFile(name, content, None if content is not None else "it could not be read"))
    return tuple(files)


def is_name(name: object) -> bool:
    """Return whether this can be the name of a file in a folder: relative, plain, with nothing that leads out of it."""
    return (
        isinstance(name, str)
        and 0 < len(name) <= _NAME_CHARS
        and name.isprintable()
        and "\\" not in name
        and not name.startswith(("/", "~"))
        and posixpath.normpath(name) == name
        and not any(part in ("", ".", "..") for part in name.split("/"))
    )


def _content(ask: Ask, name: str, size: int) -> bytes | None:
    content = bytearray()
    for _ in range(size // _PIECE + _READING):  # a kernel that sends little at a time does not keep us for ever
        if len(content) >= size:
            break
        piece = ask({"op": "out", "name": name, "offset": len(content), "size": min(_PIECE, size - len(content))})
        try:
            data = base64.b64decode(piece["data"], validate=True)
        except (KeyError, TypeError, ValueError, binascii.Error):
            return None
        if not data:
            break
        content += data[: size - len(content)]
    return bytes(content)
