"""Operators: told by a command or a webhook, they answer through the log; a run that waits, or starts again, obeys."""

from __future__ import annotations

import asyncio
import dataclasses
import json
import subprocess
import sys
import textwrap
import threading
import time
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from rlm.budgets import FallbackTrigger
from rlm.cli import rlm
from rlm.plans import FallbackConfig, JsonLogError, Operator, Plan, PlanLogs, Scores, Thresholds
from rlm.plans.operator import AlreadyAnswered, OperatorAnswer, OperatorAnswers
from rlm.results import Failed, Submitted
from tests.support.plan_loops import Loop
from tests.support.replies import cell

MakeLoop = Callable[..., Loop]
PLANNING = "You plan how a task is to be done"
SEVEN = Thresholds(invariants=("answer == 7",))
PLANS = (Plan("guess", scores=Scores(0, 0, 1)), Plan("count"))
WRONG = {
    PLANNING: '[{"name": "n", "approach": "do as the operator says", "cost": 0, "risk": 0, "fit": 1}]',
    "guess": cell("SUBMIT(answer=1)"),
    "count": cell("SUBMIT(answer=2)"),
    "do as": cell("SUBMIT(answer=7)"),
}


async def escalation(logs: PlanLogs) -> dict[str, Any]:
    """The escalation, as soon as it is on record."""
    while not (found := logs.escalations.read()):
        await asyncio.sleep(0.02)
    return found[-1]


async def answered_while_waiting(loop: Loop, **answer: Any) -> Any:
    settings = loop.settings(plans=PLANS, count=2, thresholds=SEVEN, operator=Operator(timeout=90.0))
    running = asyncio.create_task(loop.run(settings))
    entry = await escalation(loop.logs)
    loop.logs.answers.add(OperatorAnswer(entry["log_entry_id"], **answer))
    return await running


async def test_a_waiting_run_takes_the_answer(make_loop: MakeLoop) -> None:
    result = await answered_while_waiting(loop := make_loop(WRONG), answer="approve")
    assert isinstance(result, Submitted)
    assert (result.outputs.answer, result.plan["name"], result.plan["accepted_by"]) == (1, "guess", "operator")
    assert len(result.plan["rejected"]) == 2
    (told,) = loop.kinds("escalation_answered")
    assert (told.data["answer"], told.data["answered_by"]) == ("approve", "operator")


async def test_an_operator_can_choose_whose_answer_passes(make_loop: MakeLoop) -> None:
    result = await answered_while_waiting(make_loop(WRONG), answer="approve", plan_id=PLANS[1].plan_id)
    assert (result.outputs.answer, result.plan["name"]) == (2, "count")


async def test_a_rejection_of_the_operator_ends_the_run(make_loop: MakeLoop) -> None:
    result = await answered_while_waiting(make_loop(WRONG), answer="reject", note="not this year")
    assert isinstance(result, Failed)
    assert "not this year" in result.reason
    assert result.partial_outputs == {"answer": 1}


async def test_a_retry_makes_new_plans_with_the_operators_words(make_loop: MakeLoop) -> None:
    result = await answered_while_waiting(loop := make_loop(WRONG), answer="retry", note="it is seven")
    assert result.outputs.answer == 7
    assert any("An operator says: it is seven" in one for one in loop.asked())


async def test_an_operator_can_give_an_answer_of_their_own(make_loop: MakeLoop) -> None:
    result = await answered_while_waiting(make_loop(WRONG), answer="approve", outputs={"answer": 7})
    assert isinstance(result, Submitted)
    assert (result.outputs.answer, result.plan["name"], result.plan["accepted_by"]) == (7, None, "operator")
    assert len(result.plan["rejected"]) == 2


async def test_an_operators_own_answer_has_to_fit_the_signature(make_loop: MakeLoop) -> None:
    result = await answered_while_waiting(make_loop(WRONG), answer="approve", outputs={"answer": "seven"})
    assert isinstance(result, Failed)
    assert "does not fit the signature" in result.reason
    assert result.partial_outputs == {"answer": 1}


