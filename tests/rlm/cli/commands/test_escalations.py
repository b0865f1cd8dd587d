"""`rlm escalations` and `rlm run` with plans, in this process; and what a task file may say about plans."""

from __future__ import annotations

import io
import json
import sys
import textwrap
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result
from rich.console import Console

from rlm import traces
from rlm.cli import rlm
from rlm.cli.pages.result import result_page
from rlm.cli.progress.lines import LineView
from rlm.cli.progress.live import LiveView
from rlm.cli.progress.state import RunState
from rlm.events import Event
from rlm.plans import Plan, PlanLogs
from rlm.plans.candidates import compare
from rlm.plans.plan import CandidateSet, FailedThreshold, Rejection, Scores, Weights
from rlm.results import Failed
from rlm.signatures import Signature
from rlm.tasks import TaskError, load
from tests.support.events import make_event
from tests.support.repository import EXAMPLES

HOSTILE = "\x1b[2J\u202e[bold]x[/bold]"


def run(*arguments: str) -> Result:
    return CliRunner().invoke(rlm, list(arguments))


@pytest.fixture
def rejected(tmp_path: Path) -> tuple[PlanLogs, CandidateSet]:
    """A loop all of whose plans are rejected; one of them had an answer."""
    logs = PlanLogs(tmp_path / "plans")
    plans = [Plan(f"first {HOSTILE}", plan_id="aaa1"), Plan("second", plan_id="bbb2")]
    candidates = compare("loop_0052", 1, plans, Weights())
    logs.add_comparison(candidates, Signature.of("q -> answer: int, note: str").output_schema())
    for one, outputs in zip(candidates.candidates, ({"answer": 3, "note": HOSTILE}, None), strict=True):
        failed = (FailedThreshold("invariant", "answer > 5", f"not true {HOSTILE}"),)
        about = ("loop_0052", candidates.comparison_set_id, 1, one.rank, one.plan)
        logs.add_rejection(Rejection(*about, failed, "run1", {"outputs": outputs}))
    return logs, candidates


def test_check_is_the_integration_script(rejected: tuple[PlanLogs, CandidateSet]) -> None:
    folder = str(rejected[0].folder)
    none = run("escalations", "check", "loop_0001", "--logs", folder)
    assert (none.exit_code, none.stdout) == (1, "")
    found = run("escalations", "check", "loop_0052", "--logs", folder)
    assert found.exit_code == 0
    assert "Escalated as" in found.stdout
    assert "operator_review_required; Fallback triggered" in found.stdout
    again = run("escalations", "check", "loop_0052", "--logs", folder, "--json")
    assert again.exit_code == 0
    assert [json.loads(again.stdout)] == rejected[0].escalations.read()


def test_check_by_configuration(rejected: tuple[PlanLogs, CandidateSet]) -> None:
    folder = str(rejected[0].folder)
    bad = run("escalations", "check", "loop_0052", "--logs", folder, "--strategy", "pray")
    assert bad.exit_code == 2
    assert "no fallback strategy 'pray'" in bad.output
    off = run("escalations", "check", "loop_0052", "--logs", folder, "--no-fallback", "--json")
    assert json.loads(off.stdout)["recommended_action"] == "no_further_action_defined"


def test_list_show_and_answer(rejected: tuple[PlanLogs, CandidateSet]) -> None:
    logs, _ = rejected
    folder = ("--logs", str(logs.folder))
    run("escalations", "check", "loop_0052", *folder)
    (entry,) = logs.escalations.read()
    prefix = entry["log_entry_id"][:6]
    assert "open" in run("escalations", "list", *folder).stdout
    shown = run("escalations", "show", prefix, *folder).stdout
    assert "invariant: wanted answer > 5, was not true" in shown
    assert "\x1b" not in shown
    assert "\u202e" not in shown
    assert "answer: none yet" in shown
    assert run("escalations", "approve", prefix, "--plan", "bbb", *folder).exit_code == 2  # it gave no answer
    said = run("escalations", "approve", prefix, "--plan", "aaa", "--note", "fine by me", *folder)
    assert said.exit_code == 0
    assert "rlm resume loop_0052" in said.output
    again = run("escalations", "reject", prefix, *folder)
    assert again.exit_code == 2
    assert "was answered with approve" in again.output
    assert "approve (operator) fine by me" in run("escalations", "show", prefix, *folder).stdout
    assert run("escalations", "list", "--open", *folder).stdout == ""
    (listed,) = run("escalations", "list", "--json", *folder).stdout.splitlines()
    assert json.loads(listed)["answer"]["plan_id"] == "aaa1"


