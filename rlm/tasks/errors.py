"""What is wrong with a task file: every problem at once, each with its place and its fix."""

from __future__ import annotations

import difflib
from collections.abc import Iterable
from dataclasses import dataclass

from ..errors import RlmError


@dataclass(frozen=True, slots=True)
class TaskProblem:
    """One thing that is wrong, and where: `task.yaml:7:3`, or an option of the command line."""

    where: str
    message: str
    order: tuple[int, int] = (0, 0)
    """Line and column, to list problems as they stand in the file."""

    def __str__(self) -> str:
        return f"{self.where}: {self.message}"


class TaskError(RlmError, ValueError):
    """A task that cannot be run as it is written. `problems` has everything that was found."""

    def __init__(self, problems: Iterable[TaskProblem]) -> None:
        unique = dict.fromkeys(problems)
        self.problems = tuple(sorted(unique, key=lambda one: one.order))
        super().__init__("\n".join(str(one) for one in self.problems))


def suggestion(name: str, known: Iterable[str]) -> str:
    """`; did you mean ...?` where one of the known names is close, and otherwise what is known."""
    names = list(known)
    close = difflib.get_close_matches(name, names, n=1, cutoff=0.6)
    if close:
        return f"; did you mean {close[0]}?"
    return f"; known are {', '.join(names)}" if names else ""
