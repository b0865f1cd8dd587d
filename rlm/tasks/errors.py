"""Problems of a task file: all of them at once, each with its place and its fix."""

from __future__ import annotations

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