def test_an_operators_own_answer_is_checked(rejected: tuple[PlanLogs, CandidateSet], tmp_path: Path) -> None:
    logs, _ = rejected
    folder = ("--logs", str(logs.folder))
    run("escalations", "check", "loop_0052", *folder)
    prefix = logs.escalations.read()[0]["log_entry_id"][:6]
    for text, said in (
        ("{", "is JSON"),
        ("[1]", "an object"),
        ('{"answer": 3}', "note"),
        ('{"answer": "x", "note": ""}', "not of type"),
        (f"@{tmp_path / 'none'}", "No such file"),
    ):
        refused = run("escalations", "approve", prefix, "--answer", text, *folder)
        assert refused.exit_code == 2
        assert said in refused.output
    assert logs.answers.log.read() == []
    assert run("escalations", "approve", prefix, "--answer", "{}", "--plan", "a", *folder).exit_code == 2
    (tmp_path / "own.json").write_text('{"answer": 7, "note": "by hand"}')
    assert run("escalations", "approve", prefix, "--answer", f"@{tmp_path / 'own.json'}", *folder).exit_code == 0
    (given,) = logs.answers.log.read()
    assert (given["answer"], given["outputs"]) == ("approve", {"answer": 7, "note": "by hand"})
    assert "by hand" in run("escalations", "show", prefix, *folder).stdout


def test_what_another_program_wrote_amiss_is_named_and_left_out(rejected: tuple[PlanLogs, CandidateSet]) -> None:
    logs, _ = rejected
    logs.escalations.path.write_text(f'[{{"log_entry_id": "{HOSTILE[-3:]}"}}]')
    (entry, *_) = logs.rejections.read()
    logs.rejections.append({**entry, "plan_id": "aaa1", "failed_thresholds": ["too dear", {"metric": "x"}]})
    found = run("escalations", "check", "loop_0052", "--logs", str(logs.folder))
    assert found.exit_code == 0
    listed = run("escalations", "list", "--logs", str(logs.folder))
    assert listed.stdout.count("loop_0052") == 1
    assert "entry 0 is left out" in listed.stderr
    shown = run("escalations", "show", "", "--logs", str(logs.folder))
    assert shown.exit_code == 0, shown.output
    assert "too dear" in shown.stdout


def test_what_cannot_be_found_or_read_is_said(tmp_path: Path) -> None:
    missing = run("escalations", "show", "abc", "--logs", str(tmp_path))
    assert missing.exit_code == 2
    assert "no escalation has an id that begins with 'abc'" in missing.output
    (tmp_path / "plan_escalation_log.json").write_text("{")
    broken = run("escalations", "list", "--logs", str(tmp_path))
    assert broken.exit_code == 2
    assert "not JSON" in broken.output


