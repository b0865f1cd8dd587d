"""The tools of `rlm mcp`, called by the official client: in this process, over HTTP, and over a pipe."""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("mcp")

from mcp import Client, StdioServerParameters
from mcp.client.streamable_http import streamable_http_client
from mcp.types import ListRootsResult, Root

from rlm.mcp_server.app import make_server
from rlm.mcp_server.documents import Folders
from rlm.mcp_server.sessions import Settings
from tests.support.mcp_questions import http_server, write_folder

TOKEN = "t" * 32


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    write_folder(tmp_path)
    return tmp_path


@pytest.fixture
def server(folder: Path) -> Any:
    return make_server(Folders([folder / "documents"]), Settings(task_file=folder / "task.yaml"))


@pytest.fixture
async def client(server: Any) -> AsyncIterator[Client]:
    """A client that one task enters and leaves: fixtures may run in several."""
    connected: asyncio.Future[Client] = asyncio.get_running_loop().create_future()
    over = asyncio.Event()

    async def own() -> None:
        async with Client(server) as client:
            connected.set_result(client)
            await over.wait()

    owner = asyncio.create_task(own())
    yield await connected
    over.set()
    await owner


async def ask(client: Client, question: str = "Where is the fox?", **arguments: Any) -> Any:
    result = await client.call_tool("ask", {"question": question, "paths": ["."], **arguments})
    assert not result.is_error, result.content
    return result.structured_content


async def refusal(client: Client, tool: str = "ask", **arguments: Any) -> str:
    result = await client.call_tool(tool, arguments)
    assert result.is_error, result.structured_content
    return str(result.content[0].text)  # type: ignore[union-attr]


async def test_the_tools_are_listed_and_say_that_they_read(client: Client) -> None:
    listed = (await client.list_tools()).tools
    assert [tool.name for tool in listed] == ["ask", "ask_more", "show_run"]
    assert all(tool.annotations and tool.annotations.read_only_hint for tool in listed)
    assert "roots" not in listed[0].input_schema["properties"]


async def test_an_answer_has_its_place_and_how_far_to_trust_it(client: Client, folder: Path) -> None:
    answer = await ask(client)
    assert answer["answer"] == "the quick brown fox jumps"
    assert (answer["status"], answer["trust"], answer["confidence"]) == ("submitted", "unverified", None)
    (quoted,) = [item for item in answer["evidence"] if item["kind"] == "quoted"]
    assert (quoted["path"], quoted["line"]) == (str(folder / "documents" / "notes.txt"), 3)
    assert answer["files"] == 2
    assert answer["left_out"] == ["picture.png is not text"]


async def test_answers_are_typed(client: Client) -> None:
    assert (await ask(client, "How many?", answer_type="int"))["answer"] == 2
    assert "answer_type" in await refusal(client, question="a", paths=["."], answer_type="int, b: str")
    assert "answer_type" in await refusal(client, question="a", paths=["."], answer_type="nonsense[")


async def test_an_answer_that_was_extracted_says_so(client: Client) -> None:
    answer = await ask(client, "never")
    assert (answer["status"], answer["answer"]) == ("extracted", "extracted")
    assert "iterations" in answer["reason"]
    assert answer["confidence"] is not None


async def test_a_session_goes_on_with_its_variables(client: Client) -> None:
    first = await ask(client, "How many?", answer_type="int")
    more = {"session_id": first["session_id"], "question": "What was kept?", "answer_type": "int"}
    second = (await client.call_tool("ask_more", more)).structured_content
    assert (second["answer"], second["files"]) == (2, 2)
    run = (await client.call_tool("show_run", {"run_id": first["run_id"]})).structured_content
    assert "kept = len(documents)" in run["steps"][0]["code"]
    assert run["session_id"] == first["session_id"]


async def test_sessions_of_others_are_unknown(client: Client, folder: Path) -> None:
    first = await ask(client)
    (folder / "elsewhere").mkdir()
    narrower = make_server(Folders([folder / "elsewhere"]), Settings(task_file=folder / "task.yaml"))
    async with Client(narrower) as other:
        session, run = first["session_id"], first["run_id"]
        assert "no session" in await refusal(other, "ask_more", session_id=session, question="What was kept?")
        assert "no session" in await refusal(other, "show_run", run_id=run)
    assert "no session" in await refusal(client, "ask_more", session_id="../../etc", question="What?")
    assert "no run" in await refusal(client, "show_run", run_id="0" * 12)


async def test_the_roots_of_the_client_count(server: Any, folder: Path) -> None:
    async def roots(_: Any) -> ListRootsResult:
        return ListRootsResult(roots=[Root(uri=root)])  # type: ignore[arg-type]

    for mode in ("legacy", "auto"):
        root = f"file://{folder}/documents"
        async with Client(server, list_roots_callback=roots, mode=mode) as client:
            assert (await ask(client))["files"] == 2
            root = "file:///usr/share"
        async with Client(server, list_roots_callback=roots, mode=mode) as client:
            assert "share none" in await refusal(client, question="a", paths=["."])


