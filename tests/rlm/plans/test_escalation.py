"""The detector on files, as another program may have written them: the cases of its design, and broken files."""

from __future__ import annotations

import json
import subprocess
import sys
import uuid
from pathlib import Path
from typing import Any

import jsonschema_rs
import pytest

from rlm.plans import FallbackConfig, JsonLogError, PlanEscalationDetector
from rlm.plans.escalation import schema

LOOP = "loop_0052"
ALERT = {"fallback_enabled": True, "default_fallback_strategy": "log_and_alert_operator"}
REGENERATE = {"fallback_enabled": True, "default_fallback_strategy": "attempt_regeneration_simple"}
OFF = {"fallback_enabled": False, "default_fallback_strategy": "log_and_alert_operator"}


class Files:
    """The three files of a detector."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.comparison = folder / "multi_plan_comparison.json"
        self.rejection = folder / "plan_rejection_log.json"
        self.escalation = folder / "plan_escalation_log.json"

    def compared(self, *sets: tuple[str, str | None, list[str]]) -> Files:
        entries = [{"loop_id": loop, "comparison_set_id": one, "candidates": _plans(ids)} for loop, one, ids in sets]
        self.comparison.write_text(json.dumps(entries))
        return self

    def rejected(self, *plans: tuple[str, str | None, str]) -> Files:
        entries = [{"loop_id": loop, "comparison_set_id": one, "plan_id": plan} for loop, one, plan in plans]
        self.rejection.write_text(json.dumps(entries))
        return self

    def detector(self, config: Any = None, **options: Any) -> PlanEscalationDetector:
        return PlanEscalationDetector(
            str(self.comparison), str(self.rejection), str(self.escalation), config or ALERT, **options
        )

    def logged(self) -> list[dict[str, Any]]:
        return json.loads(self.escalation.read_text()) if self.escalation.exists() else []


def _plans(ids: list[str]) -> list[dict[str, str]]:
    return [{"plan_id": one} for one in ids]


@pytest.fixture
def on_disk(tmp_path: Path) -> Files:
    return Files(tmp_path)


@pytest.fixture
def all_rejected(on_disk: Files) -> Files:
    return on_disk.compared((LOOP, "set_1", ["a", "b"])).rejected((LOOP, "set_1", "a"), (LOOP, "set_1", "b"))


# The cases of the design -------------------------------------------------------------------------------------------


def test_no_rejections_is_no_escalation(on_disk: Files) -> None:
    on_disk.compared((LOOP, "set_1", ["a", "b"])).rejected()
    assert on_disk.detector().check_for_escalation(LOOP) is None
    assert not on_disk.escalation.exists()


def test_some_plans_rejected_is_no_escalation(on_disk: Files) -> None:
    on_disk.compared((LOOP, "set_1", ["a", "b", "c"])).rejected((LOOP, "set_1", "a"), (LOOP, "set_1", "c"))
    assert on_disk.detector().check_for_escalation(LOOP) is None
    assert not on_disk.escalation.exists()


def test_all_plans_rejected_is_an_escalation(all_rejected: Files) -> None:
    entry = all_rejected.detector().check_for_escalation(LOOP)
    assert entry is not None
    assert (entry["loop_id"], entry["comparison_set_id"]) == (LOOP, "set_1")
    assert all_rejected.logged() == [entry]


def test_the_entry_fits_the_schema_and_says_what_happened(all_rejected: Files) -> None:
    all_rejected.detector().check_for_escalation(LOOP)
    (entry,) = all_rejected.logged()
    jsonschema_rs.Draft7Validator(schema(), validate_formats=True).validate(entry)
    assert uuid.UUID(entry["log_entry_id"])
    assert entry["rejected_plan_ids"] == ["a", "b"]
    assert entry["governance_summary"]["total_plans_considered"] == 2
    assert entry["governance_summary"]["total_plans_rejected"] == 2
    assert "rejected" in entry["escalation_reason"]


@pytest.mark.parametrize(
    ("config", "action", "alert", "triggered"),
    [
        (ALERT, "operator_review_required", True, True),
        (REGENERATE, "trigger_fallback_procedure", False, True),
        (OFF, "no_further_action_defined", False, False),
        ({"enabled": True, "strategy": "regenerate_with_adjusted_weights"}, "trigger_fallback_procedure", False, True),
        ({"enabled": False}, "no_further_action_defined", False, False),
    ],
)
def test_the_fallback_is_set_off_by_configuration(
    all_rejected: Files, config: Any, action: str, alert: bool, triggered: bool
) -> None:
    asked: list[Any] = []

    def on_fallback(entry: dict[str, Any]) -> str:
        assert not entry["fallback_triggered"]  # it is on record before anything is done about it
        assert all_rejected.logged() == [entry]
        asked.append(entry)
        return "Fallback triggered: done."

    entry = all_rejected.detector(config, on_fallback=on_fallback).check_for_escalation(LOOP)
    assert entry is not None
    assert (entry["recommended_action"], entry["operator_alert_flag"]) == (action, alert)
    assert (entry["fallback_triggered"], len(asked)) == (triggered, int(triggered))
    assert entry["fallback_details"] == ("Fallback triggered: done." if triggered else None)
    assert all_rejected.logged() == [entry]


# More --------------------------------------------------------------------------------------------------------------


def test_a_fallback_that_fails_leaves_the_escalation_on_record(all_rejected: Files) -> None:
    def broken(entry: dict[str, Any]) -> str:
        raise RuntimeError("no generator")

    entry = all_rejected.detector(REGENERATE, on_fallback=broken).check_for_escalation(LOOP)
    assert entry is not None
    assert not entry["fallback_triggered"]
    assert "no generator" in entry["fallback_details"]


def test_the_latest_set_counts(on_disk: Files) -> None:
    on_disk.compared((LOOP, "set_1", ["a"]), ("other", "set_9", ["z"]), (LOOP, "set_2", ["b"]))
    on_disk.rejected((LOOP, "set_1", "a"))
    assert on_disk.detector().check_for_escalation(LOOP) is None
    on_disk.rejected((LOOP, "set_1", "a"), (LOOP, "set_1", "b"))  # b, but of the set before
    assert on_disk.detector().check_for_escalation(LOOP) is None
    on_disk.rejected((LOOP, "set_1", "a"), (LOOP, "set_2", "b"), (LOOP, "set_2", "more"))
    entry = on_disk.detector().check_for_escalation(LOOP)
    assert entry is not None
    assert (entry["comparison_set_id"], entry["rejected_plan_ids"]) == ("set_2", ["b"])


def test_the_same_loop_and_set_escalate_once(all_rejected: Files) -> None:
    first = all_rejected.detector().check_for_escalation(LOOP)
    assert all_rejected.detector(REGENERATE).check_for_escalation(LOOP) is None
    assert all_rejected.logged() == [first]
    assert all_rejected.detector().escalation_of(LOOP) == first
    all_rejected.compared((LOOP, "set_1", ["a", "b"]), (LOOP, "set_2", ["c"]))
    all_rejected.rejected((LOOP, "set_2", "c"))
    assert all_rejected.detector().check_for_escalation(LOOP) is not None
    assert len(all_rejected.logged()) == 2


CHECK = """
import os, sys
from rlm.plans import PlanEscalationDetector
gate, go = os.pipe()
for _ in range(10):
    if os.fork() == 0:
        os.close(go)
        os.read(gate, 1)  # all begin when the gate is closed
        found = PlanEscalationDetector(*sys.argv[1:4], {}).check_for_escalation(sys.argv[4])
        os._exit(7 if found is not None else 0)
