"""The notebooks, executed as their readers would, and the charts in them."""

from __future__ import annotations

import base64
import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from rlm.traces import RunRecord, TraceWriter, load, plots
from tests.support.events import make_event
from tests.support.replies import cell
from tests.support.repository import NOTEBOOKS

nbformat = pytest.importorskip("nbformat")
nbclient = pytest.importorskip("nbclient")
pytest.importorskip("altair")
pytest.importorskip("ipykernel")


def execute(name: str, folder: Path, monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """Runs a notebook in a plain kernel, and gives its code cells."""
    monkeypatch.setenv("TMPDIR", str(folder))  # where it makes its traces
    made = nbformat.read(NOTEBOOKS / name, 4)
    nbformat.validate(made)
    client = nbclient.NotebookClient(made, kernel_name="python3", timeout=100, resources={"metadata": {"path": folder}})
    client.execute()
    assert list(folder.glob("rlm-notebook-*/traces/*"))
    return [one for one in made.cells if one.cell_type == "code"]


def shown(cells: list[Any], source: str) -> str:
    """What the one cell with this text in it shows, as text and HTML."""
    (found,) = (one for one in cells if source in one.source)
    data = [each.get("data", {"text/plain": each.get("text", "")}) for each in found.outputs]
    return "\n".join(text if isinstance(text, str) else json.dumps(text) for one in data for text in one.values())


@pytest.mark.processes
def test_exploring_one_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    cells = execute("exploring_one_run.ipynb", tmp_path, monkeypatch)
    assert "ship='Ingrid', minutes=95" in shown(cells, "replies = [")
    assert "extracted</b>" in shown(cells, "run = runs.run(")
    assert "<summary>Iteration 2 · error" in shown(cells, "run = runs.run(")
    assert "4 of 4 iterations used without SUBMIT" in shown(cells, "run.reason")
    chart = shown(cells, "plots.budget(run)")
    assert "4 of 4 iterations used without SUBMIT" in chart
    assert '"limit": "tokens"' in chart
    assert shown(cells, "failed = ").startswith("AttributeError in iteration 2 line 6\n")
    assert "no JSON" in shown(cells, "run.attempts")
    evidence = shown(cells, 'run.result()["evidence"]')
    assert "waits" in evidence
    assert "/minutes" in evidence
    assert "{'Ingrid': 95}" in shown(cells, "iteration.variables.added")
    assert shown(cells, "plots.cost(run)").count('"role": "extraction"') == 2
    assert "[1 iteration, " in shown(cells, "run.prompts()")
    assert "submitted ship='Ingrid' minutes=95 after 1 model call" in shown(cells, "more.resume(")


@pytest.mark.processes
def test_comparing_many_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    cells = execute("comparing_many_runs.ipynb", tmp_path, monkeypatch)
    assert "Runs(25)" in shown(cells, "for cargo in truth:")
    rows = {tuple(line.split()) for line in shown(cells, "table.groupby(").splitlines()}
    assert ("submitted", "8", "1.0", "1.00") in {row[:4] for row in rows}  # the careful one
    assert ("submitted", "8", "0.5", "1.00") in {row[:4] for row in rows}
    assert ("failed", "1", "0.0", "0.00") in {row[:4] for row in rows}
    assert shown(cells, "plots.confidence(runs)").count('"ending": "submitted"') == 16
    calibration = shown(cells, "plots.confidence(runs, right=right)")
    assert '{"from": 0.8, "to": 1.0, "right": 0.8, "runs": 20, "low": 0.58' in calibration
    assert '{"from": 0.4, "to": 0.6, "right": 0.0, "runs": 4, "low": 0.0, "high": 0.48' in calibration
    assert "careful" not in shown(cells, "wrong = ")
    compared = shown(cells, "difference = compare(")
    assert "they diverge at iteration 2" in compared
    assert "-SUBMIT(tons=total)" in compared
    assert shown(cells, "plots.cost(careful)").count('"role": "main"') == 3


@pytest.mark.parametrize("path", sorted(NOTEBOOKS.glob("*.ipynb")), ids=lambda path: path.stem)
def test_they_are_kept_without_outputs(path: Path) -> None:
    made = json.loads(path.read_text(encoding="utf-8"))
    code = [one for one in made["cells"] if one["cell_type"] == "code"]
    assert code
    assert all(one["outputs"] == [] and one["execution_count"] is None for one in code)
    assert made["metadata"]["kernelspec"]["name"] == "python3"


def _values(chart: Any) -> list[dict[str, Any]]:
    made = chart.to_dict()
    return [row for part in made.get("layer", [made]) for row in part.get("data", made.get("data"))["values"]]


def _write(home: Path, *events: tuple[str, dict[str, Any]]) -> RunRecord:
    with TraceWriter(home) as writer:
        for number, (kind, data) in enumerate(events):
            writer(make_event(kind, "r1", data, 100.0 + number))
        assert writer.flush(30)
    return load(home).run("r1")


def test_the_budget_begins_at_nothing_and_leaves_out_limits_that_are_off(record: Callable[..., RunRecord]) -> None:
    run = record([cell("print(1)"), cell("print(2)")], max_iterations=2, extraction=['{"n": 1}'])
    rows = [row for row in _values(plots.budget(run)) if "limit" in row]
    assert [row["share"] for row in rows if row["limit"] == "iterations"] == [0, 0.5, 1]
    assert not [row for row in rows if row["limit"] == "cost"]
    fired = [row for row in _values(plots.budget(run)) if "why" in row]
    assert {row["why"] for row in fired} == {"2 of 2 iterations used without SUBMIT"}
    assert fired[0]["second"] >= max(row["second"] for row in rows)


def test_costs_are_in_dollars_where_they_are_known_and_children_are_counted(tmp_path: Path) -> None:
    home = str(tmp_path)
    with TraceWriter(home) as writer:
        for number, (run, parent) in enumerate([("root", None), ("child", "root")]):
            writer(make_event("run_started", run, {"parent": parent, "depth": number, "inputs": {}}, 10.0 + number))
            writer(make_event("model_asked", run, {"id": 1, "role": "main", "model": "m"}, 11.0 + number))
            told = {"id": 1, "role": "main", "tokens_in": 5, "tokens_out": 2, "cost_usd": 0.25 + number}
            writer(make_event("model_answered", run, told, 12.0 + number))
        assert writer.flush(30)
    chart = plots.cost(load(home).run("root"))
    assert [(row["role"], row["child"], row["cost"]) for row in _values(chart)] == [
        ("main", False, 0.25),
        ("main", True, 1.25),
    ]
    assert chart.to_dict()["encoding"]["y"]["field"] == "cost"


def test_what_a_chart_says_cannot_become_markup(tmp_path: Path) -> None:
    hostile = "</script><script>alert(1)</script>\u202e\x1b[31m" + "x" * 5_000
    run = _write(
        tmp_path,
        ("run_started", {"signature": {"name": hostile}, "models": {"main": hostile}, "inputs": {}}),
        ("model_asked", {"id": 1, "role": hostile, "model": hostile}),
        ("model_answered", {"id": 1, "role": hostile, "tokens_in": 1, "tokens_out": 1}),
        ("budget", {"iterations": 1, "max_iterations": 2}),
        ("trigger_fired", {"reason": hostile}),
        ("run_ended", {"ending": "Submitted", "confidence": 1.0}),
    )
    for chart in (
        plots.budget(run),
        plots.cost(run),
        plots.confidence([run]),
        plots.confidence([run], lambda one: True),
    ):
        spec = json.dumps(chart.to_dict(), ensure_ascii=False)
        assert "<" not in spec
        assert "\u202e" not in spec
        assert len(spec) < 10_000


def test_a_run_with_more_calls_than_a_chart_takes_shows_the_most_expensive(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(plots, "MAX_ROWS", 3)
    events: list[tuple[str, dict[str, Any]]] = [("run_started", {"inputs": {}})]
    for number in range(1, 11):
        answer = {"id": number, "role": "main", "tokens_in": number % 7, "tokens_out": 0}
        events += [("model_asked", {"id": number, "role": "main", "model": "m"}), ("model_answered", answer)]
    chart = plots.cost(_write(tmp_path, *events))
    assert [row["call"] for row in _values(chart)] == [4, 5, 6]
    assert "the 3 most expensive of 10" in chart.to_dict()["title"]


def test_runs_without_anything_to_show_give_an_empty_chart(tmp_path: Path) -> None:
    run = _write(tmp_path, ("run_started", {"inputs": {}}))
    assert _values(plots.budget(run)) == []
    assert _values(plots.cost(run)) == []
    assert _values(plots.confidence([run])) == []


@pytest.mark.parametrize("chart", ["budget", "cost", "confidence", "right"])
def test_a_chart_is_a_picture_too_and_fetches_nothing(
    record: Callable[..., RunRecord], chart: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("vl_convert")
    run = record([cell("print(1)"), cell("print(2)")], max_iterations=2, extraction=['{"n": 1}'])
    charts = {
        "budget": lambda: plots.budget(run),
        "cost": lambda: plots.cost(run),
        "confidence": lambda: plots.confidence([run]),
        "right": lambda: plots.confidence([run], lambda run: True),
    }
    bundle, metadata = charts[chart]()._repr_mimebundle_()
    assert sorted(bundle) == ["application/vnd.vegalite.v5+json", "image/png", "text/plain"]
    picture = base64.b64decode(bundle["image/png"])
    assert picture.startswith(b"\x89PNG")
    assert int.from_bytes(picture[16:20], "big") == 2 * metadata["image/png"]["width"] > 600
    monkeypatch.setitem(sys.modules, "vl_convert", None)
    assert sorted(charts[chart]()._repr_mimebundle_()) == ["application/vnd.vegalite.v5+json", "text/plain"]


def test_a_renderer_that_the_user_enabled_is_used(tmp_path: Path) -> None:
    altair = pytest.importorskip("altair")
    run = _write(tmp_path, ("run_started", {"inputs": {}}))
    with altair.renderers.enable("mimetype"):
        bundle, _ = plots.cost(run)._repr_mimebundle_()
    assert "application/vnd.vegalite.v5+json" not in bundle
    assert "image/png" not in bundle


def test_without_altair_the_command_to_install_it_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run = _write(tmp_path, ("run_started", {"inputs": {}}))
    monkeypatch.setitem(sys.modules, "altair", None)
    with pytest.raises(plots.PlotsMissing, match=r"pip install 'rlm-kernel\[plots\]'"):
        plots.budget(run)
