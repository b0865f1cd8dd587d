"""Escalation: notices that every candidate plan of a loop was rejected, logs it once, and sets off the fallback.

It reads and writes JSON files and nothing else, so it also works on files that another program wrote.
"""

from __future__ import annotations

import functools
import json
import uuid
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path
from typing import Any, Literal, cast

from .json_log import Entry, JsonLog, JsonLogError
from .plan import new_id, now

Strategy = Literal["log_and_alert_operator", "attempt_regeneration"]
ALERT: Strategy = "log_and_alert_operator"
REGENERATE: Strategy = "attempt_regeneration"
STRATEGIES: Mapping[str, Strategy] = {
    ALERT: ALERT,
    REGENERATE: REGENERATE,
    "attempt_regeneration_simple": REGENERATE,
    "regenerate_with_adjusted_weights": REGENERATE,
}
"""The strategies by the names that a configuration may have for them."""

REVIEW = "operator_review_required"
MAKING_PLANS = "Fallback triggered: new plans are to be made, with weights adjusted by what was rejected."

_LISTS = ("candidates", "candidate_plans", "plans", "candidate_plan_ids", "plan_ids")
"""Under which name an entry may list its plans: objects with a `plan_id`, or the ids themselves."""


@dataclass(frozen=True, slots=True)
class FallbackConfig:
    """What to do when all plans are rejected."""

    enabled: bool = True
    strategy: Strategy = ALERT
    rounds: int = 1
    """How often new plans may be made before an operator is asked."""

    @classmethod
    def of(cls, given: FallbackConfig | Mapping[str, Any] | None) -> FallbackConfig:
        """The configuration from a mapping: `fallback_enabled` and `default_fallback_strategy`, or `enabled` and
        `strategy`. What is not said is as it is by default. Raises `ValueError`."""
        if isinstance(given, FallbackConfig):
            return given
        values = dict(given or {})
        enabled = _first(values, ("fallback_enabled", "enabled"), True)
        name = _first(values, ("default_fallback_strategy", "strategy"), ALERT)
        rounds = _first(values, ("rounds",), 1)
        if values:
            raise ValueError(f"the fallback has no setting {', '.join(map(repr, values))}")
        if not isinstance(enabled, bool):
            raise ValueError(f"fallback_enabled is true or false, not {enabled!r}")
        if not isinstance(name, str) or name not in STRATEGIES:
            raise ValueError(f"there is no fallback strategy {name!r}; known are {', '.join(STRATEGIES)}")
        if isinstance(rounds, bool) or not isinstance(rounds, int) or rounds < 0:
            raise ValueError(f"rounds is a whole number, 0 or more, not {rounds!r}")
        return cls(enabled, STRATEGIES[name], rounds)