@pytest.mark.parametrize("mode", ["legacy", "auto"])
async def test_progress_is_reported_and_rises(server: Any, mode: str) -> None:
    seen: list[tuple[float, float | None, str | None]] = []

    async def progress(done: float, total: float | None, message: str | None) -> None:
        seen.append((done, total, message))

    async with Client(server, mode=mode) as client:
        arguments = {"question": "Where?", "paths": ["."]}
        await client.call_tool("ask", arguments, progress_callback=progress)
    assert any("the code has run" in (message or "") for _, _, message in seen)
    assert [done for done, _, _ in seen] == sorted({done for done, _, _ in seen})
    assert {total for _, total, _ in seen} == {6.0}


async def _cancelled_run(client: Client) -> None:
    started = asyncio.Event()

    async def progress(done: float, total: float | None, message: str | None) -> None:
        if "writes code" in (message or ""):
            started.set()

    arguments = {"question": "This will take long", "paths": ["."]}
    call = asyncio.ensure_future(client.call_tool("ask", arguments, progress_callback=progress))
    async with asyncio.timeout(60):
        await started.wait()
        call.cancel()
        await asyncio.wait([call])
    assert call.cancelled()


@pytest.mark.parametrize("mode", ["legacy", "auto"])
async def test_cancelling_a_call_ends_its_run_and_frees_its_place(folder: Path, mode: str) -> None:
    from rlm.traces import load

    settings = Settings(task_file=folder / "task.yaml", parallel=1)
    async with Client(make_server(Folders([folder / "documents"]), settings), mode=mode) as client:
        await _cancelled_run(client)
        async with asyncio.timeout(60):
            answer = await ask(client)  # there is one place, which the cancelled run had
        assert answer["status"] == "submitted"
        async with asyncio.timeout(60):
            while load().run(answer["run_id"]).ending != "submitted":
                await asyncio.sleep(0.05)
            about = [run for run in load().roots if (run.beginning.get("task") or {}).get("session")]
            while not all(run.events(kinds=["run_ended", "run_interrupted"]) for run in about):
                await asyncio.sleep(0.05)


@pytest.fixture
def address(server: Any) -> Iterator[str]:
    with http_server(server, TOKEN) as listening:
        yield listening


def over_http(address: str, token: str = TOKEN) -> Client:
    import httpx2

    http = httpx2.AsyncClient(headers={"Authorization": f"Bearer {token}"}, timeout=60)
    return Client(streamable_http_client(address, http_client=http))


async def test_over_http(address: str) -> None:
    async with over_http(address) as client:
        assert [tool.name for tool in (await client.list_tools()).tools] == ["ask", "ask_more", "show_run"]
        assert (await ask(client))["answer"] == "the quick brown fox jumps"
        await _cancelled_run(client)
        assert (await ask(client))["status"] == "submitted"


async def test_a_hundred_calls_at_once(address: str) -> None:
    async with over_http(address) as client:
        answers = await asyncio.gather(*(ask(client, "How many?", answer_type="int") for _ in range(100)))
    assert [answer["answer"] for answer in answers] == [2] * 100
    assert len({answer["session_id"] for answer in answers}) == 100


async def test_http_without_the_token_or_by_another_name_is_refused(address: str) -> None:
    import httpx2

    async with httpx2.AsyncClient() as client:
        assert (await client.post(address, json={})).status_code == 401
        for token in ("wrong", TOKEN + "x", TOKEN[:-1]):
            refused = await client.post(address, json={}, headers={"Authorization": f"Bearer {token}"})
            assert refused.status_code == 401
        known = {"Authorization": f"Bearer {TOKEN}", "content-type": "application/json"}
        rebound = await client.post(address, json={}, headers={**known, "host": "evil.example"})
        assert rebound.status_code == 421
        foreign = await client.post(address, json={}, headers={**known, "origin": "http://evil.example"})
        assert foreign.status_code == 403


@pytest.mark.processes
async def test_over_standard_input_and_output(folder: Path) -> None:
    program = Path(sys.executable).with_name("rlm")
    arguments = ["mcp", str(folder / "task.yaml"), "--root", str(folder / "documents")]
    environment = {"RLM_HOME": os.environ["RLM_HOME"], "PATH": os.environ["PATH"]}
    async with Client(StdioServerParameters(command=str(program), args=arguments, env=environment)) as client:
        assert (await ask(client))["answer"] == "the quick brown fox jumps"
        assert "does not exist below" in await refusal(client, question="a", paths=["../outside.txt"])
