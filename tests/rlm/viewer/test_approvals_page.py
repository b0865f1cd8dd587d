"""Calls that wait for an approval, answered on the page of their run, which goes on."""

from __future__ import annotations

import asyncio
import json
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

import rlm
from rlm.mcp.approvals import ApprovalLogs
from rlm.models.scripted import scripted_lm
from rlm.traces import TraceWriter
from tests.rlm.viewer.test_server import ask, put
from tests.support.mcp_runs import servers
from tests.support.viewer_server import serve

pytest.importorskip("mcp")

CELL = "made = mcp_batch('t_create', [{'title': f'number {n}'} for n in range(50)])\nSUBMIT(answer=made[49])"


class WaitingRun:
    """A run in a thread whose cell waits for an approval."""

    def __init__(self, home: Path) -> None:
        self.home, self.id, self.result = home, "", None
        self.waits = threading.Event()
        self.thread = threading.Thread(target=self._run, daemon=True)
        self.thread.start()
        assert self.waits.wait(60)

    def _run(self) -> None:
        writer = TraceWriter(self.home)

        def observe(event: rlm.events.Event) -> None:
            writer(event)
            if isinstance(event, rlm.events.ApprovalRequested):
                assert writer.flush(60)
                self.id = event.run_id
                self.waits.set()

        with servers("honest", str(self.home / "things"), approval_timeout=100) as mcp, writer:
            lm = scripted_lm([f"```python\n{CELL}\n```", "```python\nSUBMIT(answer='refused')\n```"])
            predict = rlm.Predict("question -> answer: str", lm=lm, mcp=mcp, record=False, observe=observe)
            self.result = predict.run_with_fallback(question="What?")

    def answer(self) -> str:
        """Wait for the end of the run and return its answer."""
        self.thread.join(60)
        assert self.result is not None
        return str(self.result.outputs.answer)


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> WaitingRun:
    monkeypatch.setenv("RLM_HOME", str(tmp_path))
    return WaitingRun(tmp_path)


@pytest.fixture
def place(tmp_path: Path) -> Iterator[str]:
    yield from serve(tmp_path)


def test_waiting_calls_are_answered_with_the_token_only(run: WaitingRun, place: str) -> None:
    token = urlsplit(place).path.strip("/")
    (waiting,) = json.loads(ask(place, f"/{token}/api/runs/{run.id}/approvals")[2])["approvals"]
    assert waiting["title"] == "this cell wants to call t_create 50 times (tool create of t)"
    assert len(waiting["calls"]) == 50
    target, body = f"/api/runs/{run.id}/approvals/{waiting['id']}", b'{"approved": true}'
    assert put(place, target, body)[0] == 405
    assert put(place, f"/{token}{target}", body, Origin="http://evil.example")[0] == 403
    for wrong in (b"{}", b"[]", b'{"approved": 1}', b'{"approved": true, "scope": "all"}'):
        assert put(place, f"/{token}{target}", wrong)[0] == 400
    assert put(place, f"/{token}/api/runs/{run.id}/approvals/other", body)[0] == 400
    assert ApprovalLogs().answer_to(waiting["id"]) is None
    assert put(place, f"/{token}{target}", body)[0] == 200
    assert put(place, f"/{token}{target}", b'{"approved": false}')[0] == 400
    assert run.answer() == "created number 49"


@pytest.mark.browser
@pytest.mark.asyncio(loop_scope="session")
async def test_a_button_of_the_page_answers_and_the_run_goes_on(tab: Any, run: WaitingRun, place: str) -> None:
    await tab.page.goto(f"{place}#/run/{run.id}")
    await tab.until("document.querySelectorAll('.approval-calls li').length === 20")
    assert "t_create 50 times" in await tab.page.inner_text(".approval strong")
    await tab.page.click("text=Show all 50")
    await tab.until("document.querySelectorAll('.approval-calls li').length === 50")
    await tab.page.click("text=Approve these calls")
    assert await asyncio.to_thread(run.answer) == "created number 49"
    await tab.until("document.querySelector('.approvals')?.hidden === true")
    deadline = time.monotonic() + 30
    (request,) = ApprovalLogs().all()
    while (given := ApprovalLogs().answer_to(request.approval_id)) is None:
        assert time.monotonic() < deadline
    assert (given.approved, given.scope, given.answered_by) == (True, "calls", "page")
    await tab.page.goto("about:blank")  # it asks for news until then, and the server ends first