os.close(go)
os.close(gate)
print(sorted(os.waitstatus_to_exitcode(os.wait()[1]) for _ in range(10)))
"""


def test_ten_processes_that_check_at_once_escalate_once(all_rejected: Files) -> None:
    paths = [str(one) for one in (all_rejected.comparison, all_rejected.rejection, all_rejected.escalation)]
    command = [sys.executable, "-c", CHECK, *paths, LOOP]
    done = subprocess.run(command, capture_output=True, text=True, timeout=100, check=True)
    assert done.stdout == f"{[0] * 9 + [7]}\n"
    (entry,) = all_rejected.logged()
    assert entry["fallback_triggered"]


@pytest.mark.parametrize(
    "entry",
    [
        {"plan_id": "a"},
        {"candidate_plans": [{"plan_id": "a"}]},
        {"plans": ["a"]},
        {"candidate_plan_ids": ["a"]},
    ],
)
def test_plans_are_found_however_an_entry_lists_them(on_disk: Files, entry: dict[str, Any]) -> None:
    on_disk.comparison.write_text(json.dumps([{"loop_id": LOOP, **entry}]))
    on_disk.rejected((LOOP, None, "a"))
    found = on_disk.detector().check_for_escalation(LOOP)
    assert found is not None
    assert (found["rejected_plan_ids"], found["comparison_set_id"]) == (["a"], None)


@pytest.mark.parametrize("content", [None, "", "  \n", "[]"])
def test_missing_and_empty_files_are_no_escalation(on_disk: Files, content: str | None) -> None:
    if content is not None:
        on_disk.comparison.write_text(content)
        on_disk.rejection.write_text(content)
    assert on_disk.detector().check_for_escalation(LOOP) is None
    on_disk.compared((LOOP, "set_1", []))
    assert on_disk.detector().check_for_escalation(LOOP) is None
    assert not on_disk.escalation.exists()


@pytest.mark.parametrize("name", ["comparison", "rejection", "escalation"])
@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b'[{"loop_id": "loop', "not JSON"),
        (b'{"loop_id": 1}', "a JSON array, not an object"),
        (b"[1]", "entry 0 is not an object"),
        (b"\xff\xfe", "not UTF-8"),
    ],
)
def test_a_broken_file_is_an_error_and_nothing_is_overwritten(
    all_rejected: Files, name: str, content: bytes, said: str
) -> None:
    broken: Path = getattr(all_rejected, name)
    broken.write_bytes(content)
    before = {path.name: path.read_bytes() for path in all_rejected.folder.glob("*.json")}
    with pytest.raises(JsonLogError, match=said) as caught:
        all_rejected.detector().check_for_escalation(LOOP)
    assert str(broken) in str(caught.value)
    assert {path.name: path.read_bytes() for path in all_rejected.folder.glob("*.json")} == before


def test_a_candidate_without_an_id_is_an_error(on_disk: Files) -> None:
    on_disk.comparison.write_text(json.dumps([{"loop_id": LOOP, "plans": [{"name": "x"}]}]))
    with pytest.raises(JsonLogError, match="no plan_id"):
        on_disk.detector().check_for_escalation(LOOP)


@pytest.mark.parametrize(
    ("config", "said"),
    [
        ({"default_fallback_strategy": "pray"}, "no fallback strategy 'pray'"),
        ({"strategy": ["log_and_alert_operator"]}, "no fallback strategy"),
        ({"fallback_enabled": "yes"}, "true or false"),
        ({"retries": 3}, "no setting 'retries'"),
        ({"rounds": -1}, "0 or more"),
    ],
)
def test_a_configuration_that_means_nothing_is_refused(config: dict[str, Any], said: str) -> None:
    with pytest.raises(ValueError, match=said):
        FallbackConfig.of(config)


def test_an_entry_that_does_not_fit_the_schema_is_not_written(all_rejected: Files) -> None:
    entry = all_rejected.detector().check_for_escalation(LOOP)
    assert entry is not None
    before = all_rejected.escalation.read_bytes()
    log = all_rejected.detector()._escalations
    with pytest.raises(ValueError, match="recommended_action"):
        log.append({**entry, "recommended_action": "panic"})
    with pytest.raises(ValueError, match="log_entry_id"):
        log.append({**entry, "log_entry_id": "7"})
    with pytest.raises(ValueError, match="loop_id"):
        log.append({name: value for name, value in entry.items() if name != "loop_id"})
    assert all_rejected.escalation.read_bytes() == before
