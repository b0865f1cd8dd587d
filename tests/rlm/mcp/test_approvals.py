"""Calls that may change something: shown once, answered once, by whoever is asked."""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import rlm
from rlm.events import ApprovalAnswered, ApprovalRequested, Event
from rlm.mcp.approvals import ApprovalAlreadyAnswered, ApprovalAnswer, ApprovalLogs, ApprovalRequest, Approvals
from tests.support.mcp_runs import run_cells, servers

pytest.importorskip("mcp")

CREATE_ONE = "SUBMIT(answer=t_create('one'))"
REFUSED = "try:\n    t_create('one')\nexcept Exception as error:\n    SUBMIT(answer=type(error).__name__)"


@pytest.fixture
def things(tmp_path: Path) -> Path:
    return tmp_path / "things"


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("RLM_HOME", str(tmp_path / "home"))
    return tmp_path / "home"


def made(things: Path) -> list[str]:
    """Return the titles of the things that the server has made."""
    return [json.loads(line)["title"] for line in things.read_text().splitlines()] if things.exists() else []


def test_a_tool_that_writes_is_refused_where_nobody_can_be_asked(things: Path) -> None:
    with servers("honest", str(things)) as mcp:
        result = run_cells(mcp, ["t_create('one')", REFUSED])
    assert result.outputs.answer == "NotApproved"
    assert "`allow: [create]` in the task file" in result.history[0].output
    assert made(things) == []


@pytest.mark.parametrize("allow", [("create",), ("*",)])
def test_a_tool_that_is_allowed_is_called(things: Path, allow: tuple[str, ...]) -> None:
    with servers("honest", str(things), allow=allow) as mcp:
        assert run_cells(mcp, [CREATE_ONE]).outputs.answer == "created one"
    assert made(things) == ["one"]


def test_what_a_server_says_of_a_tool_need_not_be_believed(things: Path) -> None:
    with servers(trust_annotations=False) as mcp:
        result = run_cells(mcp, ["t_echo('a')", "SUBMIT(answer='')"])
    assert "NotApproved" in result.history[0].output


def test_fifty_calls_are_shown_once_and_answered_once(things: Path) -> None:
    asked: list[ApprovalRequest] = []

    def approve(request: ApprovalRequest) -> bool:
        asked.append(request)
        return True

    cell = "made = mcp_batch('t_create', [{'title': f'number {n}'} for n in range(50)])\nSUBMIT(answer=made[49])"
    with servers("honest", str(things), approve=approve) as mcp:
        assert run_cells(mcp, [cell]).outputs.answer == "created number 49"
    (request,) = asked
    assert request.title == "this cell wants to call t_create 50 times (tool create of t)"
    assert request.calls[49] == {"title": "number 49"}
    assert request.lines()[-1] == "... and 30 more calls"
    assert sorted(made(things)) == sorted(f"number {n}" for n in range(50))


def test_threads_of_a_cell_are_one_question(things: Path) -> None:
    asked: list[int] = []

    def approve(request: ApprovalRequest) -> bool:
        asked.append(len(request.calls))
        return True

    cell = """
from concurrent.futures import ThreadPoolExecutor
with ThreadPoolExecutor(8) as threads:
    made = list(threads.map(t_create, [f"number {n}" for n in range(8)]))
SUBMIT(answer=made[7])
"""
    with servers("honest", str(things), approve=approve) as mcp:
        assert run_cells(mcp, [cell]).outputs.answer == "created number 7"
    assert sum(asked) == 8
    assert len(asked) < 8
    assert len(made(things)) == 8


@pytest.mark.parametrize(("answer", "questions"), [(True, 4), ("cell", 2), ("run", 1)])
def test_an_answer_holds_for_the_calls_the_cell_or_the_run(things: Path, answer: Any, questions: int) -> None:
    asked: list[ApprovalRequest] = []

    async def approve(request: ApprovalRequest) -> Any:
        asked.append(request)
        return answer

    cells = ["for n in range(2):\n    t_create(str(n))", "for n in range(2):\n    t_create(str(n))\nSUBMIT(answer='')"]
    with servers("honest", str(things), approve=approve) as mcp:
        run_cells(mcp, cells)
    assert len(asked) == questions
    assert len(made(things)) == 4


