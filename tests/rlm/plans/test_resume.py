"""Loops on record: killed while a plan runs, they go on where they were; plans' runs are run again and forked."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from rlm.cli import rlm
from rlm.traces import RunRecord, load
from tests.support.replies import cell

TASK = """\
signature: "question: str -> answer: int"
inputs: {question: "How many?"}
models: {scripted: replies.yaml}
tools: [doors:gate]
plans:
  candidates: [guess, {approach: count them, tools: [gate]}]
  governance: {invariants: [answer == 7]}
  logs: logs
"""
DOORS = """
import time
from pathlib import Path

HERE = Path(__file__).parent

def gate() -> str:
    'Wait until the gate is open.'
    (HERE / "waiting").touch()
    while not (HERE / "open").exists():
        time.sleep(0.02)
    return "open"
"""
REPLIES = [
    cell("SUBMIT(answer=1)"),
    cell("first = 3\nprint(first)"),
    cell("gate()\nSUBMIT(answer=first + 4)"),
]


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A task whose second plan waits at a gate."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    monkeypatch.setenv("RLM_HOME", str(tmp_path / "home"))
    (tmp_path / "task.yaml").write_text(TASK)
    (tmp_path / "doors.py").write_text(DOORS)
    (tmp_path / "replies.yaml").write_text(json.dumps({"main": REPLIES}))
    yield tmp_path
    sys.modules.pop("doors", None)


def run(*arguments: str) -> Result:
    return CliRunner().invoke(rlm, list(arguments))


def killed_at_the_gate(folder: Path, *arguments: str) -> RunRecord:
    """Start a command, kill it while the second plan waits at the gate: the run that is on record."""
    (folder / "waiting").unlink(missing_ok=True)
    before = {one.id for one in load().roots}
    with subprocess.Popen([sys.executable, "-m", "rlm.cli", *arguments], stderr=subprocess.PIPE) as process:
        until = time.monotonic() + 90
        try:
            while not _at_the_gate(before):
                assert time.monotonic() < until
                assert process.poll() is None
                time.sleep(0.05)
        finally:
            process.kill()
            process.communicate()
    (made,) = [one for one in load().roots if one.id not in before]
    assert made.ending == "unfinished"
    return made


def _at_the_gate(before: set[str]) -> bool:
    fresh = [one for one in load().roots if one.id not in before]
    return any(call.name == "gate" for one in fresh for child in one.children for call in child.calls)


@pytest.mark.kills
def test_a_loop_that_is_killed_twice_goes_on_in_the_midst_of_its_plan(folder: Path) -> None:
    first = killed_at_the_gate(folder, "run", "task.yaml")
    second = killed_at_the_gate(folder, "resume", first.id)
    (folder / "open").touch()
    done = run("resume", second.id, "--json")
    assert done.exit_code == 0, done.output
    result = json.loads(done.stdout)
    assert (result["outputs"], result["plan"]["loop_id"]) == ({"answer": 7}, first.id)
    assert [one["name"] for one in result["plan"]["rejected"]] == ["guess"]
    # Nothing was asked twice, and what was asked is counted once: the script has three replies.
    assert result["usage"]["model_calls"] == 3
    asked = [call for one in load() for call in one.model_calls if not call.past]
    assert result["usage"]["tokens_in"] == sum(call.tokens_in for call in asked)
    assert result["usage"]["tokens_out"] == sum(call.tokens_out for call in asked)
    # The plan's own run went on, from the run of it that was killed.
    plan_runs = [one for one in load() if one.task == "plan: count them"]
    assert [one.resumed_from for one in plan_runs] == [plan_runs[1].id, plan_runs[2].id, None]
    assert [len(one.iterations) for one in plan_runs] == [2, 2, 2]


def test_the_runs_of_plans_are_run_again_and_taken_another_way(folder: Path) -> None:
    (folder / "open").touch()
    done = json.loads(run("run", "task.yaml", "--json").stdout)
    loop, rejected = done["run_id"], done["plan"]["rejected"][0]["run_id"]
    again = run("replay", loop, "--json")
    assert again.exit_code == 0, again.output
    assert json.loads(again.stdout)["run"] == done["plan"]["run_id"]
    assert f"using run {done['plan']['run_id']}, of the plan that answered" in again.stderr
    notebook = run("runs", "export", loop, "--to", "ipynb", "-o", "-")
    assert "first = 3" in notebook.stdout
    other = run("replay", rejected, "--json")
    assert (other.exit_code, json.loads(other.stdout)["now"]["outputs"]) == (0, {"answer": 1})

    script = json.dumps({"main": [*REPLIES, cell("SUBMIT(answer=first + 5)")]})
    (folder / "replies.yaml").write_text(script)
    forked = run("fork", loop, "--at", "1", "--json")
    assert forked.exit_code == 0, forked.output
    made = load().run(json.loads(forked.stdout)["run_id"])
    assert (made.parent, made.beginning.get("loop_id")) == (None, None)  # a run of its own, without plans
    assert made.beginning["settings"]["guidance"] == "count them"
    refused = run("resume", rejected)
    assert refused.exit_code == 2
    assert f"is part of run {loop}" in refused.output


def test_a_loop_without_an_answer_has_no_run_to_run_again(folder: Path) -> None:
    (folder / "replies.yaml").write_text(json.dumps({"main": {"*": cell("SUBMIT(answer=2)")}}))
    failed = json.loads(run("run", "task.yaml", "--json").stdout)
    refused = run("replay", failed["run_id"])
    assert refused.exit_code == 2
    assert f"rlm runs show {failed['run_id']}" in refused.output
    shown = run("runs", "show", failed["run_id"]).stdout
    assert "plan 1 rejected: guess" in shown
    assert "invariant: wanted answer == 7, was not true" in shown
    assert "No operator has answered yet" in " ".join(shown.split())


# Python --------------------------------------------------------------------------------------------------------------


@pytest.fixture
def predict(pool: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Any]:
    import rlm as package

    monkeypatch.setenv("RLM_HOME", str(tmp_path / "home"))
    return lambda **options: package.Predict("question: str -> answer: int", pool=pool, **options)


def test_predict_takes_plans(predict: Callable[..., Any]) -> None:
    import dspy

    from rlm.models.scripted import scripted_lm
    from rlm.plans import Plan, PlanSettings, Thresholds

    model = scripted_lm({"guess": cell("SUBMIT(answer=1)"), "count": cell("SUBMIT(answer=7)")})
    strong = scripted_lm({"*": cell("SUBMIT(answer=8)")})
    even = Thresholds(invariants=("answer % 2 == 0",))
    with dspy.context(lm=model):
        prediction = predict(plans=["guess", "count"])(question="?")
        assert (prediction.answer, prediction.result.plan["name"]) == (1, "guess")
        plans = (Plan("guess"), Plan("count"), Plan("ask somebody strong", model="strong"))
        settings = PlanSettings(plans, count=3, thresholds=even, models={"strong": strong})
        result = predict(plans=settings).run_with_fallback(question="?")
    assert (result.outputs.answer, result.plan["name"]) == (8, "ask somebody strong")
    assert [one["name"] for one in result.plan["rejected"]] == ["guess", "count"]
    assert len(strong._engine_spec.requests) == 1


def test_predict_asks_for_so_many_plans(predict: Callable[..., Any]) -> None:
    import dspy

    from rlm.models.scripted import scripted_lm

    said = [{"name": one, "approach": one, "cost": 0.1, "risk": 0.1, "fit": 0.9} for one in ("add up", "look it up")]
    with dspy.context(lm=scripted_lm([json.dumps(said), cell("SUBMIT(answer=3)")])):
        assert predict(plans=2)(question="?").answer == 3


@pytest.mark.parametrize(
    ("plans", "said"),
    [("guess", "not str"), (True, "not bool"), (0, "count must be 1 or more"), ([""], "needs an approach")],
)
def test_predict_refuses_what_are_no_plans(predict: Callable[..., Any], plans: Any, said: str) -> None:
    with pytest.raises((TypeError, ValueError), match=said):
        predict(plans=plans)


def test_predict_refuses_a_model_that_nobody_named(predict: Callable[..., Any]) -> None:
    import dspy

    from rlm.models.scripted import scripted_lm
    from rlm.plans import PlanSettings

    with dspy.context(lm=scripted_lm([])), pytest.raises(ValueError, match="planner of the plans: there is no model"):
        predict(plans=PlanSettings(planner="strong")).run_with_fallback(question="?")


def test_predict_goes_on_with_a_loop_that_an_operator_has_answered(predict: Callable[..., Any], tmp_path: Path) -> None:
    import dspy

    from rlm.models.scripted import scripted_lm
    from rlm.plans import Plan, PlanLogs, PlanSettings, Thresholds
    from rlm.plans.operator import OperatorAnswer

    settings = PlanSettings(
        (Plan("guess"),), count=1, thresholds=Thresholds(invariants=("answer == 7",)), logs=tmp_path / "logs"
    )
    with dspy.context(lm=scripted_lm([cell("SUBMIT(answer=1)")])):
        first = predict(plans=settings).run_with_fallback(question="?")
        (escalation,) = first.plan["escalations"]
        PlanLogs(tmp_path / "logs").answers.add(OperatorAnswer(escalation, "approve"))
        with pytest.raises(ValueError, match="was made with plans"):
            predict().resume(first.run_id)
        again = predict(plans=settings).resume(first.run_id)
    assert (again.outputs.answer, again.plan["accepted_by"], again.usage.model_calls) == (1, "operator", 1)
