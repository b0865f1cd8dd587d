"""Two logs compared on the samples that both have: a paired bootstrap, and what got better and worse."""

from __future__ import annotations

import json
import math
from collections.abc import Collection, Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from ..stats import bootstrap, interval
from .log import Entry, EvalLog, EvalLogError
from .summary import grouped

RESAMPLES = 10_000


@dataclass(frozen=True, slots=True)
class Side:
    """A sample in one of the logs: the mean of its epochs."""

    score: float
    runs: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Pair:
    """One sample in both logs."""

    sample_id: str
    suite: str
    length: int | None
    """None in suites that came from files."""

    first: Side
    second: Side

    @property
    def difference(self) -> float:
        """How much better the second log is."""
        return self.second.score - self.first.score


@dataclass(frozen=True, slots=True)
class Difference:
    """How much better the second log is on some samples."""

    suite: str | None
    length: int | None
    samples: int
    first: float
    second: float
    difference: float
    low: float
    high: float
    """Between these is 95% of the resamples."""

    better: float
    """The share of resamples in which the second log is better."""

    worse: float


@dataclass(frozen=True, slots=True)
class Comparison:
    """Two logs side by side."""

    first: str
    second: str
    all: Difference
    groups: tuple[Difference, ...]
    """By suite and length; by suite, where it has several lengths; by length, where several suites have it."""

    better: tuple[Pair, ...]
    worse: tuple[Pair, ...]
    only_first: int
    only_second: int
    """Samples that only one of them has: they are left out."""

    settings: tuple[tuple[str, Any, Any], ...]
    """What the headers say differently."""

    def to_dict(self) -> dict[str, Any]:
        """The comparison as plain JSON values."""
        return asdict(self)


def compare(first: EvalLog, second: EvalLog, *, seed: int = 0, resamples: int = RESAMPLES) -> Comparison:
    """Compare two logs. Raises `EvalLogError` if there is nothing to compare."""
    one, other = (grouped(log.entries, lambda entry: entry.sample_id) for log in (first, second))
    common = [name for name in one if name in other]
    _refuse_others(first, second, [(one[name][0], other[name][0]) for name in common])
    pairs = [_pair(one[name], other[name], first.own_suites) for name in common]
    changed = sorted((pair for pair in pairs if pair.difference), key=lambda pair: -abs(pair.difference))
    return Comparison(
        first=first.name,
        second=second.name,
        all=_difference(pairs, None, None, seed, resamples),
        groups=tuple(_difference(found, *key, seed, resamples) for key, found in _groups(pairs)),
        better=tuple(pair for pair in changed if pair.difference > 0),
        worse=tuple(pair for pair in changed if pair.difference < 0),
        only_first=len(one) - len(common),
        only_second=len(other) - len(common),
        settings=tuple(_settings(first.header, second.header)),
    )


def _pair(one: Sequence[Entry], other: Sequence[Entry], own: Collection[str]) -> Pair:
    about = one[0]
    return Pair(about.sample_id, about.suite, None if about.suite in own else about.length, _side(one), _side(other))


def _side(entries: Sequence[Entry]) -> Side:
    runs = tuple(entry.run_id for entry in entries if entry.run_id is not None)
    return Side(math.fsum(entry.score for entry in entries) / len(entries), runs)


def _difference(pairs: Sequence[Pair], suite: str | None, length: int | None, seed: int, resamples: int) -> Difference:
    values = [pair.difference for pair in pairs]
    means = bootstrap(values, seed=seed, resamples=resamples)
    low, high = interval(means)
    many = len(pairs)
    return Difference(
        suite=suite,
        length=length,
        samples=many,
        first=math.fsum(pair.first.score for pair in pairs) / many,
        second=math.fsum(pair.second.score for pair in pairs) / many,
        difference=math.fsum(values) / many,
        low=low,
        high=high,
        better=sum(mean > 1e-12 for mean in means) / len(means),
        worse=sum(mean < -1e-12 for mean in means) / len(means),
    )


def _groups(pairs: Sequence[Pair]) -> Iterator[tuple[tuple[str | None, int | None], list[Pair]]]:
    suites = list(dict.fromkeys(pair.suite for pair in pairs))
    lengths = sorted({pair.length for pair in pairs if pair.length is not None})
    for suite in suites:
        of_suite = [pair for pair in pairs if pair.suite == suite]
        own = sorted({pair.length for pair in of_suite}, key=lambda length: length or 0)
        for length in own:
            yield (suite, length), [pair for pair in of_suite if pair.length == length]
        if len(own) > 1 and len(suites) > 1:
            yield (suite, None), of_suite
    if len(suites) > 1 and len(lengths) > 1:
        for length in lengths:
            yield (None, length), [pair for pair in pairs if pair.length == length]


def _refuse_others(first: EvalLog, second: EvalLog, common: Sequence[tuple[Entry, Entry]]) -> None:
    for log in (first, second):
        if not log.entries:
            raise EvalLogError(f"{log.name} has no finished samples yet")
    if not common:
        raise EvalLogError(
            f"{first.name} and {second.name} have no samples in common: "
            f"{first.name} has {_about(first)}, {second.name} has {_about(second)}. "
            "Only the same samples can be compared: the same suite, length and seed"
        )
    answers = [one.sample_id for one, two in common if one.expected != two.expected]
    inputs = [one.sample_id for one, two in common if one.inputs and two.inputs and one.inputs != two.inputs]
    for other, what in ((answers, "answers"), (inputs, "inputs")):
        if other:
            raise EvalLogError(
                f"{first.name} and {second.name} have samples with the same names but other {what} "
                f"({', '.join(other[:3])}{', ...' if len(other) > 3 else ''}): these are different samples, "
                "or the suite has changed in between. Run one of the logs again on the samples of the other"
            )


def _about(log: EvalLog) -> str:
    names = ", ".join(one["name"] for one in log.header["suites"])
    lengths = ", ".join(f"{one:,}" for one in log.header["lengths"])
    return f"{names} of {lengths} characters with seed {log.header['seed']}"


def _settings(one: dict[str, Any], other: dict[str, Any]) -> Iterator[tuple[str, Any, Any]]:
    for section in ("versions", "models", "baseline", "epochs", "seed", "count", "lengths", "configuration"):
        a, b = one.get(section), other.get(section)
        if isinstance(a, dict) and isinstance(b, dict):
            for name in dict.fromkeys([*a, *b]):
                if json.dumps(a.get(name), sort_keys=True) != json.dumps(b.get(name), sort_keys=True):
                    yield f"{section}.{name}", a.get(name), b.get(name)
        elif a != b:
            yield section, a, b
    files, others = ({suite["name"]: suite.get("digest") for suite in header["suites"]} for header in (one, other))
    for name in files:
        if name in others and files[name] != others[name]:
            yield f"suites.{name}", _digest(files[name]), _digest(others[name])


def _digest(whole: str | None) -> str | None:
    return f"sha256 {whole[:12]}" if whole else None
