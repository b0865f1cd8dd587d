"""Trace databases of earlier versions: they are read, shown, compared, exported, viewed, replayed and resumed."""

from __future__ import annotations

import json
import urllib.request
from pathlib import Path
from typing import Any

import pytest
import yaml

import rlm.traces
from tests.support.stored_records import RUNS, Harbour, get

pytestmark = pytest.mark.processes

ENDINGS = {
    "submitted": "submitted",
    "extracted": "extracted",
    "failed": "failed",
    "escalated": "failed",
    "fork": "submitted",
    "killed": "unfinished",
    "killed_plans": "unfinished",
    "plans": "submitted",
}
TONS = {"hides": 1335, "wine": 301, "grain": 1609, "coal": 1532, "salt": 1681, "slate": 1164, "herring": 883}
SUBMITTED = {"arrivals": 25, "tons": {**TONS, "timber": 529}, "accidents": ["1897-03-19"]}


# Reading -------------------------------------------------------------------------------------------------------------


def test_every_run_is_found_with_its_ending(harbour: Harbour) -> None:
    runs = rlm.traces.load(harbour.home)
    assert runs.skipped == ()
    assert {name: runs.run(id).ending for name, id in RUNS.items()} == ENDINGS
    assert [run.id for run in runs] == [run.id for run in sorted(runs, key=lambda run: -run.started)]
    assert len(runs) == 26
    assert len(runs.roots) == 20
    assert {run.ending for run in runs.where(search="harbour master")} <= {"failed"}


def test_a_submitted_run_is_read_whole(harbour: Harbour) -> None:
    run = rlm.traces.find(RUNS["submitted"][:6], harbour.home)
    assert (run.confidence, run.model) == (1.0, "scripted/main")
    assert run.inputs() == {"log": (harbour.folder / "log.txt").read_text()}
    result = run.result()
    assert result is not None
    assert (result["status"], result["outputs"]) == ("submitted", SUBMITTED)
    assert [one.number for one in run.iterations] == [1, 2, 3, 4]
    assert "NameError" in run.iterations[0].output
    assert "print(len(rows), tons)" in run.iterations[1].code
    assert run.iterations[1].output.startswith("25 {'hides': 1335")
    assert set(run.iterations[1].variables.added) >= {"rows", "tons"}
    assert [one.role for one in run.model_calls].count("main") == 4
    assert [one.role for one in run.model_calls].count("sub") == 3
    assert [call.name for call in run.calls] == ["llm_batch", "SUBMIT"]
    assert "LOG OF THE HARBOUR MASTER" in json.dumps(run.prompts()[1].turns, default=str)


def test_an_extracted_run_is_read_with_its_child_run_and_its_evidence(harbour: Harbour) -> None:
    run = rlm.traces.find(RUNS["extracted"], harbour.home)
    assert run.confidence == 0.9
    assert [call.name for call in run.calls] == ["rlm_query", "llm_query"]
    (child,) = run.children
    assert (child.ending, child.parent, child.depth) == ("submitted", run.id, 1)
    child_result, result = child.result(), run.result()
    assert child_result is not None
    assert child_result["outputs"] == {"ship": "Margarethe"}
    assert result is not None
    assert result["outputs"] == {"arrivals": 25, "first_ship": "Margarethe", "remark": None}
    assert {one["path"] for one in result["evidence"]} == {"/arrivals", "/first_ship"}
    assert len(run.attempts) == 1


def test_a_failed_run_is_read_with_its_attempts_and_partial_outputs(harbour: Harbour) -> None:
    run = rlm.traces.find(RUNS["failed"], harbour.home)
    result = run.result()
    assert result is not None
    assert result["partial_outputs"] == {"name": "unknown", "age": None}
    assert [one["iteration"] for one in result["history"]] == [1]
    assert len(run.attempts) == 3


def test_a_killed_run_is_read_up_to_where_it_was_killed(harbour: Harbour) -> None:
    run = rlm.traces.find(RUNS["killed"], harbour.home)
    assert run.result() is None
    assert [one.code is None or 'gate("killed")' in one.code for one in run.iterations] == [False, True]
    assert [call.name for call in run.calls] == ["llm_query", "llm_query", "gate"]
    past = rlm.traces.recorded_run(run)
    assert (past.run_id, len(past.iterations)) == (run.id, 2)


def test_runs_become_data_frames(harbour: Harbour) -> None:
    pytest.importorskip("pandas")
    runs = rlm.traces.load(harbour.home)
    assert len(runs.to_pandas()) == 26
    assert set(runs.calls()["run"]) >= {RUNS["submitted"], RUNS["killed"]}


# The command line ----------------------------------------------------------------------------------------------------


