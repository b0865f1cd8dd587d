"""Problems of a task file: all of them at once, each with its place and its fix."""

from __future__ import annotations

import difflib
from collections.abc import Iterable
from dataclasses import dataclass

from ..errors import RlmError


@dataclass(frozen=True, slots=True)
class TaskProblem:
    """One problem and its place: `task.yaml:7:3`, or an option of the command line."""

    where: str
    message: str
    order: tuple[int, int] = (0, 0)
    """Line and column, to sort problems by their place in the file."""

    def __str__(self) -> str:
        return f"{self.where}: {self.message}"


class TaskError(RlmError, ValueError):
    """A task that cannot be run as it is written. `problems` has all of its problems."""

    def __init__(self, problems: Iterable[TaskProblem]) -> None:
        unique = dict.fromkeys(problems)
        self.problems = tuple(sorted(unique, key=lambda problem: problem.order))
        super().__init__("\n".join(map(str, self.problems)))


def near_name(name: str, known: Iterable[str]) -> str | None:
    """Return the known name that is close to a misspelt one, if there is one."""
    close = difflib.get_close_matches(name, list(known), n=1, cutoff=0.6)
    return close[0] if close else None


def suggestion(name: str, known: Iterable[str]) -> str:
    """Return `; did you mean ...?` if a known name is close, and `; known are ...` otherwise."""
    names = list(known)
    near = near_name(name, names)
    if near is not None:
        return f"; did you mean {near}?"
    return f"; known are {', '.join(names)}" if names else ""