async def test_a_log_of_answers_that_is_half_written_is_waited_for(make_loop: MakeLoop) -> None:
    loop = make_loop(WRONG)
    settings = loop.settings(plans=PLANS, count=2, thresholds=SEVEN, operator=Operator(timeout=90.0))
    running = asyncio.create_task(loop.run(settings))
    entry = await escalation(loop.logs)
    path = loop.logs.answers.log.path
    whole = json.dumps([{"escalation_id": entry["log_entry_id"], "answer": "approve"}])
    path.write_text(whole[:20])  # by hand, and not at once
    while not any(one.kind == "plan_escalated" for one in loop.events):
        await asyncio.sleep(0.01)
    done, _ = await asyncio.wait([running], timeout=0.5)
    assert not done
    path.write_text(whole)
    assert (await running).outputs.answer == 1


@pytest.mark.parametrize("entry", [{"answer": "maybe"}, {"answer": "approve", "outputs": [7]}, {}])
def test_an_answer_that_means_nothing_is_an_error(tmp_path: Path, entry: dict[str, Any]) -> None:
    answers = OperatorAnswers(tmp_path / "answers.json")
    answers.log.append({"escalation_id": "e1", **entry})
    with pytest.raises(JsonLogError, match="an answer to e1 cannot be read"):
        answers.to("e1")


async def test_an_operator_is_asked_where_nothing_was_to_follow_before(make_loop: MakeLoop) -> None:
    loop = make_loop(WRONG)
    off = loop.settings(plans=PLANS, count=2, thresholds=SEVEN, fallback=FallbackConfig(enabled=False))
    first = await loop.run(off)
    assert "No fallback is configured" in first.reason
    settings = dataclasses.replace(off, fallback=FallbackConfig(), operator=Operator(default="approve"))
    result = await loop.run(settings, loop_id=first.plan["loop_id"])
    assert (result.outputs.answer, result.plan["accepted_by"]) == (1, "timeout")
    (entry,) = loop.logs.escalations.read()  # the same one, handed on
    assert (entry["recommended_action"], entry["operator_alert_flag"]) == ("operator_review_required", True)
    assert entry["fallback_triggered"]


async def test_waiting_costs_no_time_of_the_budget(make_loop: MakeLoop) -> None:
    result = await answered_while_waiting(loop := make_loop(WRONG), answer="retry")
    waited = loop.kinds("escalation_answered")[0].time - loop.kinds("plan_escalated")[0].time
    whole = loop.kinds("run_ended")[-1].time - loop.kinds("run_started")[0].time
    assert result.usage.seconds <= whole - waited + 0.5


async def test_without_an_answer_in_time_the_default_is_taken(make_loop: MakeLoop) -> None:
    loop = make_loop(WRONG)
    operator = Operator(timeout=0.1, default="approve")
    result = await loop.run(loop.settings(plans=PLANS, count=2, thresholds=SEVEN, operator=operator))
    assert (result.outputs.answer, result.plan["accepted_by"]) == (1, "timeout")
    result = await loop.run(loop.settings(plans=PLANS, count=2, thresholds=SEVEN))
    assert isinstance(result, Failed)
    assert "No operator has answered yet" in result.reason
    assert f"rlm escalations show {result.plan['escalations'][0]}" in result.reason


async def test_an_answer_that_comes_late_is_honoured_when_the_loop_goes_on(make_loop: MakeLoop) -> None:
    loop = make_loop(WRONG)
    settings = loop.settings(plans=PLANS, count=2, thresholds=SEVEN)
    first = await loop.run(settings)
    assert isinstance(first, Failed)
    asked = len(loop.asked())
    loop.logs.answers.add(OperatorAnswer(first.plan["escalations"][0], "approve"))
    again = await loop.run(settings, loop_id=first.plan["loop_id"])
    assert (again.outputs.answer, again.plan["accepted_by"]) == (1, "operator")
    assert len(loop.asked()) == asked  # nothing was run or asked again
    assert len(loop.logs.escalations.read()) == 1