def test_runs_are_listed(harbour: Harbour) -> None:
    listed = {one["id"]: one for one in harbour.lines("runs", "list", "--json", "--all")}
    assert len(listed) == 26
    assert {name: listed[id]["ending"] for name, id in RUNS.items()} == ENDINGS
    unfinished = harbour.rlm("runs", "list", "--ending", "unfinished")
    assert RUNS["killed"] in unfinished
    assert RUNS["submitted"] not in unfinished


@pytest.mark.parametrize(
    ("name", "shown"),
    [
        ("submitted", ["NameError", "llm_batch", "accidents"]),
        ("extracted", ["rlm_query", "Margarethe", "lines -> ship"]),
        ("failed", ["no value was found for age"]),
        ("escalated", ["guess", "arrivals == 25"]),
        ("killed", ["gate", "unfinished"]),
        ("plans", ["guess", "count", "arrivals == 25"]),
    ],
)
def test_runs_are_shown(harbour: Harbour, name: str, shown: list[str]) -> None:
    text = harbour.rlm("runs", "show", RUNS[name][:6])
    assert [part for part in shown if part not in text] == []
    record = harbour.json("runs", "show", RUNS[name], "--json")
    assert record["run"]["id"] == RUNS[name]
    assert record["run"]["ending"] == ENDINGS[name]


def test_a_run_and_its_fork_are_compared(harbour: Harbour) -> None:
    text = harbour.rlm("runs", "diff", RUNS["submitted"], RUNS["fork"])
    assert '["1897-03-19"]' in text
    difference = harbour.json("runs", "diff", RUNS["submitted"], RUNS["fork"], "--json")
    changed = {one["name"]: (one["first"], one["second"]) for one in difference["facts"] if not one["same"]}
    assert changed["trigger.max_iterations"] == (6, 7)
    assert "models.main" not in changed


@pytest.mark.parametrize("name", ["submitted", "extracted", "failed", "killed", "plans"])
def test_runs_are_exported(harbour: Harbour, name: str) -> None:
    run = rlm.traces.find(RUNS[name], harbour.home)
    whole = harbour.json("runs", "export", run.id, "--to", "json", "-o", "-")
    assert whole["run"]["id"] == run.id
    events = harbour.lines("runs", "export", run.id, "--to", "jsonl", "-o", "-")
    runs = [run, *run.children]
    assert [one["sequence"] for one in events] == [n for one in runs for n in range(1, one.event_count + 1)]
    assert [one["kind"] for one in events].count("run_started") == len(runs)
    assert [one["kind"] for one in events].count("run_ended") == (0 if name == "killed" else len(runs))
    notebook = harbour.json("runs", "export", run.id, "--to", "ipynb", "-o", "-")
    codes = ["".join(cell["source"]) for cell in notebook["cells"] if cell["cell_type"] == "code"]
    answered = run.children[-1] if name == "plans" else run
    assert [one.code for one in answered.iterations if one.code not in codes] == []


# The viewer ----------------------------------------------------------------------------------------------------------


def test_the_viewer_serves_them(harbour: Harbour) -> None:
    with harbour.page("view", RUNS["submitted"]) as address:
        place, _, fragment = address.partition("#")
        assert fragment == f"/run/{RUNS['submitted']}"
        listed = get(f"{place}api/runs")
        assert {name: _ending(listed, id) for name, id in RUNS.items()} == ENDINGS
        assert listed["skipped"] == []
        for name, id in RUNS.items():
            assert get(f"{place}api/runs/{id}")
            found = get(f"{place}api/runs/{id}/events")
            assert found["run"]["ending"] == ENDINGS[name]
            assert len(found["events"]) == found["run"]["event_count"]
            sequences = ",".join(str(one) for one in range(1, len(found["events"]) + 1))
            assert get(f"{place}api/runs/{id}/whole?only={sequences}")
        run = rlm.traces.find(RUNS["submitted"], harbour.home)
        variables = get(f"{place}api/runs/{run.id}/variables?after=0&until={run.event_count}")
        assert "tons" in json.dumps(variables)
        log = get(f"{place}api/runs/{run.id}")["beginning"]["inputs"]["log"]["value"]["$body"]
        assert "LOG OF THE HARBOUR MASTER" in json.dumps(get(f"{place}api/runs/{run.id}/blobs/{log}"))
        compared = get(f"{place}api/compare/{run.id}/{RUNS['fork']}")
        assert (compared["first"], compared["second"]) == (run.id, RUNS["fork"])
        with urllib.request.urlopen(place, timeout=60) as page:
            assert b"<html" in page.read()


@pytest.mark.parametrize("name", ["extracted", "killed", "plans"])
def test_the_viewer_exports_a_page(harbour: Harbour, name: str) -> None:
    target = harbour.folder / "run.html"
    harbour.rlm("view", RUNS[name], "--export", str(target))
    assert RUNS[name] in target.read_text(encoding="utf-8")