def test_a_refusal_holds_for_the_cell(things: Path) -> None:
    asked: list[ApprovalRequest] = []

    def approve(request: ApprovalRequest) -> bool:
        asked.append(request)
        return False

    cell = """
refused = 0
for n in range(5):
    try:
        t_create(str(n))
    except Exception:
        refused += 1
"""
    with servers("honest", str(things), approve=approve) as mcp:
        result = run_cells(mcp, [cell, "SUBMIT(answer=str(refused))"])
    assert (len(asked), result.outputs.answer, made(things)) == (1, "5", [])


def test_a_function_that_fails_refuses(things: Path) -> None:
    def approve(request: ApprovalRequest) -> bool:
        raise RuntimeError("no")

    with servers("honest", str(things), approve=approve) as mcp:
        result = run_cells(mcp, ["t_create('one')", "SUBMIT(answer='')"])
    assert "the function that was asked failed: RuntimeError: no" in result.history[0].output
    assert made(things) == []


def _answered_elsewhere(approved: bool) -> Callable[[Event], None]:
    """Return an observer that answers each question as `rlm escalations` does, from a thread of its own."""

    def observe(event: Event) -> None:
        if isinstance(event, ApprovalRequested):
            answer = ApprovalAnswer(event.approval_id, approved, note="seen")
            threading.Thread(target=ApprovalLogs().answer_once, args=(answer,)).start()

    return observe


@pytest.mark.parametrize("approved", [True, False])
def test_another_process_answers_what_is_on_file(things: Path, approved: bool) -> None:
    events: list[Event] = []
    answering = _answered_elsewhere(approved)

    def observe(event: Event) -> None:
        events.append(event)
        answering(event)

    with servers("honest", str(things), approval_timeout=60) as mcp:
        result = run_cells(mcp, [REFUSED if not approved else CREATE_ONE], observe=observe)
    assert result.outputs.answer == ("created one" if approved else "NotApproved")
    (requested,) = [event for event in events if isinstance(event, ApprovalRequested)]
    (answered,) = [event for event in events if isinstance(event, ApprovalAnswered)]
    assert (requested.count, list(requested.calls)) == (1, ['{"title": "one"}'])
    assert (answered.approved, answered.answered_by, answered.note) == (approved, "operator", "seen")


def test_nobody_answers_in_time(things: Path) -> None:
    with servers("honest", str(things), approval_timeout=0.1) as mcp:
        result = run_cells(mcp, ["t_create('one')", "SUBMIT(answer='')"])
    assert "is not approved: no answer in 0.1 s" in result.history[0].output
    assert made(things) == []


def test_the_first_answer_counts(home: Path) -> None:
    logs = ApprovalLogs()
    request = ApprovalRequest("t", "create", "t_create", ({"title": "a"},))
    logs.add(request)
    logs.answer_once(ApprovalAnswer(request.approval_id, False))
    with pytest.raises(ApprovalAlreadyAnswered, match="was rejected"):
        logs.answer_once(ApprovalAnswer(request.approval_id, True))
    assert logs.answer(ApprovalAnswer(request.approval_id, True)).approved is False
    assert [one.approval_id for one in logs.all()] == [request.approval_id]


def test_secrets_are_not_put_on_file(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TRACKER_TOKEN", "a-long-secret-value")
    logs = ApprovalLogs()
    logs.add(ApprovalRequest("t", "create", "t_create", ({"token": "a-long-secret-value"},)))
    assert "a-long-secret-value" not in logs.requests.path.read_text()
    assert logs.all()[0].calls == ({"token": "[secret]"},)


def test_a_cell_that_is_stopped_no_longer_waits() -> None:
    async def wait() -> None:
        logs = ApprovalLogs()
        approvals = Approvals(logs=logs)
        asking = asyncio.ensure_future(approvals.ask("t", "create", "t_create", [{}], None, 100))
        async with asyncio.timeout(60):
            while not logs.all():
                await asyncio.sleep(0.01)
        asking.cancel()
        await asyncio.wait([asking])
        given = logs.answer_to(logs.all()[0].approval_id)
        assert given is not None
        assert (given.approved, given.note) == (False, "the cell no longer waits for an answer")
        assert (await approvals.ask("t", "create", "t_create", [{}], None, 0)).approved is False

    asyncio.run(wait())


def test_a_predict_takes_the_function_with_its_servers(things: Path) -> None:
    with servers() as mcp, pytest.raises(ValueError, match="McpServers"):
        rlm.Predict("question -> answer", mcp=mcp, approve=lambda request: True)
