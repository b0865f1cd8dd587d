"""Standard output and standard error: the answer alone on one, everything else on the other; pages and JSON."""

from __future__ import annotations

import contextlib
import io
import json
import os
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, TextIO

if TYPE_CHECKING:
    from rich.console import RenderableType

_INVISIBLE = re.compile("[\x7f-\x9f\u200b-\u200f\u2028-\u202e\u2060-\u2069\ufeff]")
_WIDTH = 120
"""The width of a page where there is no terminal."""


def open_closed_streams() -> None:
    """Open closed standard streams on the null device; else the next file opened would take their descriptor."""
    for descriptor in range(3):
        try:
            os.fstat(descriptor)
        except OSError:
            os.open(os.devnull, os.O_RDWR)
    sys.stdout = sys.stdout or open(1, "w", closefd=False)  # noqa: SIM115
    sys.stderr = sys.stderr or open(2, "w", closefd=False)  # noqa: SIM115


def replace_unencodable() -> None:
    """Let standard output show `?` for characters that its encoding lacks. Standard error has its own way.

    An error handler that was asked for by name (`PYTHONIOENCODING=ascii:xmlcharrefreplace`) stays. Answers are not
    concerned: `answer_only` writes UTF-8, so nothing is lost.
    """
    if isinstance(sys.stdout, io.TextIOWrapper) and sys.stdout.errors in ("strict", "surrogateescape"):
        sys.stdout.reconfigure(errors="replace")


def lead_nowhere(descriptor: int) -> None:
    """Point a stream that cannot be written to the null device; Python would complain again when it exits."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), descriptor)


@contextlib.contextmanager
def answer_only() -> Iterator[TextIO]:
    """Yield the real standard output. Until this ends, `print` and file descriptor 1 both lead to standard error."""
    sys.stdout.flush()
    try:
        answer = os.fdopen(os.dup(sys.stdout.fileno()), "w", encoding="utf-8")
    except (io.UnsupportedOperation, AttributeError, OSError):  # a stream without a descriptor, as in a test
        real = sys.stdout
        with _diverted(), contextlib.redirect_stdout(sys.stderr):
            yield real
        return
    with answer, _diverted(), contextlib.redirect_stdout(sys.stderr):
        yield answer


@contextlib.contextmanager
def _diverted() -> Iterator[None]:
    """Point file descriptor 1 where 2 points, for libraries and child processes."""
    try:
        saved = os.dup(1)
    except OSError:
        yield
        return
    os.dup2(2, 1)
    try:
        yield
    finally:
        os.dup2(saved, 1)
        os.close(saved)


def print_page(page: RenderableType, output: IO[str] | None = None, *, width: int = _WIDTH) -> None:
    """Print a page of rich without spaces at the ends of lines. `width` counts where there is no terminal."""
    from rich.console import Console

    output = output or sys.stdout
    console = Console(file=output, highlight=False)
    if not console.is_terminal and "COLUMNS" not in os.environ:
        console.width = width
    with console.capture() as captured:
        console.print(page)
    output.write("".join(line.rstrip() + "\n" for line in captured.get().splitlines()))


def print_json(value: Any, output: IO[str] | None = None, *, indent: int | None = None) -> None:
    """Print a value as JSON in which a terminal finds no control character: they are escaped, as JSON allows.

    On the answer's own stream, which is UTF-8, letters stay as they are; elsewhere the JSON is ASCII.
    """
    text = json.dumps(value, indent=indent, ensure_ascii=output is None)
    (output or sys.stdout).write(safe_json(text) + "\n")


def safe_json(text: str) -> str:
    """Escape what a terminal would not show, or would obey, in JSON."""
    return _INVISIBLE.sub(lambda found: f"\\u{ord(found[0]):04x}", text)


@contextlib.contextmanager
def writing(path: Path) -> Iterator[None]:
    """Create the folder of a file that is about to be written; an error of writing it is a usage error."""
    import click

    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        yield
    except OSError as error:
        raise click.UsageError(f"{path} cannot be written ({error.strerror or error})") from None


def write_file(path: Path, text: str) -> None:
    """Write an export and report its size."""
    import click

    from ..units import size_text

    with writing(path):
        path.write_text(text, encoding="utf-8")
    click.echo(f"Wrote {path} ({size_text(len(text.encode()))}).", err=True)