def test_rlm_run_shows_candidates_verdicts_and_reasons(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("RLM_HOME", str(tmp_path))
    done = run("run", str(EXAMPLES / "plans" / "task.yaml"))
    assert done.exit_code == 0, done.output
    progress, answer = done.stderr, done.stdout
    assert "1. 0.65  read a part and scale up" in progress
    assert "plan 1 rejected: read a part and scale up" in progress
    assert "invariant: wanted sum(by_port.values()) == arrivals" in progress
    assert "extracted: wanted a submitted answer" in progress
    assert "plans, round 2" in progress
    assert "plan accepted: match every arrival" in progress
    assert "arrivals  389" in answer
    assert "plan        match every arrival" in answer
    assert answer.count("rejected  ") == 2
    (kept,) = [one for one in traces.load().roots if one.task]
    shown = run("runs", "show", kept.id).stdout
    assert "plan 2 rejected: let a smaller model count" in shown
    assert "plan: let a sm" in shown  # in the list of its child runs
    names = {path.name for path in (tmp_path / "plans").glob("*.json")}
    assert names == {
        "multi_plan_comparison.json",
        "loop_plan_selection_log.json",
        "plan_rejection_log.json",
        "plan_escalation_log.json",
    }


# Views -------------------------------------------------------------------------------------------------------------


def told() -> list[Event]:
    """A loop whose plan runs and is rejected, with hostile names."""
    candidates = compare("loop1", 1, [Plan(HOSTILE, scores=Scores(0, 0, 1)), Plan("other")], Weights(), [HOSTILE])
    plan = candidates.candidates[0].plan.to_dict()
    failed = [{"metric": HOSTILE, "threshold": 0.5, "actual": HOSTILE}]
    escalated = {"log_entry_id": "e1", "escalation_reason": HOSTILE, "fallback_details": HOSTILE}
    return [
        make_event("run_started", "loop1", {}),
        make_event("plans_compared", "loop1", candidates.to_dict()),
        make_event("plan_selected", "loop1", {"rank": 1, "plan": plan}),
        make_event("run_started", "p1", {"parent": "loop1"}),
        make_event("run_started", "p2", {"parent": "loop1"}),
        make_event("iteration_started", "p1", {"iteration": 1}),
        make_event("cell_started", "p2", {"iteration": 1, "code": "unseen"}),
        make_event("cell_started", "p1", {"iteration": 1, "code": "seen"}),
        make_event("cell_ended", "p1", {"iteration": 1, "output": "three", "success": True, "seconds": 0.1}),
        make_event("run_ended", "p1", {"ending": "Submitted"}),
        make_event("plan_rejected", "loop1", {"rank": 1, "name": HOSTILE, "failed_thresholds": failed}),
        make_event("plan_escalated", "loop1", escalated),
        make_event(
            "operator_awaited",
            "loop1",
            {"escalation_id": "e1", "timeout": 90.0, "default": "reject", "logs": f"/logs {HOSTILE}"},
        ),
        make_event("escalation_answered", "loop1", {"answer": "approve", "answered_by": "timeout"}),
        make_event("plan_answered", "loop1", {"name": HOSTILE, "accepted_by": "timeout"}),
        make_event("run_ended", "loop1", {"ending": "Submitted"}),
    ]


@pytest.mark.parametrize("kind", ["lines", "live"])
def test_views_show_plans_and_obey_nothing_in_them(kind: str) -> None:
    stream, state = io.StringIO(), RunState()
    console = Console(file=stream, width=120)
    view: Any = LineView(stream, state) if kind == "lines" else LiveView(console, state)
    for event in told():
        view.observe(event)
    text = stream.getvalue()
    assert "1. 1.00" in text
    assert "2. 0.50  other" in text
    assert "left out:" in text
    assert "wanted 0.5, was" in text
    assert "three" in text
    assert "escalated as e1" in text
    assert "waiting for an operator, 1:30 at most; then: reject" in text
    assert "rlm escalations show e1 --logs /logs" in text
    assert "nobody answered in time" in text
    assert "\x1b" not in text
    assert "\u202e" not in text
    assert "[bold]x[/bold]" in text
    assert state.ended
    assert [one.code for one in state.iterations] == ["seen"]


def test_the_ending_of_a_failure_names_what_was_rejected() -> None:
    stream = io.StringIO()
    failed = [{"metric": "confidence", "threshold": 0.8, "actual": 0.41}]
    plan = {"name": None, "rejected": [{"name": HOSTILE, "failed_thresholds": failed}], "escalations": ["e1"]}
    page = result_page(Failed("none", plan=plan), notice=None)
    Console(file=stream, width=120).print(page)
    assert "confidence: wanted 0.8, was 0.41" in stream.getvalue()
    assert "\x1b" not in stream.getvalue()


# Task files --------------------------------------------------------------------------------------------------------

GOOD = """\
signature: "doc: str -> answer: int"
inputs: {doc: some text}
models: openai/gpt-5-mini
tools: [kit:look_up]
"""


@pytest.fixture
def write(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[str], str]]:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    Path("kit.py").write_text(
        "def look_up(x): pass\ndef propose(request): return ['x']\ndef fine(outputs): return True\n"
    )

    def write(plans: str) -> str:
        Path("task.yaml").write_text(GOOD + "plans:\n" + textwrap.indent(textwrap.dedent(plans), "  "))
        return "task.yaml"

    yield write
    sys.modules.pop("kit", None)


