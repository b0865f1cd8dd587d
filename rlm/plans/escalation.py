"""Escalation: detects that every candidate plan of a loop was rejected, logs it once, and triggers the fallback.

It reads and writes only JSON files, so it also works on files of other programs.
"""

from __future__ import annotations

import functools
import json
import uuid
from collections import Counter
from collections.abc import Callable, Mapping
from importlib.resources import files
from pathlib import Path
from typing import Any, cast

from .json_log import JsonEntry, JsonLog, JsonLogError
from .plan import new_id, now
from .settings import ALERT, FallbackConfig

REVIEW = "operator_review_required"
NEW_PLANS = "Fallback triggered: new plans are made, with weights adjusted to the rejections."

_PLAN_LISTS = ("candidates", "candidate_plans", "plans", "candidate_plan_ids", "plan_ids")
"""Names under which an entry may list its plans: objects with a `plan_id`, or ids."""


class PlanEscalationDetector:
    """Detects that all plans of a loop were rejected. The same set of plans is escalated once."""

    def __init__(
        self,
        multi_plan_comparison_path: str | Path,
        plan_rejection_log_path: str | Path,
        plan_escalation_log_path: str | Path,
        fallback_config: FallbackConfig | Mapping[str, Any] | None = None,
        *,
        on_fallback: Callable[[JsonEntry], str] | None = None,
    ) -> None:
        """`on_fallback` performs the fallback and returns a description; without it, the fallback is only logged."""
        self.fallback_config = FallbackConfig.of(fallback_config)
        self._comparisons = JsonLog(multi_plan_comparison_path)
        self._rejections = JsonLog(plan_rejection_log_path)
        self._escalations = JsonLog(plan_escalation_log_path, check_entry)
        self._on_fallback = on_fallback or self._describe_fallback

    def check_for_escalation(self, loop_id: str) -> JsonEntry | None:
        """Return a new escalation; None if not all plans are rejected, or it was escalated before.

        Raises `JsonLogError` if a file is broken; then nothing is written.
        """
        comparison_set_id = self._latest_set(loop_id)
        candidates = self._get_candidate_plans_for_loop(loop_id, comparison_set_id)
        rejected = self._get_rejected_plans_for_loop(loop_id, comparison_set_id)
        if not candidates or not set(candidates) <= rejected:
            return None
        entry = self._log_escalation(loop_id, comparison_set_id, candidates)
        if entry is None or not self.fallback_config.enabled:
            return entry
        return self.trigger_fallback(entry)

    def escalation_of(self, loop_id: str) -> JsonEntry | None:
        """Return the logged escalation of the loop's latest set of plans, if there is one."""
        return _last_of(self._escalations.read(), loop_id, self._latest_set(loop_id))

    def hand_to_operator(self, entry: JsonEntry, reason: str) -> JsonEntry:
        """Hand an escalation whose fallback has failed to an operator; its fallback can be triggered again."""
        changes: JsonEntry = {"recommended_action": REVIEW, "operator_alert_flag": True, "fallback_triggered": False}
        changes["fallback_details"] = _join(entry.get("fallback_details"), reason)
        return self._escalations.amend("log_entry_id", entry["log_entry_id"], changes)

    def _latest_set(self, loop_id: str) -> str | None:
        entries = [entry for entry in self._comparisons.read() if entry.get("loop_id") == loop_id]
        return entries[-1].get("comparison_set_id") if entries else None

    def _get_candidate_plans_for_loop(self, loop_id: str, comparison_set_id: str | None) -> list[str]:
        """Return the ids of the plans of a set, each once."""
        ids: list[str] = []
        for entry in _entries_of(self._comparisons.read(), loop_id, comparison_set_id):
            plans = [plan for name in _PLAN_LISTS if isinstance(entry.get(name), list) for plan in entry[name]]
            for plan in [entry, *plans]:
                plan_id = plan.get("plan_id") if isinstance(plan, dict) else plan
                if isinstance(plan_id, str):
                    ids.append(plan_id)
                elif plan is not entry:
                    raise JsonLogError(
                        self._comparisons.path, f"a candidate of loop {loop_id!r} has no plan_id; repair it"
                    )
        return list(dict.fromkeys(ids))

    def _get_rejected_plans_for_loop(self, loop_id: str, comparison_set_id: str | None) -> set[str]:
        """Return the ids of the rejected plans of a set."""
        entries = _entries_of(self._rejections.read(), loop_id, comparison_set_id)
        return {entry["plan_id"] for entry in entries if isinstance(entry.get("plan_id"), str)}

    def _log_escalation(self, loop_id: str, comparison_set_id: str | None, plan_ids: list[str]) -> JsonEntry | None:
        """Log the escalation and return its entry; None if another process has logged it."""
        config = self.fallback_config
        action = "no_further_action_defined"
        if config.enabled:
            action = REVIEW if config.strategy == ALERT else "trigger_fallback_procedure"
        count = len(plan_ids)
        every = "The only candidate plan was" if count == 1 else f"All {count} candidate plans were"
        failed = _failed_metrics(_entries_of(self._rejections.read(), loop_id, comparison_set_id), set(plan_ids))
        entry: JsonEntry = {
            "log_entry_id": new_id(),
            "loop_id": loop_id,
            "comparison_set_id": comparison_set_id,
            "escalation_reason": f"{every} rejected by the governance thresholds.",
            "rejected_plan_ids": plan_ids,
            "governance_summary": {
                "total_plans_considered": count,
                "total_plans_rejected": count,
                "failed_thresholds": failed,
            },
            "recommended_action": action,
            "operator_alert_flag": config.enabled and config.strategy == ALERT,
            "fallback_triggered": False,
            "fallback_details": None,
            "timestamp": now(),
        }
        existing = self._escalations.append_unless(entry, lambda log: _last_of(log, loop_id, comparison_set_id))
        return entry if existing is None else None

    def trigger_fallback(self, entry: JsonEntry) -> JsonEntry:
        """Trigger the fallback, and add its description to the entry."""
        try:
            details, triggered = self._on_fallback(entry), True
        except Exception as error:  # a failing callback must not lose the escalation
            details, triggered = f"The fallback could not be triggered: {type(error).__name__}: {error}", False
        changes = {"fallback_triggered": triggered, "fallback_details": _join(entry.get("fallback_details"), details)}
        return self._escalations.amend("log_entry_id", entry["log_entry_id"], changes)

    def _describe_fallback(self, entry: JsonEntry) -> str:
        if entry["recommended_action"] == REVIEW:
            return "Fallback triggered: an operator is asked to look at the rejected plans."
        return NEW_PLANS


