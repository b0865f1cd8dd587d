"""The comparison of two logs on their common samples, with a paired bootstrap over samples."""

from __future__ import annotations

import json
import math
from collections.abc import Collection, Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from ..stats import bootstrap, interval
from .log import EvalLog, EvalLogError, LogEntry
from .summary import group_by

RESAMPLES = 10_000


@dataclass(frozen=True, slots=True)
class SampleScore:
    """A sample in one of the logs: the mean score of its epochs, and its runs."""

    score: float
    runs: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class SamplePair:
    """One sample in both logs."""

    sample_id: str
    suite: str
    length: int | None
    """The length of its inputs; None in suites from files."""

    first: SampleScore
    second: SampleScore

    @property
    def difference(self) -> float:
        """The score in the second log minus that in the first."""
        return self.second.score - self.first.score


@dataclass(frozen=True, slots=True)
class ScoreDifference:
    """The difference of the mean scores of two logs on some samples."""

    suite: str | None
    length: int | None
    samples: int
    first: float
    second: float
    difference: float
    low: float
    high: float
    """The bounds of the 95% interval of the resampled differences."""

    better: float
    """The share of resamples in which the second log has the higher score."""

    worse: float


@dataclass(frozen=True, slots=True)
class Comparison:
    """Two logs side by side."""

    first: str
    second: str
    all: ScoreDifference
    groups: tuple[ScoreDifference, ...]
    """Differences by suite and length, by suite with several lengths, and by length with several suites."""

    better: tuple[SamplePair, ...]
    worse: tuple[SamplePair, ...]
    only_first: int
    only_second: int
    """The numbers of samples that only one of the logs has; they are left out."""

    settings: tuple[tuple[str, Any, Any], ...]
    """Settings that differ: name, value in the first header, value in the second."""

    def to_dict(self) -> dict[str, Any]:
        """Return the comparison as plain JSON values."""
        return asdict(self)


def compare_logs(first: EvalLog, second: EvalLog, *, seed: int = 0, resamples: int = RESAMPLES) -> Comparison:
    """Compare two logs. Raises `EvalLogError` if they have no samples in common."""
    before, after = (group_by(log.entries, lambda entry: entry.sample_id) for log in (first, second))
    common = [sample_id for sample_id in before if sample_id in after]
    _require_same_samples(first, second, [(before[name][0], after[name][0]) for name in common])
    pairs = [_pair(before[name], after[name], first.file_suites) for name in common]
    changed = sorted((pair for pair in pairs if pair.difference), key=lambda pair: -abs(pair.difference))
    return Comparison(
        first=first.name,
        second=second.name,
        all=_difference(pairs, None, None, seed, resamples),
        groups=tuple(_difference(group, *key, seed, resamples) for key, group in _groups(pairs)),
        better=tuple(pair for pair in changed if pair.difference > 0),
        worse=tuple(pair for pair in changed if pair.difference < 0),
        only_first=len(before) - len(common),
        only_second=len(after) - len(common),
        settings=tuple(_settings(first.header, second.header)),
    )


def _pair(first: Sequence[LogEntry], second: Sequence[LogEntry], file_suites: Collection[str]) -> SamplePair:
    entry = first[0]
    length = None if entry.suite in file_suites else entry.length
    return SamplePair(entry.sample_id, entry.suite, length, _sample_score(first), _sample_score(second))


def _sample_score(entries: Sequence[LogEntry]) -> SampleScore:
    runs = tuple(entry.run_id for entry in entries if entry.run_id is not None)
    return SampleScore(math.fsum(entry.score for entry in entries) / len(entries), runs)


def _difference(
    pairs: Sequence[SamplePair], suite: str | None, length: int | None, seed: int, resamples: int
) -> ScoreDifference:
    values = [pair.difference for pair in pairs]
    means = bootstrap(values, seed=seed, resamples=resamples)
    low, high = interval(means)
    count = len(pairs)
    return ScoreDifference(
        suite=suite,
        length=length,
        samples=count,
        first=math.fsum(pair.first.score for pair in pairs) / count,
        second=math.fsum(pair.second.score for pair in pairs) / count,
        difference=math.fsum(values) / count,
        low=low,
        high=high,
        better=sum(mean > 1e-12 for mean in means) / len(means),
        worse=sum(mean < -1e-12 for mean in means) / len(means),
    )


def _groups(pairs: Sequence[SamplePair]) -> Iterator[tuple[tuple[str | None, int | None], list[SamplePair]]]:
    suites = list(dict.fromkeys(pair.suite for pair in pairs))
    lengths = sorted({pair.length for pair in pairs if pair.length is not None})
    for suite in suites:
        of_suite = [pair for pair in pairs if pair.suite == suite]
        own_lengths = sorted({pair.length for pair in of_suite}, key=lambda length: length or 0)
        for length in own_lengths:
            yield (suite, length), [pair for pair in of_suite if pair.length == length]
        if len(own_lengths) > 1 and len(suites) > 1:
            yield (suite, None), of_suite
    if len(suites) > 1 and len(lengths) > 1:
        for length in lengths:
            yield (None, length), [pair for pair in pairs if pair.length == length]


def _require_same_samples(first: EvalLog, second: EvalLog, common: Sequence[tuple[LogEntry, LogEntry]]) -> None:
    for log in (first, second):
        if not log.entries:
            raise EvalLogError(f"{log.name} has no finished samples yet")
    if not common:
        raise EvalLogError(
            f"{first.name} and {second.name} have no samples in common: "
            f"{first.name} has {_describe(first)}, {second.name} has {_describe(second)}. "
            "Only the same samples can be compared: the same suite, length and seed"
        )
    answers = [a.sample_id for a, b in common if a.expected != b.expected]
    inputs = [a.sample_id for a, b in common if a.inputs and b.inputs and a.inputs != b.inputs]
    for changed, what in ((answers, "answers"), (inputs, "inputs")):
        if changed:
            raise EvalLogError(
                f"{first.name} and {second.name} have samples with the same names but other {what} "
                f"({', '.join(changed[:3])}{', ...' if len(changed) > 3 else ''}): these are different samples, "
                "or the suite has changed in between. Run one of the logs again on the samples of the other"
            )


def _describe(log: EvalLog) -> str:
    names = ", ".join(suite["name"] for suite in log.header["suites"])
    lengths = ", ".join(f"{length:,}" for length in log.header["lengths"])
    return f"{names} of {lengths} characters with seed {log.header['seed']}"


def _settings(first: dict[str, Any], second: dict[str, Any]) -> Iterator[tuple[str, Any, Any]]:
    for section in (
        "versions",
        "later_versions",
        "models",
        "baseline",
        "epochs",
        "seed",
        "count",
        "lengths",
        "configuration",
    ):
        a, b = first.get(section), second.get(section)
        if isinstance(a, dict) and isinstance(b, dict):
            for name in dict.fromkeys([*a, *b]):
                if json.dumps(a.get(name), sort_keys=True) != json.dumps(b.get(name), sort_keys=True):
                    yield f"{section}.{name}", a.get(name), b.get(name)
        elif a != b:
            yield section, a, b
    before, after = ({suite["name"]: suite.get("digest") for suite in header["suites"]} for header in (first, second))
    for name in before:
        if name in after and before[name] != after[name]:
            yield f"suites.{name}", _short_hash(before[name]), _short_hash(after[name])


def _short_hash(digest: str | None) -> str | None:
    return f"sha256 {digest[:12]}" if digest else None
