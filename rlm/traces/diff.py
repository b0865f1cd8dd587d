"""A comparison of two recorded runs: their settings, the iteration at which they diverge, and their results."""

from __future__ import annotations

import dataclasses
import difflib
import json
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import zip_longest
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .records import IterationRecord
    from .runs import RunRecord

_LINES = 2_000


@dataclass(frozen=True, slots=True)
class ValuePair:
    """One setting, number or output in both runs."""

    name: str
    first: Any
    second: Any

    @property
    def same(self) -> bool:
        """Whether both runs have the same value."""
        return bool(self.first == self.second)


@dataclass(frozen=True, slots=True)
class IterationDiff:
    """One iteration in both runs. `code` and `output` are unified diffs; empty if there is no difference."""

    number: int
    code: str
    output: str
    only_in: str | None = None
    """`first` or `second` if only one of the runs has this iteration."""

    @property
    def same(self) -> bool:
        """Whether code and output are the same in both runs."""
        return not (self.code or self.output or self.only_in)


@dataclass(frozen=True, slots=True)
class RunDiff:
    """Two runs side by side."""

    first: RunRecord
    second: RunRecord
    facts: tuple[ValuePair, ...]
    outputs: tuple[ValuePair, ...]
    iterations: tuple[IterationDiff, ...]

    @property
    def diverged_at(self) -> int | None:
        """The number of the first iteration that differs; None if none does."""
        return next((iteration.number for iteration in self.iterations if not iteration.same), None)

    def to_dict(self) -> dict[str, Any]:
        """Return the comparison as plain JSON values."""
        return {
            "first": self.first.id,
            "second": self.second.id,
            "facts": [{**dataclasses.asdict(pair), "same": pair.same} for pair in self.facts],
            "outputs": [{**dataclasses.asdict(pair), "same": pair.same} for pair in self.outputs],
            "diverged_at": self.diverged_at,
            "iterations": [{**dataclasses.asdict(iteration), "same": iteration.same} for iteration in self.iterations],
        }


def compare(first: RunRecord, second: RunRecord) -> RunDiff:
    """Compare two runs."""
    pairs = zip_longest(first.iterations, second.iterations)
    return RunDiff(
        first,
        second,
        tuple(_facts(first, second)),
        tuple(_pairs("", *((run.result() or {}).get("outputs") for run in (first, second)))),
        tuple(_iteration(number, *pair) for number, pair in enumerate(pairs, 1)),
    )


def format_value(value: Any) -> str:
    """Return a compared value as one line of text."""
    if isinstance(value, float):
        return f"{value:.4g}"
    return "" if value is None else value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def _facts(first: RunRecord, second: RunRecord) -> list[ValuePair]:
    starts = first.beginning, second.beginning
    facts = [ValuePair("task", first.task or first.name, second.task or second.name)]
    for section in ("models", "trigger", "settings"):
        facts += _pairs(f"{section}.", *(start.get(section) for start in starts))
    facts += _pairs("inputs.", *({name: _input(value) for name, value in _inputs(start).items()} for start in starts))
    ends = ("ending", "reason", "confidence", "iterations_used", "llm_calls", "tokens", "cost_usd", "duration")
    return facts + [ValuePair(name, getattr(first, name), getattr(second, name)) for name in ends]


def _pairs(prefix: str, first: dict[str, Any] | None, second: dict[str, Any] | None) -> list[ValuePair]:
    first, second = first or {}, second or {}
    return [ValuePair(prefix + name, first.get(name), second.get(name)) for name in dict.fromkeys([*first, *second])]


def _inputs(start: dict[str, Any]) -> dict[str, Any]:
    return start.get("inputs") or {}


def _input(stored: Any) -> Any:
    """Return a short form of a stored input; the hash tells large ones apart."""
    if not isinstance(stored, dict):
        return None
    value = stored.get("value")
    if isinstance(value, dict) and "$body" in value:
        return f"{stored.get('type')} of {value.get('size'):,}, {value['$body'][:12]}"
    return value


def _iteration(number: int, first: IterationRecord | None, second: IterationRecord | None) -> IterationDiff:
    if first is None or second is None:
        return IterationDiff(number, "", "", "second" if first is None else "first")
    return IterationDiff(number, _diff(first.code, second.code), _diff(first.output or "", second.output or ""))


def _diff(first: str, second: str) -> str:
    if first == second:
        return ""
    lines: Sequence[str] = list(
        difflib.unified_diff(first.splitlines()[:_LINES], second.splitlines()[:_LINES], lineterm="", n=2)
    )
    return "\n".join(lines[2:]) or f"they differ only after line {_LINES}, or in line endings"