def _ending(listed: Any, id: str) -> str:
    (found,) = [one for one in listed["runs"] if one["id"] == id]
    return str(found["ending"])


# Running again and going on ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["submitted", "extracted", "failed", "fork", "plans"])
def test_they_are_replayed_without_a_model(harbour: Harbour, name: str) -> None:
    for path in harbour.folder.glob("*.replies.yaml"):
        path.write_text("main: []\n")
    report = harbour.json("replay", RUNS[name], "--json")
    assert report["same"] is True
    assert report["differences"] == []
    assert harbour.called() == []


def test_a_killed_run_goes_on_and_asks_nothing_twice(harbour: Harbour) -> None:
    harbour.open_gate()
    _forget(harbour.folder / "killed.replies.yaml", asked=2, sub=("ketch", "brig"))
    result = harbour.json("resume", RUNS["killed"][:8], "--json", "-q")
    assert (result["status"], result["iterations"]) == ("submitted", 3)
    assert result["outputs"] == {"arrivals": 25, "brig": "A ship with two masts."}
    assert result["usage"]["llm_calls"] == 3
    assert harbour.called() == ["gate killed"]  # its answer was not on record
    resumed = rlm.traces.find(result["run_id"], harbour.home)
    assert resumed.resumed_from == RUNS["killed"]
    assert [call.role for call in resumed.model_calls if not call.past] == ["sub", "main"]
    assert len(list((harbour.home / "traces").glob("*.db"))) == 1  # the stored database is written on
    killed = rlm.traces.find(RUNS["killed"], harbour.home)
    assert (killed.ending, killed.resumed_by) == ("resumed", result["run_id"])


def test_a_killed_run_goes_on_in_python(harbour: Harbour, pool: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    import dspy

    from rlm.models.scripted import scripted_lm

    monkeypatch.setenv("RLM_HOME", str(harbour.home))
    monkeypatch.setenv("RLM_TRACE", "off")
    submit = "```python\nSUBMIT(arrivals=arrivals, brig=brig)\n```"
    with dspy.context(lm=scripted_lm([submit])):
        predict = rlm.Predict(
            "log: str -> arrivals: int, brig: str",
            sub_lm=scripted_lm({"gate": "It is."}),
            tools={"gate": lambda name: "open"},
            pool=pool,
        )
        result = predict.resume(RUNS["killed"])
    assert isinstance(result, rlm.Submitted)
    assert (result.outputs.arrivals, result.outputs.brig) == (25, "A ship with two masts.")


def test_a_killed_loop_of_plans_goes_on_in_the_midst_of_its_plan(harbour: Harbour) -> None:
    harbour.open_gate()
    _forget(harbour.folder / "plans.replies.yaml", asked=3)
    result = harbour.json("resume", RUNS["killed_plans"], "--json", "-q")
    assert result["outputs"] == {"arrivals": 25}
    assert [one["name"] for one in result["plan"]["rejected"]] == ["guess"]
    assert result["usage"]["model_calls"] == 3
    assert harbour.called() == ["gate plans"]


def test_an_extracted_run_goes_on_with_a_larger_budget(harbour: Harbour) -> None:
    replies = ["", "", "", "```python\nSUBMIT(arrivals=arrivals, first_ship=first_ship, remark=None)\n```"]
    (harbour.folder / "extracted.replies.yaml").write_text(json.dumps({"main": replies}))
    result = harbour.json("resume", RUNS["extracted"], "--max-iterations", "5", "--json", "-q")
    assert (result["status"], result["outputs"]["first_ship"]) == ("submitted", "Margarethe")


def test_an_operator_answers_a_stored_escalation(harbour: Harbour) -> None:
    logs = ("--logs", "plan-logs")
    (found,) = harbour.lines("escalations", "list", "--json", *logs)
    assert found["loop_id"] == RUNS["escalated"]
    assert "arrivals == 25" in harbour.rlm("escalations", "show", found["log_entry_id"][:8], *logs)
    harbour.rlm("escalations", "approve", found["log_entry_id"], *logs)
    result = harbour.json("resume", RUNS["escalated"], "--json", "-q")
    assert (result["status"], result["outputs"]) == ("submitted", {"arrivals": 43})


def _forget(replies: Path, asked: int, sub: tuple[str, ...] = ()) -> None:
    """Have a scripted model answer no more what it has answered before."""
    script = yaml.safe_load(replies.read_text())
    script["main"][:asked] = ["```python\nraise SystemError('asked twice')\n```"] * asked
    script["sub"] = {part: text for part, text in script.get("sub", {}).items() if part not in sub}
    replies.write_text(json.dumps(script))
