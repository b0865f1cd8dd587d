"""The logs of plans: what is written while a loop runs, and read again when it is resumed."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from ..budgets import FallbackTrigger
from ..files import home
from ..redaction import Redactor
from .escalation import PlanEscalationDetector, check_entry
from .json_log import JsonEntry, JsonLog, JsonLogError
from .operator import OperatorAnswers
from .plan import Candidate, CandidateSet, Rejection, new_id, now
from .settings import FallbackConfig


class PlanLogs:
    """A folder of logs, which many runs and processes may share."""

    def __init__(self, folder: str | Path | None = None) -> None:
        """The default folder is `plans` in `RLM_HOME`."""
        self.folder = Path(folder) if folder is not None else home() / "plans"
        self.comparisons = JsonLog(self.folder / "multi_plan_comparison.json")
        self.selections = JsonLog(self.folder / "loop_plan_selection_log.json")
        self.rejections = JsonLog(self.folder / "plan_rejection_log.json")
        self.escalations = JsonLog(self.folder / "plan_escalation_log.json", check_entry)
        self.answers = OperatorAnswers(self.folder / "plan_escalation_answers.json")

    def add_comparison(self, candidates: CandidateSet, output_schema: Mapping[str, Any]) -> None:
        """Log the comparison of a set of plans, with the JSON schema of the task's outputs."""
        self._add(self.comparisons, {"log_entry_id": new_id(), **candidates.to_dict(), "output_schema": output_schema})

    def add_selection(self, candidates: CandidateSet, candidate: Candidate, limits: FallbackTrigger) -> None:
        """Log that a plan is about to run, with its limits."""
        entry = {
            "log_entry_id": new_id(),
            "loop_id": candidates.loop_id,
            "comparison_set_id": candidates.comparison_set_id,
            "plan_id": candidate.plan.plan_id,
            "plan_name": candidate.plan.name,
            "rank": candidate.rank,
            "score": candidate.score,
            "limits": limits.to_dict(),
            "timestamp": now(),
        }
        self._add(self.selections, entry)

    def add_rejection(self, rejection: Rejection) -> None:
        """Log a rejection, unless a resumed loop has logged it before."""
        entry = self._redacted(rejection.to_dict())
        key = (rejection.loop_id, rejection.comparison_set_id, rejection.plan.plan_id)

        def find(entries: list[JsonEntry]) -> JsonEntry | None:
            names = ("loop_id", "comparison_set_id", "plan_id")
            return next((entry for entry in entries if tuple(entry.get(name) for name in names) == key), None)

        self.rejections.append_unless(entry, find)

    def detector(
        self, config: FallbackConfig, on_fallback: Callable[[JsonEntry], str] | None = None
    ) -> PlanEscalationDetector:
        """Return the escalation detector for these logs."""
        paths = (self.comparisons.path, self.rejections.path, self.escalations.path)
        return PlanEscalationDetector(*paths, config, on_fallback=on_fallback)

    def sets_of(self, loop_id: str) -> list[CandidateSet]:
        """Return the sets of plans of a loop, oldest first."""
        return self._read(self.comparisons, loop_id, CandidateSet.from_dict)

    def rejections_of(self, loop_id: str) -> list[Rejection]:
        """Return the rejections of a loop, oldest first."""
        return self._read(self.rejections, loop_id, Rejection.from_dict)

    def _read(self, log: JsonLog, loop_id: str, parse: Callable[[Mapping[str, Any]], Any]) -> list[Any]:
        try:
            return [parse(entry) for entry in log.read() if entry.get("loop_id") == loop_id]
        except (KeyError, TypeError) as error:
            raise JsonLogError(log.path, f"an entry of loop {loop_id!r} was not written by rlm ({error!r})") from None

    def _add(self, log: JsonLog, entry: JsonEntry) -> None:
        log.append(self._redacted(entry))

    def _redacted(self, entry: JsonEntry) -> JsonEntry:
        redacted: JsonEntry = _redacted(entry, self._redactor.text)
        return redacted

    @functools.cached_property
    def _redactor(self) -> Redactor:
        return Redactor()


def _redacted(value: Any, redact: Callable[[str], str]) -> Any:
    """Return a value without secrets in its texts and without numbers that JSON lacks."""
    if isinstance(value, str):
        return redact(value)
    if isinstance(value, Mapping):
        return {redact(str(key)): _redacted(inner, redact) for key, inner in value.items()}
    if isinstance(value, list | tuple):
        return [_redacted(inner, redact) for inner in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value
