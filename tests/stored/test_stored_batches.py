"""A batch whose driver was killed: two items are done, one failed, one was under way, and one was not begun."""

from __future__ import annotations

import hashlib
import json
import os
from typing import Any

import pytest

from tests.support.stored_records import PLACE, STORED, Harbour

pytestmark = pytest.mark.processes

BATCH = ("batch", "batch.yaml", "--over", "rows.csv", "-o", "rows.results.jsonl", "--workers", "1")


@pytest.fixture
def batch(harbour: Harbour) -> Harbour:
    """The batch; its ledger is found by the path of the results, which is another one now."""
    results = harbour.folder / "rows.results.jsonl"
    (ledger,) = (harbour.home / "batches").glob("*.db")
    assert ledger.stem.rpartition("-")[2] == hashlib.sha256(f"{PLACE}/{results.name}".encode()).hexdigest()[:16]
    digest = hashlib.sha256(os.fsencode(results.resolve())).hexdigest()[:16]
    ledger.rename(ledger.with_stem(f"rows.results-{digest}"))
    harbour.open_gate()
    return harbour


def lines(harbour: Harbour) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (harbour.folder / "rows.results.jsonl").read_text().splitlines()]


def test_only_what_is_missing_is_done(batch: Harbour) -> None:
    before = (STORED / "rows.results.jsonl").read_bytes()
    summary = batch.json(*BATCH, "--json", "-q", code=1)  # one item has failed before
    assert sorted(batch.called()) == ["weigh Maren", "weigh Petrel"]
    after = (batch.folder / "rows.results.jsonl").read_bytes()
    assert after.startswith(before)
    assert sorted(one["item"] for one in lines(batch)) == ["anna", "dora", "fog", "maren", "petrel"]
    assert {ending: one["count"] for ending, one in summary["endings"].items()} == {"Submitted": 4, "Failed": 1}
    assert (summary["total"], summary["left"]) == (5, 0)
    # Once more: there is nothing to do.
    batch.rlm(*BATCH, "-q", code=1)
    assert len(batch.called()) == 2
    assert (batch.folder / "rows.results.jsonl").read_bytes() == after


def test_lines_that_the_results_have_lost_come_back_from_the_ledger(batch: Harbour) -> None:
    (batch.folder / "rows.results.jsonl").unlink()
    batch.rlm(*BATCH, "-q", code=1)
    assert sorted(batch.called()) == ["weigh Maren", "weigh Petrel"]
    assert sorted(one["item"] for one in lines(batch)) == ["anna", "dora", "fog", "maren", "petrel"]
    assert {one["item"]: (one["outputs"] or {}).get("tons") for one in lines(batch)} == {
        "anna": 639,
        "fog": None,
        "dora": 205,
        "petrel": 89,
        "maren": 98,
    }


def test_what_failed_is_done_again_when_that_is_asked_for(batch: Harbour) -> None:
    rows = batch.folder / "rows.csv"
    rows.write_text("".join(rows.read_text().splitlines(keepends=True)[:3]))  # anna, who is done, and fog, which failed
    stored = {one["item"]: one for one in lines(batch)}
    batch.rlm(*BATCH, "-q", "--retry-failed", code=1)
    assert batch.called() == []  # the note of fog names no weight, so nothing is weighed
    now = {one["item"]: one for one in lines(batch)}
    assert now["anna"] == stored["anna"]
    assert (now["fog"]["ending"], stored["fog"]["ending"]) == ("Failed", "Failed")
    assert now["fog"]["run_id"] != stored["fog"]["run_id"]


def test_the_runs_of_the_batch_are_found_by_its_results(batch: Harbour) -> None:
    listed = batch.lines("runs", "list", "--json", "--batch", "rows.results.jsonl")
    assert {one["id"] for one in listed if one["ending"] != "unfinished"} == {one["run_id"] for one in lines(batch)}
    assert len(listed) == 4  # and that of the item which was lost