def check_entry(entry: JsonEntry) -> None:
    """Raise `ValueError` unless an entry fits `plan_escalation_log.schema.json`."""
    for error in _validator().iter_errors(entry):
        where = "/".join(map(str, error.instance_path)) or "the entry"
        raise ValueError(f"this is not an escalation: {where}: {error.message}")


def schema() -> dict[str, Any]:
    """Return the JSON schema of an entry of the escalation log."""
    text = files(__package__).joinpath("plan_escalation_log.schema.json").read_text(encoding="utf-8")
    return cast(dict[str, Any], json.loads(text))


@functools.cache
def _validator() -> Any:
    import jsonschema_rs

    # `uuid` is not a format of draft 7.
    return jsonschema_rs.Draft7Validator(schema(), validate_formats=True, formats={"uuid": _is_uuid})


def _is_uuid(text: str) -> bool:
    try:
        return str(uuid.UUID(text)) == text.lower()
    except ValueError:
        return False


def _join(before: str | None, more: str) -> str:
    return f"{before} {more}" if before else more


def _entries_of(entries: list[JsonEntry], loop_id: str, comparison_set_id: str | None) -> list[JsonEntry]:
    key = (loop_id, comparison_set_id)
    return [entry for entry in entries if (entry.get("loop_id"), entry.get("comparison_set_id")) == key]


def _last_of(entries: list[JsonEntry], loop_id: str, comparison_set_id: str | None) -> JsonEntry | None:
    matching = _entries_of(entries, loop_id, comparison_set_id)
    return matching[-1] if matching else None


def _failed_metrics(rejections: list[JsonEntry], plan_ids: set[str]) -> dict[str, int]:
    """Return how often each threshold failed, as far as the rejections list thresholds."""
    lists = [entry.get("failed_thresholds") for entry in rejections if entry.get("plan_id") in plan_ids]
    thresholds = [threshold for failed in lists if isinstance(failed, list) for threshold in failed]
    names = [threshold.get("metric") for threshold in thresholds if isinstance(threshold, dict)]
    return dict(Counter(str(name) for name in names if name))
