"""Two runs, compared: what they started from, where they parted, and how each ended."""

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
class Fact:
    """One thing about both runs."""

    name: str
    first: Any
    second: Any

    @property
    def same(self) -> bool:
        """Whether it is the same in both."""
        return bool(self.first == self.second)


@dataclass(frozen=True, slots=True)
class IterationDifference:
    """One iteration of both runs. The differences are unified diffs; empty where there are none."""

    number: int
    code: str
    output: str
    only_in: str | None = None
    """`first` or `second`, where only one of the runs came so far."""

    @property
    def same(self) -> bool:
        """Whether both did the same, and the same came of it."""
        return not (self.code or self.output or self.only_in)


@dataclass(frozen=True, slots=True)
class Difference:
    """Two runs beside each other."""

    first: RunRecord
    second: RunRecord
    facts: tuple[Fact, ...]
    outputs: tuple[Fact, ...]
    iterations: tuple[IterationDifference, ...]

    @property
    def parted_at(self) -> int | None:
        """The first iteration that is not the same; None if all are."""
        return next((one.number for one in self.iterations if not one.same), None)

    def to_dict(self) -> dict[str, Any]:
        """The comparison as plain JSON values."""
        return {
            "first": self.first.id,
            "second": self.second.id,
            "facts": [{**dataclasses.asdict(one), "same": one.same} for one in self.facts],
            "outputs": [{**dataclasses.asdict(one), "same": one.same} for one in self.outputs],
            "parted_at": self.parted_at,
            "iterations": [{**dataclasses.asdict(one), "same": one.same} for one in self.iterations],
        }


def compare(first: RunRecord, second: RunRecord) -> Difference:
    """Compare two runs."""
    pairs = zip_longest(first.iterations, second.iterations)
    outputs = [(run.result() or {}).get("outputs") or {} for run in (first, second)]
    names = dict.fromkeys([*outputs[0], *outputs[1]])
    return Difference(
        first,
        second,
        tuple(_facts(first, second)),
        tuple(Fact(name, outputs[0].get(name), outputs[1].get(name)) for name in names),
        tuple(_iteration(number, *pair) for number, pair in enumerate(pairs, 1)),
    )


def _facts(first: RunRecord, second: RunRecord) -> list[Fact]:
    starts = first.beginning, second.beginning
    facts = [Fact("task", first.task or first.name, second.task or second.name)]
    for section in ("models", "trigger", "settings"):
        one, other = (start.get(section) or {} for start in starts)
        facts += [Fact(f"{section}.{name}", one.get(name), other.get(name)) for name in dict.fromkeys([*one, *other])]
    one, other = (start.get("inputs") or {} for start in starts)
    facts += [Fact(f"inputs.{name}", _shown(one.get(name)), _shown(other.get(name))) for name in {**one, **other}]
    ends = ("ending", "reason", "confidence", "iterations_used", "llm_calls", "tokens", "cost_usd", "duration")
    return facts + [Fact(name, getattr(first, name), getattr(second, name)) for name in ends]


def _shown(kept: Any) -> Any:
    """An input, short: its hash tells large ones apart."""
    if not isinstance(kept, dict):
        return None
    value = kept.get("value")
    if isinstance(value, dict) and "$body" in value:
        return f"{kept.get('type')} of {value.get('size'):,}, {value['$body'][:12]}"
    return value


def _iteration(number: int, one: IterationRecord | None, other: IterationRecord | None) -> IterationDifference:
    if one is None or other is None:
        return IterationDifference(number, "", "", "second" if one is None else "first")
    return IterationDifference(number, _diff(one.code, other.code), _diff(one.output or "", other.output or ""))


def _diff(one: str, other: str) -> str:
    if one == other:
        return ""
    found: Sequence[str] = list(
        difflib.unified_diff(one.splitlines()[:_LINES], other.splitlines()[:_LINES], lineterm="", n=2)
    )
    return "\n".join(found[2:]) or f"they differ only after line {_LINES}, or in how lines end"


def fact_text(value: Any) -> str:
    """A value of a fact in one line."""
    if isinstance(value, float):
        return f"{value:.4g}"
    return "" if value is None else value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
