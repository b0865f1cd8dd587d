"""The summary of a log by suite and length: mean scores with standard errors, pass^k, cost, tokens, time and endings.

Several epochs of one sample are one observation: standard errors are clustered by sample.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, TypeVar

from .log import EvalLog, LogEntry

K = TypeVar("K", bound=Hashable)
Tiers = Mapping[str, Mapping[str, float]]
"""Counters by signature: see `rlm.adapters.metrics.TierMetrics.by_signature`."""

_MAX_ERRORS = 3
_START_TIER = "start_tier"


@dataclass(frozen=True, slots=True)
class Estimate:
    """A mean and its standard error, which is None for a single sample."""

    mean: float
    error: float | None


@dataclass(frozen=True, slots=True)
class GroupSummary:
    """The summary of all entries of a suite, of a length, or of a log."""

    suite: str | None
    length: int | None
    samples: int
    tries: int
    score: Estimate
    right: Estimate
    """The share of answers in which every value is correct."""

    passes: dict[int, Estimate]
    """pass^k: the probability that k epochs of a sample are all correct, for each k up to the number of epochs."""

    fields: dict[str, float]
    """The mean score of each output."""

    endings: dict[str, int]
    errors: int
    """Runs that ended by an error, those with inputs that are too long included."""

    too_long: int
    cost_usd: float | None
    unpriced_calls: int
    tokens_in: int
    tokens_out: int
    llm_calls: int
    seconds: float
    """The sum over all runs."""

    tiers: dict[str, dict[str, float]]
    """Which tier answered typed questions, by signature; empty if no adapter has tiers."""

    common_errors: dict[str, int]
    """The most frequent errors and their counts, without those of inputs that are too long."""


@dataclass(frozen=True, slots=True)
class EvalSummary:
    """The summary of a whole log, and of each suite and length."""

    total: int
    """The number of entries of the complete log."""

    all: GroupSummary | None
    groups: tuple[GroupSummary, ...]
    spent_usd: float | None
    """The cost of all runs, replaced ones included."""

    def to_dict(self) -> dict[str, Any]:
        """Return the summary as plain JSON values."""
        return asdict(self)


def summarize(log: EvalLog) -> EvalSummary:
    """Return the summary of a log, which may be incomplete."""
    entries, file_suites = log.entries, log.file_suites
    names = [*(str(suite["name"]) for suite in log.header["suites"]), *(entry.suite for entry in entries)]
    suites = list(dict.fromkeys(names))
    groups = group_by(entries, lambda entry: (entry.suite, None if entry.suite in file_suites else entry.length))
    keys = sorted(groups, key=lambda key: (suites.index(key[0]), key[1] or 0))
    return EvalSummary(
        total=log.total,
        all=_summarize_group(entries, None, None) if entries else None,
        groups=tuple(_summarize_group(groups[key], *key) for key in keys),
        spent_usd=_cost([*entries, *log.replaced]),
    )


def group_by(entries: Iterable[LogEntry], key: Callable[[LogEntry], K]) -> dict[K, list[LogEntry]]:
    """Group entries by key, in order of first appearance."""
    groups: dict[K, list[LogEntry]] = {}
    for entry in entries:
        groups.setdefault(key(entry), []).append(entry)
    return groups


def clustered_mean(clusters: Iterable[Sequence[float]]) -> Estimate:
    """Return the mean of all values, with a standard error that is clustered."""
    groups = [cluster for cluster in clusters if cluster]
    count = sum(map(len, groups))
    mean = math.fsum(value for cluster in groups for value in cluster) / count
    if len(groups) < 2:
        return Estimate(mean, None)
    squares = math.fsum(math.fsum(value - mean for value in cluster) ** 2 for cluster in groups)
    return Estimate(mean, math.sqrt(squares * len(groups) / (len(groups) - 1)) / count)


def pass_hat_k(samples: Sequence[Sequence[bool]], max_k: int) -> dict[int, Estimate]:
    """Return pass^k for k from 1: the unbiased estimate over the samples with at least k epochs."""
    estimates: dict[int, Estimate] = {}
    for k in range(1, max_k + 1):
        shares = [math.comb(sum(runs), k) / math.comb(len(runs), k) for runs in samples if len(runs) >= k]
        if shares:
            estimates[k] = clustered_mean([share] for share in shares)
    return estimates


def sum_tiers(counters: Iterable[Tiers]) -> dict[str, dict[str, float]]:
    """Return the sums of tier counters by signature; the start tier is the highest of any run."""
    sums: dict[str, dict[str, float]] = {}
    for by_signature in counters:
        for signature, counts in by_signature.items():
            total = sums.setdefault(signature, {})
            for name, count in counts.items():
                total[name] = max(total.get(name, 1), count) if name == _START_TIER else total.get(name, 0) + count
    return sums


def _summarize_group(entries: Sequence[LogEntry], suite: str | None, length: int | None) -> GroupSummary:
    samples = list(group_by(entries, lambda entry: entry.sample_id).values())
    correct = [[entry.correct for entry in runs] for runs in samples]
    return GroupSummary(
        suite=suite,
        length=length,
        samples=len(samples),
        tries=len(entries),
        score=clustered_mean([entry.score for entry in runs] for runs in samples),
        right=clustered_mean([float(value) for value in values] for values in correct),
        passes=pass_hat_k(correct, max(map(len, samples))),
        fields=_mean_scores(entries),
        endings=dict(Counter(entry.ending for entry in entries)),
        errors=sum(entry.error is not None for entry in entries),
        too_long=sum(entry.too_long for entry in entries),
        cost_usd=_cost(entries),
        unpriced_calls=_sum_usage(entries, "unpriced_calls"),
        tokens_in=_sum_usage(entries, "tokens_in"),
        tokens_out=_sum_usage(entries, "tokens_out"),
        llm_calls=_sum_usage(entries, "llm_calls"),
        seconds=math.fsum(entry.seconds for entry in entries),
        tiers=sum_tiers(entry.tiers for entry in entries),
        common_errors=dict(
            Counter(entry.error for entry in entries if entry.error is not None and not entry.too_long).most_common(
                _MAX_ERRORS
            )
        ),
    )


def _mean_scores(entries: Sequence[LogEntry]) -> dict[str, float]:
    scores: dict[str, list[float]] = {}
    for entry in entries:
        for name, score in entry.scores.items():
            scores.setdefault(name, []).append(score)
    return {name: math.fsum(values) / len(values) for name, values in scores.items()}


def _cost(entries: Iterable[LogEntry]) -> float | None:
    costs = [cost for entry in entries if (cost := entry.usage.get("cost_usd")) is not None]
    return math.fsum(costs) if costs else None


def _sum_usage(entries: Iterable[LogEntry], name: str) -> int:
    return sum(int(entry.usage.get(name) or 0) for entry in entries)
