"""Standard output for the answer alone: whatever else is printed while a run goes on is sent to standard error."""

from __future__ import annotations

import contextlib
import io
import os
import re
import sys
from collections.abc import Iterator
from typing import TextIO

_INVISIBLE = re.compile("[\x7f-\x9f\u200b-\u200f\u2028-\u202e\u2060-\u2069\ufeff]")


def open_all() -> None:
    """Let standard streams that are closed lead nowhere; else the next file that is opened would take their place."""
    for descriptor in range(3):
        try:
            os.fstat(descriptor)
        except OSError:
            os.open(os.devnull, os.O_RDWR)
    sys.stdout = sys.stdout or open(1, "w", closefd=False)  # noqa: SIM115
    sys.stderr = sys.stderr or open(2, "w", closefd=False)  # noqa: SIM115


def forgive() -> None:
    """Let standard output show `?` for what its encoding lacks, as a terminal would. Standard error has its own way.

    What was asked for by name (`PYTHONIOENCODING=ascii:xmlcharrefreplace`) stays. Answers are not concerned: they are
    UTF-8 (`answer_only`), so that nothing of them is lost.
    """
    if isinstance(sys.stdout, io.TextIOWrapper) and sys.stdout.errors in ("strict", "surrogateescape"):
        sys.stdout.reconfigure(errors="replace")


def lead_nowhere(descriptor: int) -> None:
    """Give up a standard stream that cannot be written; Python would complain about it once more when it exits."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), descriptor)


@contextlib.contextmanager
def answer_only() -> Iterator[TextIO]:
    """The real standard output. Until this ends, `print` and file descriptor 1 both lead to standard error."""
    sys.stdout.flush()
    try:
        kept = os.fdopen(os.dup(sys.stdout.fileno()), "w", encoding="utf-8")
    except (io.UnsupportedOperation, AttributeError, OSError):  # a stand-in, as in a test
        real = sys.stdout
        with _diverted(), contextlib.redirect_stdout(sys.stderr):
            yield real
        return
    with kept, _diverted(), contextlib.redirect_stdout(sys.stderr):
        yield kept


@contextlib.contextmanager
def _diverted() -> Iterator[None]:
    """File descriptor 1 leads where 2 leads, for libraries and child processes."""
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


def safe_json(text: str) -> str:
    """JSON in which a terminal finds nothing to obey: what is not visible is escaped, as JSON allows."""
    return _INVISIBLE.sub(lambda found: f"\\u{ord(found[0]):04x}", text)
