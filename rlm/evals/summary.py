"""What a log says: mean scores with their standard errors, pass^k, cost, tokens, time, endings; by suite and length.

A sample that is tried in several epochs is one observation, not several: standard errors are clustered by sample.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Sequence
from dataclasses import asdict, dataclass
from typing import Any, TypeVar

from .log import Entry, EvalLog
from .tier_counts import together

K = TypeVar("K", bound=Hashable)
_SAID = 3


@dataclass(frozen=True, slots=True)
class Estimate:
    """A mean, and its standard error; None where there is only one sample."""

    mean: float
    error: float | None


@dataclass(frozen=True, slots=True)
class Group:
    """The entries of a suite, a length, or all of them."""

    suite: str | None
    length: int | None
    samples: int
    tries: int
    score: Estimate
    right: Estimate
    """The share of answers in which every value is right."""

    passes: dict[int, Estimate]
    """pass^k: how likely k tries of a sample are all right, for each k up to the number of epochs."""

    fields: dict[str, float]
    """The mean score of each output."""

    endings: dict[str, int]
    errors: int
    """Runs that something else than their answer broke off, those with an input that was too long included."""

    too_long: int
    cost_usd: float | None
    unpriced_calls: int
    tokens_in: int
    tokens_out: int
    llm_calls: int
    seconds: float
    """Of all runs together."""

    tiers: dict[str, dict[str, float]]
    """Which tier answered the typed questions, by signature; empty where no adapter has tiers."""

    said: dict[str, int]
    """What broke runs off, and how often: the commonest first, without those whose input was too long."""


@dataclass(frozen=True, slots=True)
class Summary:
    """A whole log: everything, and each suite and length."""

    total: int
    """How many tries there are when it is finished."""

    all: Group | None
    groups: tuple[Group, ...]
    spent_usd: float | None
    """What the log has cost in all, runs that were replaced by later ones included."""

    def to_dict(self) -> dict[str, Any]:
        """The summary as plain JSON values."""
        return asdict(self)


def summarize(log: EvalLog) -> Summary:
    """The summary of a log as far as it has come."""
    entries, own = log.entries, log.own_suites
    suites = list(dict.fromkeys([*(str(one["name"]) for one in log.header["suites"]), *(one.suite for one in entries)]))
    by = grouped(entries, lambda one: (one.suite, None if one.suite in own else one.length))
    groups = tuple(_group(by[key], *key) for key in sorted(by, key=lambda key: (suites.index(key[0]), key[1] or 0)))
    spent = _cost([*entries, *log.replaced])
    return Summary(log.expected, _group(entries, None, None) if entries else None, groups, spent)


def grouped(entries: Iterable[Entry], key: Callable[[Entry], K]) -> dict[K, list[Entry]]:
    """The entries by something of theirs, in the order in which that comes first."""
    made: dict[K, list[Entry]] = {}
    for one in entries:
        made.setdefault(key(one), []).append(one)
    return made


def clustered(clusters: Iterable[Sequence[float]]) -> Estimate:
    """The mean of all values, and its standard error when values of one cluster go together."""
    found = [one for one in clusters if one]
    many = sum(map(len, found))
    mean = math.fsum(value for one in found for value in one) / many
    if len(found) < 2:
        return Estimate(mean, None)
    squares = math.fsum(math.fsum(value - mean for value in one) ** 2 for one in found)
    return Estimate(mean, math.sqrt(squares * len(found) / (len(found) - 1)) / many)


def passes(tries: Sequence[Sequence[bool]], most: int) -> dict[int, Estimate]:
    """pass^k for k from 1: the unbiased estimate from each sample's tries, over the samples that have as many."""
    made: dict[int, Estimate] = {}
    for k in range(1, most + 1):
        chances = [math.comb(sum(one), k) / math.comb(len(one), k) for one in tries if len(one) >= k]
        if chances:
            made[k] = clustered([chance] for chance in chances)
    return made


def _group(entries: Sequence[Entry], suite: str | None, length: int | None) -> Group:
    samples = list(grouped(entries, lambda one: one.sample_id).values())
    right = [[one.right for one in tries] for tries in samples]
    return Group(
        suite=suite,
        length=length,
        samples=len(samples),
        tries=len(entries),
        score=clustered([one.score for one in tries] for tries in samples),
        right=clustered([float(one) for one in tries] for tries in right),
        passes=passes(right, max(map(len, samples))),
        fields=_fields(entries),
        endings=dict(Counter(one.ending for one in entries)),
        errors=sum(one.error is not None for one in entries),
        too_long=sum(one.too_long for one in entries),
        cost_usd=_cost(entries),
        unpriced_calls=_used(entries, "unpriced_calls"),
        tokens_in=_used(entries, "tokens_in"),
        tokens_out=_used(entries, "tokens_out"),
        llm_calls=_used(entries, "llm_calls"),
        seconds=math.fsum(one.seconds for one in entries),
        tiers=together(one.tiers for one in entries),
        said=dict(
            Counter(one.error for one in entries if one.error is not None and not one.too_long).most_common(_SAID)
        ),
    )


def _fields(entries: Sequence[Entry]) -> dict[str, float]:
    found: dict[str, list[float]] = {}
    for one in entries:
        for name, value in one.scores.items():
            found.setdefault(name, []).append(value)
    return {name: math.fsum(values) / len(values) for name, values in found.items()}


def _cost(entries: Iterable[Entry]) -> float | None:
    costs = [cost for one in entries if (cost := one.usage.get("cost_usd")) is not None]
    return math.fsum(costs) if costs else None


def _used(entries: Iterable[Entry], name: str) -> int:
    return sum(int(one.usage.get(name) or 0) for one in entries)