class PlanEscalationDetector:
    """Checks whether all plans of a loop were rejected. The same loop and set of plans are escalated once."""

    def __init__(
        self,
        multi_plan_comparison_path: str | Path,
        plan_rejection_log_path: str | Path,
        plan_escalation_log_path: str | Path,
        fallback_config: FallbackConfig | Mapping[str, Any] | None = None,
        *,
        on_fallback: Callable[[Entry], str] | None = None,
    ) -> None:
        """`on_fallback` does what the fallback is there for and says what it did; without it that is only logged."""
        self.fallback_config = FallbackConfig.of(fallback_config)
        self._comparisons = JsonLog(multi_plan_comparison_path)
        self._rejections = JsonLog(plan_rejection_log_path)
        self._escalations = JsonLog(plan_escalation_log_path, check_entry)
        self._on_fallback = on_fallback or self._say_fallback

    def check_for_escalation(self, loop_id: str) -> Entry | None:
        """The escalation, if there is a new one; None if not all plans are rejected, or this was escalated before.

        Raises `JsonLogError` where a file is broken; then nothing is written.
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

    def escalation_of(self, loop_id: str) -> Entry | None:
        """The escalation of the loop's latest set of plans that is on record, if there is one."""
        return _escalated(self._escalations.read(), loop_id, self._latest_set(loop_id))

    def hand_to_operator(self, entry: Entry, why: str) -> Entry:
        """Have an operator look at an escalation whose fallback led nowhere: the fallback is to be set off again."""
        changes: Entry = {"recommended_action": REVIEW, "operator_alert_flag": True, "fallback_triggered": False}
        changes["fallback_details"] = _joined(entry.get("fallback_details"), why)
        return self._escalations.amend("log_entry_id", entry["log_entry_id"], changes)

    def _latest_set(self, loop_id: str) -> str | None:
        entries = [one for one in self._comparisons.read() if one.get("loop_id") == loop_id]
        return entries[-1].get("comparison_set_id") if entries else None

    def _get_candidate_plans_for_loop(self, loop_id: str, comparison_set_id: str | None) -> list[str]:
        """The ids of all plans that were compared in a set, each once."""
        ids: list[str] = []
        for entry in _of(self._comparisons.read(), loop_id, comparison_set_id):
            listed = [one for name in _LISTS if isinstance(entry.get(name), list) for one in entry[name]]
            for one in [entry, *listed]:
                found = one.get("plan_id") if isinstance(one, dict) else one
                if isinstance(found, str):
                    ids.append(found)
                elif one is not entry:
                    raise JsonLogError(
                        self._comparisons.path, f"a candidate of loop {loop_id!r} has no plan_id; repair it"
                    )
        return list(dict.fromkeys(ids))

    def _get_rejected_plans_for_loop(self, loop_id: str, comparison_set_id: str | None) -> set[str]:
        """The ids of the plans of a set that were rejected."""
        entries = _of(self._rejections.read(), loop_id, comparison_set_id)
        return {one["plan_id"] for one in entries if isinstance(one.get("plan_id"), str)}

    def _log_escalation(self, loop_id: str, comparison_set_id: str | None, plan_ids: list[str]) -> Entry | None:
        """Write the entry, unless another process has done so already; then None."""
        config = self.fallback_config
        action = "no_further_action_defined"
        if config.enabled:
            action = REVIEW if config.strategy == ALERT else "trigger_fallback_procedure"
        count = len(plan_ids)
        every = "The only candidate plan was" if count == 1 else f"All {count} candidate plans were"
        failed = _failed_metrics(_of(self._rejections.read(), loop_id, comparison_set_id), set(plan_ids))
        entry: Entry = {
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
        there = self._escalations.append_unless(entry, lambda all: _escalated(all, loop_id, comparison_set_id))
        return entry if there is None else None

    def trigger_fallback(self, entry: Entry) -> Entry:
        """Set off the fallback, and add to the entry what came of it."""
        try:
            details, triggered = self._on_fallback(entry), True
        except Exception as error:  # what the caller does must not lose the escalation
            details, triggered = f"The fallback could not be set off: {type(error).__name__}: {error}", False
        changes = {"fallback_triggered": triggered, "fallback_details": _joined(entry.get("fallback_details"), details)}
        return self._escalations.amend("log_entry_id", entry["log_entry_id"], changes)

    def _say_fallback(self, entry: Entry) -> str:
        if entry["recommended_action"] == REVIEW:
            return "Fallback triggered: an operator is asked to look at the rejected plans."
        return MAKING_PLANS


def check_entry(entry: Entry) -> None:
    """Raise `ValueError` unless an entry fits `plan_escalation_log.schema.json`."""
    for error in _validator().iter_errors(entry):
        where = "/".join(map(str, error.instance_path)) or "the entry"
        raise ValueError(f"this is no escalation: {where}: {error.message}")


def schema() -> dict[str, Any]:
    """The JSON schema of an entry of the escalation log."""
    text = files(__package__).joinpath("plan_escalation_log.schema.json").read_text(encoding="utf-8")
    return cast(dict[str, Any], json.loads(text))


@functools.cache
def _validator() -> Any:
    import jsonschema_rs

    # `uuid` became a format of JSON Schema after draft 7: it has to be said what it is.
    return jsonschema_rs.Draft7Validator(schema(), validate_formats=True, formats={"uuid": _is_uuid})


def _is_uuid(text: str) -> bool:
    try:
        return str(uuid.UUID(text)) == text.lower()
    except ValueError:
        return False


def _joined(before: str | None, more: str) -> str:
    return f"{before} {more}" if before else more


def _first(values: dict[str, Any], names: tuple[str, ...], default: Any) -> Any:
    """Take all of these names out of the values; what the first of them was."""
    taken = [values.pop(name) for name in names if name in values]
    return taken[0] if taken else default


def _of(entries: list[Entry], loop_id: str, comparison_set_id: str | None) -> list[Entry]:
    return [
        one for one in entries if one.get("loop_id") == loop_id and one.get("comparison_set_id") == comparison_set_id
    ]


def _escalated(entries: list[Entry], loop_id: str, comparison_set_id: str | None) -> Entry | None:
    found = _of(entries, loop_id, comparison_set_id)
    return found[-1] if found else None


def _failed_metrics(rejections: list[Entry], plan_ids: set[str]) -> dict[str, int]:
    """How often each threshold failed, where the rejections say."""
    failed = [one.get("failed_thresholds") for one in rejections if one.get("plan_id") in plan_ids]
    names = [each.get("metric") for one in failed if isinstance(one, list) for each in one if isinstance(each, dict)]
    return dict(Counter(str(name) for name in names if name))
