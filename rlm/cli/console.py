"""Standard output and standard error, with the answer alone on one; text for people: durations, sizes, values."""

from __future__ import annotations

import contextlib
import io
import json
import logging
import os
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, TextIO

import sandbox

from ..text import clean as clean
from ..text import count as count
from ..text import dollars as dollars
from ..text import one_line as one_line
from ..text import shorten

if TYPE_CHECKING:
    from rich.console import RenderableType

    from ..budgets import Usage
    from ..tasks import Task
    from .progress.state import Iteration

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


_LIBRARY_WARNINGS = (
    (
        "dspy.clients.model_metadata",
        "refresh failed",
        "prices could not be fetched; the list that came with dspy is used",
    ),
    (
        "dspy.clients.lm",
        "truncated",
        "a reply was cut off at its limit of tokens; `max_tokens:` of the model raises it",
    ),
)


class _Reworded(logging.Filter):
    """Prints one line of our words, once, in place of a warning."""

    def __init__(self, part: str, text: str) -> None:
        super().__init__()
        self._part, self._text, self._printed = part, text, False

    def filter(self, record: logging.LogRecord) -> bool:
        """Return whether the record is not the warning."""
        if record.levelno < logging.WARNING or self._part not in record.getMessage():
            return True
        if not self._printed:
            self._printed = True
            print(f"rlm: {self._text}", file=sys.stderr, flush=True)  # noqa: T201
        return False


def reword_library_warnings() -> None:
    """Show warnings of libraries as one line each, in our words."""
    for logger, part, text in _LIBRARY_WARNINGS:
        filters = logging.getLogger(logger).filters
        filters[:] = [entry for entry in filters if not isinstance(entry, _Reworded)] + [_Reworded(part, text)]


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


def last_line(text: str, width: int = 80) -> str:
    """Return the last line of a text that is not empty."""
    lines = [line for line in text[-20 * width :].splitlines() if line.strip()]
    return one_line(lines[-1], width) if lines else ""


def said_instead_of_code(reasoning: str | None) -> str:
    """Return what a reply without code says."""
    return f"the model wrote: {reasoning.strip()}" if reasoning and reasoning.strip() else "the reply was empty"


def middle_cut(text: str, most: int, width: int = 400) -> str:
    """Return the first and the last lines of a text, `most` together, each of at most `width` characters."""
    lines = [shorten(line, width) for line in clean(text[:100_000]).splitlines()]
    if len(lines) <= most:
        return "\n".join(lines)
    left_out = text.count("\n") + 1 - most
    return "\n".join([*lines[: most // 2], f"[… {count(left_out, 'line')} …]", *lines[-(most - most // 2) :]])


def duration(seconds: float) -> str:
    """Return a duration: `0.4 s`, `12 s`, `2:05`, `1:02:05`."""
    if seconds < 9.95:
        return f"{seconds:.1f} s"
    if seconds < 59.5:
        return f"{seconds:.0f} s"
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes}:{rest:02}"


def value_text(value: Any) -> str:
    """Return an output for people: text as it is, everything else as JSON."""
    if isinstance(value, str):
        return clean(value)
    short = json.dumps(value, ensure_ascii=False)
    return clean(short if len(short) <= 72 else json.dumps(value, ensure_ascii=False, indent=2))


def usage_text(usage: Usage, iterations: int | None = None) -> str:
    """Return the usage of a run in one line."""
    parts = [] if iterations is None else [count(iterations, "iteration")]
    parts.append(count(usage.llm_calls, "LLM call") + " from the code")
    if usage.tokens:
        parts.append(f"{usage.tokens_in:,} tokens read, {usage.tokens_out:,} written")
    if usage.cost_usd is not None:
        unknown = f" (not counting {count(usage.unpriced_calls, 'call')})" if usage.unpriced_calls else ""
        parts.append(dollars(usage.cost_usd) + unknown)
    if usage.cached_calls:
        parts.append(count(usage.cached_calls, "answer") + " from the cache")
    return " · ".join([*parts, duration(usage.seconds)])


def facts_of(iteration: Iteration) -> str:
    """Return the facts of an iteration: `3 lines, 1 call, 0.4 s`."""
    if not iteration.code:
        return "no code"
    calls = f", {count(len(iteration.calls), 'call')}" if iteration.calls else ""
    return f"{count(len(iteration.code.splitlines()), 'line')}{calls}, {duration(iteration.seconds)}"


def signature_text(task: Task) -> str:
    """Return the signature of a task: `doc: str -> answer: int`."""
    sides = (task.signature.inputs, task.signature.outputs)
    return " -> ".join(", ".join(f"{field.name}: {field.type_text}" for field in side) for side in sides)


def inputs_text(task: Task) -> str:
    """Return the inputs of a task: `doc (48,211 characters), n (5)`."""
    return ", ".join(f"{name} ({_input_text(value)})" for name, value in task.inputs.items()) or "none"


def models_text(task: Task) -> str:
    """Return the models of a task and their roles."""
    main = task.models.main
    return ", ".join([str(main), *(f"{role} {spec}" for role, spec in task.asked.items() if spec != main)])


def script_notice(task: Task) -> str | None:
    """Return the notice that replies are scripted; None where every model is a real one."""
    roles = task.asked
    scripts = {role: spec.scripted.name for role, spec in roles.items() if spec.scripted is not None}
    if not scripts:
        return None
    names = ", ".join(dict.fromkeys(scripts.values()))
    if len(scripts) == len(roles):
        return f"The model is scripted: its replies were written in advance ({names}). No model is asked."
    asked = ", ".join(f"{role} is {spec}" for role, spec in roles.items() if role not in scripts)
    return f"Partly scripted: {' and '.join(scripts)} replies were written in advance ({names}). A real model: {asked}."


def summary(task: Task) -> str:
    """Return a task in one line."""
    limits = task.trigger
    budget = f"at most {count(limits.max_iterations, 'iteration')}, {duration(limits.max_duration)}"
    return f"{signature_text(task)}; {models_text(task)}; {budget}"


def _input_text(value: Any) -> str:
    if isinstance(value, str):
        short = len(value) <= 40
        return one_line(json.dumps(value, ensure_ascii=False), 44) if short else count(len(value), "character")
    if isinstance(value, sandbox.File):
        from ..units import size_text  # pydantic takes a while to import

        return f"{one_line(value.name, 60)}, {'folder' if value.is_folder else size_text(value.size)}"
    if isinstance(value, list | tuple | set | dict):
        return count(len(value), "item")
    return one_line(str(value), 40)
