"""Logs of evaluations: they are listed, compared, viewed, gone on with, and what broke off in them is run again."""

from __future__ import annotations

import json
from typing import Any

import pytest

import rlm
from tests.support.stored_records import STORED, WRITTEN, Harbour, get

pytestmark = pytest.mark.processes

LOG = "evals/eval"
RUN = ("eval", "run", "keys.jsonl", "--task", "eval.yaml", "--log", LOG, "-q")
SCORES = {"tower": 1.0, "lock": 0.0, "crane": 1.0, "bridge": 0.0}


def samples(harbour: Harbour) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (harbour.folder / LOG / "samples.jsonl").read_text().splitlines()]


def test_a_whole_log_is_summarized_as_before(harbour: Harbour) -> None:
    # One sample is broken off, so the exit code is 1; it is not run again.
    again = harbour.json(*RUN, "--json", code=1)
    stored = json.loads((STORED / LOG / "summary.json").read_text())
    for group in (stored["all"], *stored["groups"]):
        group["common_errors"] = group.pop("said")  # as it is called now
    assert again["complete"] is True
    assert again["summary"] == stored
    assert stored["all"]["score"]["mean"] == 0.5
    assert {one["sample_id"]: one["score"] for one in samples(harbour)} == SCORES
    assert harbour.called() == []
    header = json.loads((harbour.folder / LOG / "header.json").read_text())
    assert (header["versions"]["rlm"], header["later_versions"][0]["rlm"]) == (WRITTEN["rlm"], rlm.__version__)


def test_the_logs_are_listed(harbour: Harbour) -> None:
    (harbour.folder / "evals").rename(harbour.home / "evals")
    listed = harbour.rlm("eval", "list", "--logs")
    assert "baseline" in listed
    assert "eval.replies.yaml" in listed


def test_two_logs_are_compared(harbour: Harbour) -> None:
    compared = harbour.json("eval", "compare", "evals/baseline", LOG, "--json")
    assert compared["all"]["difference"] == 0.25
    text = harbour.rlm("eval", "compare", "evals/baseline", LOG)
    assert "Better in B: 1" in text
    assert "crane" in text


def test_what_an_error_broke_off_is_run_again(harbour: Harbour) -> None:
    harbour.open_gate()  # the tide can be read now
    stored = samples(harbour)
    summary = harbour.json("eval", "retry", LOG, "-q", "--json")["summary"]
    assert harbour.called() == ["tide"]
    assert samples(harbour)[:4] == stored
    (again,) = samples(harbour)[4:]
    assert (again["sample_id"], again["ending"], again["score"]) == ("bridge", "Extracted", 1.0)
    assert summary["all"]["score"]["mean"] == 0.75


def test_an_interrupted_log_is_gone_on_with(harbour: Harbour) -> None:
    harbour.open_gate()
    path = harbour.folder / LOG / "samples.jsonl"
    kept = path.read_text().splitlines(keepends=True)[:2]
    path.write_text("".join(kept) + '{"sample_id": "cra')
    assert harbour.json(*RUN, "--json")["summary"]["all"]["tries"] == 4
    assert path.read_text().startswith("".join(kept))
    assert sorted(one["sample_id"] for one in samples(harbour)) == sorted(SCORES)


def test_a_log_is_viewed_with_its_runs(harbour: Harbour) -> None:
    with harbour.page("eval", "view", LOG) as address:
        place, _, fragment = address.partition("#")
        assert fragment == "/eval"
        rows = {one["sample"]: one for one in get(f"{place}api/eval")["rows"]}
        assert {name: row["score"] for name, row in rows.items()} == SCORES
        for row in rows.values():
            assert get(f"{place}api/runs/{row['id']}")
