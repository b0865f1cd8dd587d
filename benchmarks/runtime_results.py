"""What one run of `runtime.py` found, and the targets that it is held against."""

from __future__ import annotations

import statistics
from dataclasses import asdict, dataclass, field
from typing import Any

from loops import BY_KEY, LOOPS
from results import Verdict
from transports import CLIENTS

BATCH, PARALLEL, DELAY_S = 1000, 100, 0.05
SINGLE, SINGLE_DELAY_S = 200, 0.002
"""Prompts one at a time, to a server that answers sooner: only their processor time is of interest."""

IDEAL_S = BATCH / PARALLEL * DELAY_S
RUNS = 200
TIMES_FASTER = 4
OVER_IDEAL = 1.1
LESS_THAN_LIBRARIES = 0.15
"""A client of our own is worth its lines if it takes so much less processor time than every library's."""


@dataclass
class RuntimeResults:
    """Samples of the four parts; by part and contender, the reason where there are none."""

    heading: str = ""
    versions: dict[str, str] = field(default_factory=dict)
    five: dict[str, list[float]] = field(default_factory=dict)
    batch: dict[str, list[dict[str, float]]] = field(default_factory=dict)
    single: dict[str, list[dict[str, float]]] = field(default_factory=dict)
    """The same clients as in `batch`, one prompt at a time."""

    server: dict[str, int] = field(default_factory=dict)
    tokens: dict[str, dict[str, float]] = field(default_factory=dict)
    at_once: dict[str, dict[str, Any]] = field(default_factory=dict)
    failures: dict[str, dict[str, str]] = field(default_factory=dict)
    load: dict[str, float] = field(default_factory=dict)
    """The load average of the machine after each part: whatever is above one run's own work slows all contenders."""

    def fail(self, part: str, key: str, reason: str) -> None:
        self.failures.setdefault(part, {})[key] = reason

    def verdicts(self) -> list[Verdict]:
        """The targets of the parts that were run."""
        checks = {
            "five": [self._five],
            "batch": [self._batch, self._transport],
            "tokens": [self._tokens],
            "at_once": [self._at_once],
        }
        return [check() for part, several in checks.items() if part in self.load for check in several]

    def as_json(self) -> dict[str, Any]:
        return asdict(self) | {"targets": [verdict.__dict__ for verdict in self.verdicts()]}

    def _missing(self, part: str, target: str) -> Verdict:
        """Ours failing is a target missed; a peer failing leaves it open."""
        why = self.failures.get(part, {}).get("ours") or self.failures.get("setup", {}).get("ours")
        return Verdict(target, False if why else None, why or "not measured")

    def _five(self) -> Verdict:
        target = f"five iterations at least {TIMES_FASTER}x faster than the fastest sandboxed or out-of-process peer"
        peers = [entry.key for entry in LOOPS if entry.apart and self.five.get(entry.key)]
        if not peers or not self.five.get("ours"):
            return self._missing("five", target)
        medians = {key: statistics.median(self.five[key]) for key in (*peers, "ours")}
        best = min(peers, key=lambda key: medians[key])
        ratio = medians[best] / medians["ours"]
        return Verdict(target, ratio >= TIMES_FASTER, f"{ratio:.2f}x ({BY_KEY[best].label})")

    def _batch(self) -> Verdict:
        target = f"llm_batch of {BATCH:,} prompts, {PARALLEL} at a time, within 10% of the ideal {IDEAL_S:g} s"
        if not self.batch.get("batch own"):
            return self._missing("batch own", target)
        found = statistics.median(one["seconds"] for one in self.batch["batch own"])
        return Verdict(target, found <= IDEAL_S * OVER_IDEAL, f"{found:.2f} s, {found / IDEAL_S - 1:+.0%}")

    def _transport(self) -> Verdict:
        target = f"llm_batch over our own client: {LESS_THAN_LIBRARIES:.0%} less processor time than over any library's"
        found = {name: against_own(self.batch, f"batch {name}") for name in CLIENTS if name != "own"}
        ratios = {name: ratio for name, ratio in found.items() if ratio is not None}
        if not ratios:
            return self._missing("batch own", target)
        best = min(ratios, key=lambda name: ratios[name])
        less = 1 - 1 / ratios[best]
        return Verdict(target, less > LESS_THAN_LIBRARIES, f"{less:.0%} less than over {best}")

    def _tokens(self) -> Verdict:
        target = "20 iterations send fewer characters than dspy.RLM's, all of them appended to the last request"
        ours, theirs = self.tokens.get("ours"), self.tokens.get("dspy-local")
        if ours is None or theirs is None:
            return self._missing("tokens", target)
        passed = ours["sent"] < theirs["sent"] and ours["kept"] == 1
        new = (ours["sent"] - ours["known"]) / (theirs["sent"] - theirs["known"])
        found = f"{ours['sent'] / theirs['sent']:.2f} of its characters, {new:.2f} of those that no cache knows"
        return Verdict(target, passed, found)

    def _at_once(self) -> Verdict:
        target = f"{RUNS} runs at once, every one Submitted"
        timed, held = self.at_once.get("timed"), self.at_once.get("held")
        if timed is None or held is None:
            return self._missing("at_once", target)
        submitted = [one["endings"].get("Submitted", 0) for one in (timed, held)]
        return Verdict(
            target, submitted == [RUNS, RUNS], f"{submitted[0]} and {submitted[1]}; {timed['seconds']:.1f} s"
        )


def against_own(found: dict[str, list[dict[str, float]]], name: str) -> float | None:
    """The median, over the rounds, of one processor time by that of our own client in the same round."""
    own = f"{name.partition(' ')[0]} own"
    if name == own or own not in found or name not in found:
        return None
    pairs = zip(found[name], found[own], strict=False)
    return statistics.median(one["cpu"] / ours["cpu"] for one, ours in pairs)
