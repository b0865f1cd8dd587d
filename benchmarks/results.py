"""What one benchmark run found: samples and failures, and the targets that they are held against."""

from __future__ import annotations

import statistics
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from peers import BY_KEY


@dataclass(frozen=True)
class Column:
    key: str
    title: str
    unit: str
    scale: float


COLUMNS = (
    Column("start", "start to\nfirst reply", "ms", 1e3),
    Column("cell", "small cell", "µs", 1e6),
    Column("call", "host call", "µs", 1e6),
    Column("text10", "10 MB in", "ms", 1e3),
    Column("text100", "100 MB in", "ms", 1e3),
    Column("loop", "CPU loop", "x CPython", 1),
    Column("memory", "idle session", "MB PSS", 1e-6),
    Column("five", "five cells,\nopen to close", "ms", 1e3),
)


@dataclass
class Results:
    """Samples in seconds, bytes or ratios by contender and column; the reason where there are none."""

    samples: dict[str, dict[str, list[float]]] = field(default_factory=dict)
    failures: dict[str, dict[str, str]] = field(default_factory=dict)
    versions: dict[str, str] = field(default_factory=dict)

    def add(self, contender: str, samples: dict[str, list[float]]) -> None:
        for column, values in samples.items():
            self.samples.setdefault(contender, {}).setdefault(column, []).extend(values)

    def fail(self, contender: str, column: str, reason: str) -> None:
        self.failures.setdefault(contender, {})[column] = reason

    def of(self, contender: str, column: str) -> list[float]:
        return self.samples.get(contender, {}).get(column, [])

    def median(self, contender: str, column: str) -> float | None:
        values = self.of(contender, column)
        return statistics.median(values) if values else None

    def why_missing(self, contender: str, column: str) -> str:
        failures = self.failures.get(contender, {})
        return failures.get(column) or failures.get("start") or failures.get("setup") or "not part of this run"

    def as_json(self) -> dict[str, Any]:
        return {
            "versions": self.versions,
            "samples": self.samples,
            "medians": {
                contender: {column: self.median(contender, column) for column in columns}
                for contender, columns in self.samples.items()
            },
            "failures": self.failures,
            "targets": [verdict.__dict__ for verdict in verdicts(self)],
        }


_REASON_CHARS = 140  # the whole reason stands among the notes


@dataclass(frozen=True)
class Verdict:
    """One target: `passed` is None where it could not be measured."""

    target: str
    passed: bool | None
    found: str


def _faster(results: Results, column: str, peer: str, times: float, target: str, ours: str = "pool") -> Verdict:
    """Ours takes at most one `times`-th of the peer's time."""
    for contender in (ours, peer):
        if results.median(contender, column) is None:
            why = results.why_missing(contender, column)
            return Verdict(target, None, f"not measured: {BY_KEY[contender].label}: {why[:_REASON_CHARS]}")
    ratio = _median(results, peer, column) / _median(results, ours, column)
    return Verdict(target, ratio >= times, f"{ratio:.3g}x")


def _at_most(results: Results, column: str, limit: float, target: str, unit: str, scale: float = 1) -> Verdict:
    found = results.median("pool", column)
    if found is None:
        return Verdict(target, None, f"not measured: {results.why_missing('pool', column)}")
    return Verdict(target, found * scale <= limit, f"{found * scale:.3g}{unit}")


def _below_all(results: Results, column: str, peers: Iterable[str], target: str) -> Verdict:
    if results.median("pool", column) is None:
        return Verdict(target, None, f"not measured: {results.why_missing('pool', column)}")
    missing = [peer for peer in peers if results.median(peer, column) is None]
    ratios = {peer: _faster(results, column, peer, 1, target) for peer in peers if peer not in missing}
    if not ratios:
        return Verdict(target, None, "not measured: no peer could be")
    found = ", ".join(f"{BY_KEY[peer].label} {verdict.found}" for peer, verdict in ratios.items())
    found += "".join(f"; {BY_KEY[peer].label} not measured" for peer in missing)
    return Verdict(target, all(verdict.passed for verdict in ratios.values()), found)


def _median(results: Results, contender: str, column: str) -> float:
    found = results.median(contender, column)
    assert found is not None
    return found


def verdicts(results: Results) -> list[Verdict]:
    """The targets of the project, held against this run."""
    python_elsewhere = ("ipykernel", "deno", "dspy-local")
    return [
        _faster(results, "start", "ipykernel", 30, "start from the pool at least 30x faster than ipykernel"),
        _faster(results, "start", "deno", 100, "start from the pool at least 100x faster than DSPy's Deno sandbox"),
        _faster(results, "cell", "ipykernel", 2, "small cell at most half of ipykernel's"),
        _faster(results, "cell", "deno", 1, "small cell below the Deno sandbox's"),
        _at_most(results, "call", 50, "host call in at most 50 µs", " µs", 1e6),
        _below_all(results, "call", python_elsewhere, "host call below that of every peer that runs CPython elsewhere"),
        _faster(results, "call", "monty", 1 / 3, "host call at most three times pydantic-monty's"),
        _at_most(results, "text100", 90, "100 MB in, as a str, in at most 90 ms", " ms", 1e3),
        _faster(
            results, "text100", "dspy-local", 20, "100 MB in, as a view, 20x faster than DSPy LocalInterpreter", "lazy"
        ),
        _faster(results, "text100", "deno", 20, "100 MB in at least 20x faster than DSPy's Deno sandbox"),
        _at_most(results, "loop", 1.05, "CPU-bound code at 1.0x CPython (1.05 passes)", "x"),
        _at_most(results, "memory", 15, "at most 15 MB a session", " MB", 1e-6),
    ]