async def test_an_operator_who_was_not_told_yet_is_told_after_a_restart(make_loop: MakeLoop, tmp_path: Path) -> None:
    kept = tmp_path / "told"
    code = f"open({str(kept)!r}, 'a').write('told;')"
    loop = make_loop(WRONG)
    settings = loop.settings(plans=PLANS, count=2, thresholds=SEVEN, operator=Operator((sys.executable, "-c", code)))
    first = await loop.run(settings)
    assert kept.read_text() == "told;"
    await loop.run(settings, loop_id=first.plan["loop_id"])
    assert kept.read_text() == "told;"  # once is enough
    entry_id = first.plan["escalations"][0]
    # As if the process had been killed between writing the entry and telling anybody.
    loop.logs.escalations.amend("log_entry_id", entry_id, {"fallback_triggered": False, "fallback_details": None})
    await loop.run(settings, loop_id=first.plan["loop_id"])
    assert kept.read_text() == "told;told;"
    assert [one["fallback_triggered"] for one in loop.logs.escalations.read()] == [True]


async def test_a_loop_that_was_stopped_tries_only_what_is_left(make_loop: MakeLoop) -> None:
    loop = make_loop(WRONG)
    settings = loop.settings(plans=PLANS, count=2, thresholds=Thresholds(invariants=("answer == 2",)))
    running = asyncio.create_task(loop.run(settings))
    while not loop.logs.rejections.read():
        await asyncio.sleep(0.01)
    running.cancel()  # after the first plan was rejected
    with pytest.raises(asyncio.CancelledError):
        await running
    loop_id = loop.logs.rejections.read()[0]["loop_id"]
    guesses = sum("> guess" in one for one in loop.asked())
    result = await loop.run(settings, loop_id=loop_id)
    assert (result.outputs.answer, result.plan["loop_id"]) == (2, loop_id)
    assert [one["name"] for one in result.plan["rejected"]] == ["guess"]
    assert sum("> guess" in one for one in loop.asked()) == guesses == 1


async def test_an_approval_without_any_answer_is_a_failure(make_loop: MakeLoop) -> None:
    loop = make_loop({"*": "no code"}, trigger=FallbackTrigger(max_iterations=1))
    result = await loop.run(
        loop.settings(plans=(Plan("guess"),), count=1, thresholds=SEVEN, operator=Operator(default="approve"))
    )
    assert isinstance(result, Failed)
    assert "no rejected plan has one" in result.reason


def test_an_operators_first_answer_counts(tmp_path: Path) -> None:
    answers = OperatorAnswers(tmp_path / "answers.json")
    assert answers.to("e1") is None
    answers.add(OperatorAnswer("e1", "reject", answered_by="timeout"))
    answers.add(OperatorAnswer("e1", "approve"))  # after the default, an operator still can
    with pytest.raises(AlreadyAnswered, match="approve"):
        answers.add(OperatorAnswer("e1", "reject"))
    found = answers.to("e1")
    assert found is not None
    assert (found.answer, found.answered_by) == ("approve", "operator")
    late = answers.add(OperatorAnswer("e1", "reject", answered_by="timeout"))
    assert late.answer == "reject"  # the default was taken before, and is not recorded twice
    assert len(answers.log.read()) == 2


# Hooks -------------------------------------------------------------------------------------------------------------


@pytest.fixture
def webhook() -> Iterator[tuple[str, list[dict[str, Any]]]]:
    """A server on loopback, and what it was sent."""
    got: list[dict[str, Any]] = []

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            got.append(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))
            self.send_response(500 if self.path == "/broken" else 204)
            self.end_headers()

        def log_message(self, *args: Any) -> None:
            pass

    server = HTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}", got
    server.shutdown()
    thread.join()
    server.server_close()


