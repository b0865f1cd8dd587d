"""Parameter types of `rlm eval`: lengths, suites and logs, with their completion."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from click.shell_completion import CompletionItem

if TYPE_CHECKING:
    from ..evals.log import EvalLog

_LENGTH = re.compile(r"([0-9]+(?:\.[0-9]+)?)([kKmM]?)(t?)")
_UNITS = {"": 1, "k": 1_000, "m": 1_000_000}
_TOKEN_UNITS = {"": 1, "k": 1_024, "m": 1_048_576}
_CHARS_PER_TOKEN = 3.3
"""Of labelled lines with dates and user numbers (OOLONG's contexts); other texts have more characters a token."""


class LengthsType(click.ParamType):  # type: ignore[type-arg]
    """Lengths in characters: `64k`, or several, as in `4k,64k,1M`; with a `t`, in tokens, about: `32kt`."""

    name = "lengths"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> tuple[int, ...]:
        """Return the lengths, each once."""
        if isinstance(value, tuple):
            return value
        from ..evals.suites import MAX_LENGTH, MIN_LENGTH

        lengths: dict[int, None] = {}
        for part in str(value).split(","):
            match = _LENGTH.fullmatch(part.strip())
            if match is None:
                self.fail(
                    f"{part.strip()!r} is not a length, a number of characters such as 64k or 1M, or of tokens: 32kt",
                    param,
                    ctx,
                )
            number, unit = float(match[1]), match[2].lower()
            length = round(number * _TOKEN_UNITS[unit] * _CHARS_PER_TOKEN if match[3] else number * _UNITS[unit])
            if not MIN_LENGTH <= length <= MAX_LENGTH:
                self.fail(f"{length:,} is not between {MIN_LENGTH:,} and {MAX_LENGTH:,} characters", param, ctx)
            lengths[length] = None
        return tuple(lengths)


class SuitesType(click.ParamType):  # type: ignore[type-arg]
    """Suites by name, or JSONL files; several by comma."""

    name = "suites"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> tuple[str, ...]:
        """Return the names, each once; `all` is every suite of made-up texts."""
        if isinstance(value, tuple):
            return value
        from ..evals.config import is_suite_file
        from ..evals.suites import ALL_SUITES, SUITES
        from ..text import suggestion

        parts = [part.strip() for part in str(value).split(",")]
        names = tuple(dict.fromkeys(name for part in parts for name in (SUITES if part == "all" else [part])))
        for name in names:
            if is_suite_file(name) and Path(name).is_dir():
                self.fail(f"{name} is a directory; a suite of your own is a .jsonl file", param, ctx)
            if is_suite_file(name) and not Path(name).is_file():
                self.fail(f"there is no file {name}", param, ctx)
            if not is_suite_file(name) and name not in ALL_SUITES:
                near = suggestion(name, ALL_SUITES)
                self.fail(f"there is no suite {name!r}{near}\nA suite of your own is a .jsonl file.", param, ctx)
        return names

    def shell_complete(self, ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
        """Complete names of suites, or files."""
        from ..evals.suites import ALL_SUITES

        before, comma, last = incomplete.rpartition(",")
        found = [name for name in ALL_SUITES if name.startswith(last)]
        items = [CompletionItem(f"{before}{comma}{name}", help=ALL_SUITES[name].about) for name in found]
        return items or [CompletionItem(incomplete, type="file")]


class LogType(click.ParamType):  # type: ignore[type-arg]
    """A log: its directory, or the first characters of a name in the default folder."""

    name = "log"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Path:
        """Return its directory."""
        from ..evals.log import EvalLogError, find_log

        try:
            return find_log(value)
        except EvalLogError as error:
            self.fail(f"{error}. `rlm eval list --logs` lists them", param, ctx)

    def shell_complete(self, ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
        """Complete logs in the default folder, or directories."""
        from ..evals.log import known_logs

        found = [CompletionItem(log.name) for log in known_logs() if log.name.startswith(incomplete)]
        return found or [CompletionItem(incomplete, type="dir")]


def read(folder: Path) -> EvalLog:
    """Return a log, or raise a usage error."""
    from ..evals.log import EvalLogError, read_log

    try:
        return read_log(folder)
    except EvalLogError as error:
        raise click.UsageError(str(error)) from None
