"""The comparison of answers: which values most runs agree on, field by field, and who says otherwise.

A mapping is compared key by key. Lists are the same if they have the same items, in whatever order; of texts, case,
spaces and quotation marks do not count; floats are compared to nine digits (`rlm.equality`). A field that is zero, null
or empty is outvoted by any value: programs that look in the wrong place agree that nothing is there.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ..equality import same_meaning
from ..json_values import Path, pointer

_MAX_KEYS = 200
MISSING: Any = type("Missing", (), {"__repr__": lambda self: "nothing", "__bool__": lambda self: False})()
"""The value of a key that a mapping does not have."""


@dataclass(frozen=True, slots=True)
class Vote:
    """The values that runs gave for one part of the outputs, the most frequent first."""

    path: Path
    groups: tuple[tuple[Any, tuple[int, ...]], ...]
    """Different values, each with the runs that gave it. Zero and nothing come last: see `is_nothing`."""

    @property
    def value(self) -> Any:
        """The value that most runs gave."""
        return self.groups[0][0]

    @property
    def agree(self) -> int:
        """How many runs gave it."""
        return len(self.groups[0][1])

    @property
    def is_nothing(self) -> bool:
        """Whether no run gave a field a value but zero or nothing: one that does has the say."""
        return len(self.path) == 1 and _is_nothing(self.value)

    @property
    def lead(self) -> int:
        """By how many runs it is ahead of the next value."""
        rest = self.groups[1:]
        return self.agree - (len(rest[0][1]) if rest and not _is_nothing(rest[0][0]) else 0)


@dataclass(frozen=True, slots=True)
class Tally:
    """All votes on the outputs of some runs."""

    votes: tuple[Vote, ...]
    answers: int

    @property
    def agree(self) -> int:
        """How many runs agree on the value that is disputed most."""
        return min((vote.agree for vote in self.votes), default=self.answers)

    def is_decided(self, remaining: int) -> bool:
        """Return whether no vote can be changed by the remaining runs, and at least two runs agree on every one."""
        return bool(self.votes) and all(
            vote.agree > 1 and vote.lead > remaining and not (remaining and vote.is_nothing) for vote in self.votes
        )

    def outputs(self) -> dict[str, Any]:
        """Return the outputs that most runs agree on, put together from all votes."""
        outputs: dict[str, Any] = {}
        for vote in self.votes:
            if len(vote.path) == 1:
                outputs[str(vote.path[0])] = vote.value
            else:
                field, key = vote.path
                mapping = outputs.setdefault(str(field), {})
                if vote.value is not MISSING:
                    mapping[key] = vote.value
        return outputs

    def support(self, run: int) -> int:
        """Return how many of the values that most agree on a run gave."""
        return sum(run in vote.groups[0][1] for vote in self.votes)

    def by_pointer(self) -> dict[str, int]:
        """Return the number of runs that agree, by JSON pointer."""
        return {pointer(vote.path): vote.agree for vote in self.votes}


def tally(answers: Mapping[int, Mapping[str, Any]]) -> Tally:
    """Return the votes of runs (by number) on their outputs, which are plain JSON."""
    votes: list[Vote] = []
    fields = dict.fromkeys(name for outputs in answers.values() for name in outputs)
    for field in fields:
        values = {run: outputs.get(field, MISSING) for run, outputs in answers.items()}
        if all(isinstance(value, Mapping) and value for value in values.values()):
            keys = list(dict.fromkeys(key for value in values.values() for key in value))
            if len(keys) <= _MAX_KEYS:
                votes += [
                    _vote((field, key), {run: value.get(key, MISSING) for run, value in values.items()}) for key in keys
                ]
                continue
        votes.append(_vote((field,), values))
    return Tally(tuple(votes), len(answers))


def same_answer(left: Any, right: Any) -> bool:
    """Return whether two values mean the same; a value that is missing is the same as none."""
    return left is right if left is MISSING or right is MISSING else same_meaning(left, right)


def _vote(path: Path, values: Mapping[int, Any]) -> Vote:
    groups: list[tuple[Any, list[int]]] = []
    for run, value in values.items():
        group = next((runs for other, runs in groups if same_answer(other, value)), None)
        if group is None:
            groups.append((value, [run]))
        else:
            group.append(run)
    # Stable: of equal groups, the first run's comes first.
    groups.sort(key=lambda group: (len(path) == 1 and _is_nothing(group[0]), -len(group[1])))
    return Vote(path, tuple((value, tuple(runs)) for value, runs in groups))


def _is_nothing(value: Any) -> bool:
    """Return whether a value says that nothing was found. Different mistakes lead to it, so that it proves little."""
    if isinstance(value, str):
        return not value.strip()
    return value is None or (value is not False and value in (0, [], {}))


def first_difference(code: Sequence[tuple[int, str]], other: Sequence[tuple[int, str]]) -> dict[str, Any] | None:
    """Return where the code of two runs first differs: the iteration and the line of each; None if it does not.

    `code` is the code of each iteration. Comments and blank lines do not count.
    """
    mine, theirs = _lines(code), _lines(other)
    for index in range(max(len(mine), len(theirs))):
        left = mine[index] if index < len(mine) else (code[-1][0] if code else 0, "")
        right = theirs[index] if index < len(theirs) else (other[-1][0] if other else 0, "")
        if left[1].strip() != right[1].strip():
            return {"iteration": left[0], "code": left[1].strip(), "other": right[1].strip()}
    return None


def _lines(code: Sequence[tuple[int, str]]) -> list[tuple[int, str]]:
    return [
        (iteration, line)
        for iteration, text in code
        for line in text.splitlines()
        if line.strip() and not line.strip().startswith("#")
    ]
