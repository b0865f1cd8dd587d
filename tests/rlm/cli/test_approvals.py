"""Approvals on the command line: typed at a terminal, and listed, shown and answered by `rlm escalations`."""

from __future__ import annotations

import asyncio
import json
import os
import select
from collections.abc import Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner

from rlm.cli.approval_prompt import answer
from rlm.cli.commands.escalations import command
from rlm.mcp.approvals import ApprovalAnswer, ApprovalLogs, ApprovalRequest

REQUEST = ApprovalRequest(
    "t", "create", "t_create", tuple({"title": f"\x1b[2Jnumber {n}"} for n in range(50)), "0123456789ab", 2
)


@pytest.fixture(autouse=True)
def logs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ApprovalLogs:
    monkeypatch.setenv("RLM_HOME", str(tmp_path))
    return ApprovalLogs()


@pytest.fixture
def keyboard() -> Iterator[tuple[int, int]]:
    reading, writing = os.pipe()
    yield reading, writing
    os.close(reading)


@pytest.mark.parametrize(
    ("typed", "approved", "scope"),
    [
        ("y", True, "calls"),
        ("C ", True, "cell"),
        ("r", True, "run"),
        ("n", False, "calls"),
        ("what?\ny", True, "calls"),
    ],
)
def test_a_key_answers(
    keyboard: tuple[int, int], capsys: pytest.CaptureFixture[str], typed: str, approved: bool, scope: str
) -> None:
    reading, writing = keyboard

    async def type_and_wait() -> ApprovalAnswer | None:
        asking = asyncio.ensure_future(answer(REQUEST, reading))
        for line in typed.splitlines():
            while select.select([reading], [], [], 0)[0]:  # a terminal gives one line after the other
                await asyncio.sleep(0.01)
            os.write(writing, line.encode() + b"\n")
        return await asyncio.wait_for(asking, 60)

    given = asyncio.run(type_and_wait())
    os.close(writing)
    assert given is not None
    assert (given.approved, given.scope, given.answered_by) == (approved, scope, "terminal")
    shown = capsys.readouterr().err
    assert shown.startswith("! this cell wants to call t_create 50 times (tool create of t):\n")
    assert "... and 30 more calls" in shown
    assert "\x1b" not in shown


def test_the_end_of_the_input_leaves_it_open(keyboard: tuple[int, int]) -> None:
    reading, writing = keyboard
    os.close(writing)
    assert asyncio.run(answer(REQUEST, reading)) is None


def escalations(*arguments: str, code: int = 0) -> str:
    result = CliRunner().invoke(command, arguments)
    assert result.exit_code == code, result.output
    return result.output


def test_waiting_calls_are_listed_shown_and_approved(logs: ApprovalLogs) -> None:
    logs.add(REQUEST)
    listed = escalations("list", "--open")
    assert REQUEST.approval_id in listed
    assert "open this cell wants to call t_create 50 times" in listed
    shown = escalations("show", REQUEST.approval_id[:8])
    assert "number 49" in shown
    assert "answer: none yet" in shown
    assert "approved for the cell: recorded" in escalations("approve", REQUEST.approval_id[:8], "--scope", "cell")
    given = logs.answer_to(REQUEST.approval_id)
    assert given is not None
    assert (given.approved, given.scope, given.answered_by) == (True, "cell", "operator")
    assert REQUEST.approval_id not in escalations("list", "--open")
    assert "was approved" in escalations("reject", REQUEST.approval_id[:8], code=2)


def test_calls_are_rejected_with_a_note(logs: ApprovalLogs) -> None:
    logs.add(REQUEST)
    assert "rejected: recorded" in escalations("reject", REQUEST.approval_id, "--note", "too many")
    (entry,) = [json.loads(line) for line in escalations("list", "--json").splitlines()]
    assert (entry["kind"], entry["answer"]["note"], len(entry["calls"])) == ("approval", "too many", 50)


def test_an_id_that_nothing_has_is_a_mistake() -> None:
    assert "no escalation" in escalations("approve", "ffff", code=2)