def test_every_key_arrives_in_the_settings(write: Callable[[str], str], tmp_path: Path) -> None:
    task = load(
        write(
            """\
            count: 4
            candidates:
              - just do it
              - {approach: think first, name: slow, model: strong, budget_share: 0.5, tools: [look_up],
                 temperature: 0.3, scores: {cost: 0.1, risk: 0.2, fit: 0.3}}
            function: kit:propose
            planner: strong
            weights: {cost: 3}
            parallel: 2
            governance: {min_confidence: 0.5, accept_extracted: false, max_cost_usd: 1, max_seconds: 2m,
                         invariants: [answer > 0], function: kit:fine, judge: {question: 'Is it?', model: strong}}
            fallback: {fallback_enabled: true, default_fallback_strategy: attempt_regeneration_simple, rounds: 3}
            operator: {command: [notify, me], webhook: "http://127.0.0.1:1/x", timeout: 10m, default: approve}
            models: {strong: openai/gpt-5}
            stronger: strong
            logs: here
            """
        )
    )
    assert task.plans is not None
    settings = task.plans.ready(task.path)
    first, second = settings.plans
    assert (first.approach, first.model, first.tools) == ("just do it", None, None)
    assert (second.name, second.model, second.budget_share, second.tools) == ("slow", "strong", 0.5, ("look_up",))
    assert (second.temperature, second.scores) == (0.3, Scores(0.1, 0.2, 0.3))
    assert (settings.count, settings.parallel, settings.planner, settings.stronger) == (4, 2, "strong", "strong")
    assert settings.weights == Weights(3, 1, 1)
    governance = settings.thresholds
    assert (governance.min_confidence, governance.accept_extracted) == (0.5, False)
    assert (governance.max_cost_usd, governance.max_seconds, governance.invariants) == (1, 120.0, ("answer > 0",))
    assert governance.function is not None
    assert governance.function.__name__ == "fine"
    assert settings.propose is not None
    assert settings.propose.__name__ == "propose"
    assert governance.judge is not None
    assert (governance.judge.question, governance.judge.model) == ("Is it?", "strong")
    assert (settings.fallback.enabled, settings.fallback.strategy) == (True, "attempt_regeneration")
    assert settings.fallback.rounds == 3
    operator = settings.operator
    assert (operator.command, operator.webhook) == (("notify", "me"), "http://127.0.0.1:1/x")
    assert (operator.timeout, operator.default) == (600.0, "approve")
    assert task.plans.models["strong"].model == "openai/gpt-5"
    assert settings.logs == tmp_path / "here"


@pytest.mark.parametrize(
    ("plans", "said"),
    [
        ("count: 0", "task.yaml:6:10: plans.count"),
        ("weights: {cost: -1}", "task.yaml:6:19: plans.weights.cost"),
        ("weights: {cost: 0, risk: 0, fit: 0}", "one of the weights must be more than 0"),
        ("candidates: [{approach: x, budget_share: 2}]", "task.yaml:6:44: plans.candidates[0].budget_share"),
        (
            "candidates: [{approach: x, model: big}]",
            "task.yaml:6:37: plans.candidates[0].model: there is no model 'big'",
        ),
        ("candidates: [{approach: x, tools: [look]}]", "plans.candidates[0].tools[0]: the task has no tool 'look'"),
        ("candidates: [{name: x}]", "plans.candidates[0].approach is missing"),
        ("governance: {invariants: [doc == 1]}", "plans.governance.invariants[0]: 'doc' is an input"),
        ("governance: {invariants: [answer >]}", "not a Python expression"),
        ("governance: {function: kit:nothing}", "plans.governance.function"),
        ("governance: {min_confidence: 2}", "task.yaml:6:32: plans.governance.min_confidence"),
        ("function: nothing:here", "plans.function: there is no module 'nothing'"),
        ("fallback: {default_fallback_strategy: pray}", "plans.fallback.default_fallback_strategy"),
        ("fallback: {strategie: pray}", "plans.fallback.strategie is not known"),
        ("operator: {default: retry}", "plans.operator.default"),
        ("operator: {webhook: 'ftp://x'}", "a webhook begins with http"),
        ("operator: {webhook: 'http://u:p@x'}", "user and password is refused"),
        ("stronger: big", "task.yaml:6:13: plans.stronger: there is no model 'big'"),
        ("models: {strong: {model: openai/x, api_key: abc}}", "a key never belongs in the file"),
        ("weight: {cost: 1}", "plans.weight is not known; did you mean weights?"),
    ],
)
def test_what_is_wrong_is_said_with_its_place(write: Callable[[str], str], plans: str, said: str) -> None:
    with pytest.raises(TaskError) as caught:
        load(write(plans))
    assert said in str(caught.value)
    assert "abc" not in str(caught.value)


def test_the_example_is_fine() -> None:
    task = load(EXAMPLES / "plans" / "task.yaml")
    assert task.plans is not None
    assert task.plans.settings.count == 2