async def test_an_operator_is_told_by_command_and_webhook(
    make_loop: MakeLoop, tmp_path: Path, webhook: tuple[str, list[dict[str, Any]]]
) -> None:
    url, got = webhook
    kept = tmp_path / "told.json"
    code = f"import sys; open({str(kept)!r}, 'w').write(sys.stdin.read())"
    plans = (Plan("; rm -rf / $(reboot) `id` \x1b[2J guess", scores=Scores(0, 0, 1)), Plan("count"))
    loop = make_loop(WRONG)
    operator = Operator((sys.executable, "-c", code), f"{url}/secret-path")
    await loop.run(loop.settings(plans=plans, count=2, thresholds=SEVEN, operator=operator))
    (entry,) = loop.logs.escalations.read()
    told = json.loads(kept.read_text())
    assert got == [told]
    assert told["escalation"]["log_entry_id"] == entry["log_entry_id"]
    assert [one["plan_id"] for one in told["rejected"]] == [one.plan_id for one in plans]
    assert told["answer_with"][0].startswith(f"rlm escalations approve {entry['log_entry_id']}")
    assert "was run" in entry["fallback_details"]
    assert "127.0.0.1 was called" in entry["fallback_details"]
    assert "secret-path" not in entry["fallback_details"]


async def test_hooks_that_fail_do_not_break_the_run(
    make_loop: MakeLoop, webhook: tuple[str, list[dict[str, Any]]]
) -> None:
    loop = make_loop(WRONG)
    operator = Operator(("/does/not/exist",), f"{webhook[0]}/broken", default="approve")
    result = await loop.run(loop.settings(plans=PLANS, count=2, thresholds=SEVEN, operator=operator))
    assert result.outputs.answer == 1
    (entry,) = loop.logs.escalations.read()
    assert "The command exist failed: No such file" in entry["fallback_details"]
    assert "failed: it answered 500" in entry["fallback_details"]


# The command line, and a restart -----------------------------------------------------------------------------------

TASK = """\
signature: "question: str -> answer: int"
inputs: {question: "How many?"}
models: {scripted: replies.yaml}
plans:
  candidates: [guess]
  governance: {invariants: [answer == 7]}
  operator: {timeout: 10m}
  logs: logs
"""


def test_an_operators_answer_is_honoured_after_a_restart(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("RLM_HOME", str(tmp_path / "home"))
    (tmp_path / "task.yaml").write_text(TASK)
    (tmp_path / "replies.yaml").write_text(f"main:\n  - |\n{textwrap.indent(cell('SUBMIT(answer=1)'), '    ')}\n")
    command = [sys.executable, "-m", "rlm.cli", "run", "task.yaml"]
    logs = PlanLogs(tmp_path / "logs")
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as waiting:
        until = time.monotonic() + 90
        try:
            while not (entries := logs.escalations.read()) or not entries[0]["fallback_triggered"]:
                assert time.monotonic() < until
                assert waiting.poll() is None
                time.sleep(0.05)
        finally:
            waiting.kill()
            waiting.communicate()
    (entry,) = entries
    listed = CliRunner().invoke(rlm, ["escalations", "list", "--open", "--logs", "logs"])
    assert entry["log_entry_id"] in listed.stdout
    said = CliRunner().invoke(rlm, ["escalations", "approve", entry["log_entry_id"][:8], "--logs", "logs"])
    assert said.exit_code == 0, said.output
    resumed = CliRunner().invoke(rlm, ["resume", entry["loop_id"], "--json"])
    assert resumed.exit_code == 0, resumed.output
    result = json.loads(resumed.stdout)
    assert (result["outputs"], result["plan"]["accepted_by"]) == ({"answer": 1}, "operator")
    assert result["plan"]["loop_id"] == entry["loop_id"]
