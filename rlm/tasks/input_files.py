"""Texts and JSON of inputs, read from regular files and from standard input, up to a largest size."""

from __future__ import annotations

import io
import json
import os
import re
import stat
import sys
from pathlib import Path
from typing import Any

from ..units import size_text

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
    try:
        return io.TextIOWrapper(io.BytesIO(content), encoding=encoding).read()
    except LookupError:
        raise UnreadableInput(f"there is no encoding {encoding!r}; try utf-8 or latin-1") from None
    except UnicodeError as error:
        raise UnreadableInput(f"{path} {_not_text(content, encoding, error)}") from None


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
    if content.startswith(b"%PDF-"):
        return "is a PDF; extract its text first, as with `pdftotext`"
    if b"\0" in content[:4096]:
        return f"is not text in {encoding}: it has zero bytes; extract its text first"
    position = f" (byte {error.start:,})" if isinstance(error, UnicodeDecodeError) else ""
    return f"is not {encoding}{position}; if it has another encoding, name it: `encoding: latin-1`"
