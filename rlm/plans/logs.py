"""The logs of plans, by the names that they have on disk; and what they say about a loop, for a run that goes on."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from ..budgets import FallbackTrigger
from ..paths import home
from ..redaction import Redactor
from .escalation import FallbackConfig, PlanEscalationDetector, check_entry
from .json_log import Entry, JsonLog, JsonLogError
from .operator import Answers
from .plan import Candidate, CandidateSet, Rejection, new_id, now


class PlanLogs:
    """A folder of logs. Many runs, also of several processes, may write to one."""

    def __init__(self, folder: str | Path | None = None) -> None:
        """Without a folder it is `plans` in rlm's own, which `RLM_HOME` names."""
        self.folder = Path(folder) if folder is not None else home() / "plans"
        self.comparisons = JsonLog(self.folder / "multi_plan_comparison.json")
        self.selections = JsonLog(self.folder / "loop_plan_selection_log.json")
        self.rejections = JsonLog(self.folder / "plan_rejection_log.json")
        self.escalations = JsonLog(self.folder / "plan_escalation_log.json", check_entry)
        self.answers = Answers(self.folder / "plan_escalation_answers.json")

    def compared(self, candidates: CandidateSet, outputs: Mapping[str, Any]) -> None:
        """A set of plans was compared, for a task with `outputs` of this JSON schema."""
        self._add(self.comparisons, {"log_entry_id": new_id(), **candidates.to_dict(), "output_schema": outputs})

    def selected(self, candidates: CandidateSet, one: Candidate, limits: FallbackTrigger) -> None:
        """A plan was selected, and is about to be run within these limits."""
        entry = {
            "log_entry_id": new_id(),
            "loop_id": candidates.loop_id,
            "comparison_set_id": candidates.comparison_set_id,
            "plan_id": one.plan.plan_id,
            "plan_name": one.plan.name,
            "rank": one.rank,
            "score": one.score,
            "limits": limits.to_dict(),
            "timestamp": now(),
        }
        self._add(self.selections, entry)

    def rejected(self, rejection: Rejection) -> None:
        """A plan was rejected. One that is rejected a second time, after a restart, is so already."""
        entry = self._scrubbed(rejection.to_dict())
        ours = (rejection.loop_id, rejection.comparison_set_id, rejection.plan.plan_id)

        def again(entries: list[Entry]) -> Entry | None:
            keys = ("loop_id", "comparison_set_id", "plan_id")
            return next((one for one in entries if tuple(one.get(key) for key in keys) == ours), None)

        self.rejections.append_unless(entry, again)

    def detector(
        self, config: FallbackConfig, on_fallback: Callable[[Entry], str] | None = None
    ) -> PlanEscalationDetector:
        """The detector on these logs."""
        paths = (self.comparisons.path, self.rejections.path, self.escalations.path)
        return PlanEscalationDetector(*paths, config, on_fallback=on_fallback)

    def sets_of(self, loop_id: str) -> list[CandidateSet]:
        """The sets of plans of a loop, oldest first."""
        return self._read(self.comparisons, loop_id, CandidateSet.from_dict)

    def rejections_of(self, loop_id: str) -> list[Rejection]:
        """The rejected plans of a loop, oldest first."""
        return self._read(self.rejections, loop_id, Rejection.from_dict)

    def _read(self, log: JsonLog, loop_id: str, make: Callable[[Mapping[str, Any]], Any]) -> list[Any]:
        try:
            return [make(one) for one in log.read() if one.get("loop_id") == loop_id]
        except (KeyError, TypeError) as error:
            raise JsonLogError(log.path, f"an entry of loop {loop_id!r} was not written by rlm ({error!r})") from None

    def _add(self, log: JsonLog, entry: Entry) -> None:
        log.append(self._scrubbed(entry))

    def _scrubbed(self, entry: Entry) -> Entry:
        made: Entry = _scrubbed(entry, self._redactor.text)
        return made

    @functools.cached_property
    def _redactor(self) -> Redactor:
        return Redactor()


def _scrubbed(value: Any, scrub: Callable[[str], str]) -> Any:
    """A value without secrets in its texts, and without numbers that JSON does not have."""
    if isinstance(value, str):
        return scrub(value)
    if isinstance(value, Mapping):
        return {scrub(str(key)): _scrubbed(inner, scrub) for key, inner in value.items()}
    if isinstance(value, list | tuple):
        return [_scrubbed(inner, scrub) for inner in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value
