"""Many clients at once, readers that do not read, clients that go away, and a server that is killed."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from urllib.parse import urlsplit

import httpx
import pytest

from rlm.serve.streaming import EventStream
from rlm.serve.tokens import Tokens
from tests.support.repository import ROOT
from tests.support.task_server import COUNT, asked, ended, opened, serving, write_task

MORE = "SUBMIT(answer=n + len(log))"


def until(condition: Callable[[], bool], seconds: float = 60) -> None:
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "never true"
        time.sleep(0.02)


@pytest.mark.processes
def test_ten_clients_at_once_with_a_hundred_sessions(tmp_path):
    with serving(write_task(tmp_path, COUNT, MORE), open_sessions=8) as place:

        def work(number: int) -> list[tuple[str, int, int]]:
            answers = []
            with place.client(f"client-{number}", runs=1) as client:
                for extra in range(10):
                    length = number * 100 + extra + 1
                    session = opened(client, log="x" * length)
                    first = asked(client, session)["result"]["outputs"]["answer"]
                    assert first == length
                    answers.append((session, length, first))
                session, length, _ = answers[0]  # closed meanwhile, for others needed the place
                assert asked(client, session)["result"]["outputs"] == {"answer": 2 * length}
                assert len(client.get("/v1/sessions").json()["data"]) == 10
            return answers

        for number in range(10):  # tokens are made one after another
            with place.client(f"client-{number}", runs=1):
                pass
        with ThreadPoolExecutor(10) as clients:
            found = [answer for part in clients.map(work, range(10)) for answer in part]
        assert len({session for session, _, _ in found}) == 100
        assert len(place.server.context.sessions.open_ids) <= 8
        until(lambda: place.server.context.runs.count == 0)


def test_a_reader_that_does_not_read_holds_nobody_up(tmp_path):
    loud = "for n in range(30):\n    print('x' * 1000)\n    llm_query(str(n) * 100)"
    with serving(write_task(tmp_path, loud, COUNT)) as place, place.client() as client:
        session = opened(client)
        run = client.post(f"/v1/sessions/{session}/questions", json={"question": "?"}).json()["id"]
        at = urlsplit(place.address)
        with socket.socket() as reader:
            reader.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1_024)
            reader.connect((str(at.hostname), at.port or 0))
            request = f"GET /v1/runs/{run}/events HTTP/1.1\r\nHost: {at.netloc}\r\n"
            reader.sendall(f"{request}Authorization: Bearer {place.secrets['ann']}\r\n\r\n".encode())
            assert ended(client, run)["status"] == "submitted"  # another reader gets it all
            assert reader.recv(12) == b"HTTP/1.1 200"


async def test_a_reader_that_takes_nothing_is_disconnected_in_the_end():
    import asyncio

    gone = []

    async def parts():
        while True:
            yield b"x"

    async def receive():
        await asyncio.sleep(3600)

    async def send(message):
        if message["type"] == "http.response.body":
            await asyncio.sleep(3600)

    stream = EventStream(parts(), on_gone=lambda: gone.append(True), stalled_seconds=0.05)
    with pytest.raises(ConnectionError, match="read nothing"):
        await stream({}, receive, send)
    assert gone == [True]


@pytest.mark.parametrize(
    ("path", "more", "cancelled"),
    [
        ("/v1/chat/completions", {"stream": True}, True),
        ("/v1/chat/completions", {"stream": False}, True),
        ("/v1/chat/completions", {"stream": True, "rlm": {"on_disconnect": "continue"}}, False),
        ("/v1/responses", {"stream": True}, True),
        ("/v1/responses", {"stream": True, "background": True}, False),
        ("questions", {"stream": True, "on_disconnect": "cancel"}, True),
        ("questions", {"stream": True}, False),
    ],
)
def test_a_client_that_goes_away_cancels_its_run_or_not(tmp_path, path, more, cancelled):
    cells = ("import time\nprint(len(log))\ntime.sleep(600 if 'long' in question else 1)", "SUBMIT(answer=len(log))")
    with serving(write_task(tmp_path, *cells)) as place, place.client() as client:
        question = "long?" if cancelled else "short?"
        if path == "questions":
            path, body = f"/v1/sessions/{opened(client)}/questions", {"question": question, **more}
        else:
            asking = (
                {"input": question} if "responses" in path else {"messages": [{"role": "user", "content": question}]}
            )
            own = {"inputs": {"log": "x" * 10}, **more.get("rlm", {})}
            body = {"model": "count", **asking, **more, "rlm": own}
        runs = place.server.context.runs
        with httpx.Client(base_url=place.address, headers=client.headers, timeout=60, trust_env=False) as leaving:
            if more["stream"]:
                with leaving.stream("POST", path, json=body) as answer:
                    assert answer.status_code == 200
                    next(answer.iter_bytes())
                    until(lambda: runs.count == 1)
            else:
                with pytest.raises(httpx.ReadTimeout):
                    leaving.post(path, json=body, timeout=1)
        until(lambda: runs.count == 0)
        (run,) = client.get("/v1/runs").json()["data"]
        assert run["status"] == ("interrupted" if cancelled else "submitted")


def test_a_server_that_is_stopped_cancels_what_runs_and_goes_on_with_it(tmp_path):
    slow = "import time\nprint(1)\ntime.sleep(600 * (llm_query('slow?') == 'yes'))"
    path = write_task(tmp_path, COUNT, slow, MORE)
    with serving(path) as place, place.client() as client:
        session = opened(client)
        asked(client, session)
        run = client.post(f"/v1/sessions/{session}/questions", json={"question": "?"}).json()["id"]
        secret = place.secrets["ann"]
    with serving(path) as place:
        place.secrets["ann"] = secret
        with place.client() as client:
            assert client.get(f"/v1/runs/{run}").json()["status"] == "interrupted"
            shown = client.get(f"/v1/sessions/{session}").json()
            assert [question["status"] for question in shown["questions"]] == ["submitted", "interrupted"]
            assert asked(client, session)["result"]["outputs"] == {"answer": 20}


@contextlib.contextmanager
def process(path) -> Iterator[tuple[subprocess.Popen[str], str]]:
    command = [sys.executable, "-m", "tests.support.task_server", str(path)]
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True) as server:
        try:
            assert server.stdout is not None
            yield server, server.stdout.readline().strip()
        finally:
            server.kill()


@pytest.mark.processes
@pytest.mark.kills
def test_sessions_go_on_after_the_server_is_killed(tmp_path):
    _, secret = Tokens().add("ann")
    headers = {"authorization": f"Bearer {secret}"}
    slow = "print(n)\nif llm_query('slow?') == 'yes':\n    import time\n    time.sleep(600)"
    path = write_task(tmp_path, COUNT, slow, MORE)
    messages = [{"role": "user", "content": "How many?"}]
    with process(path) as (server, address):
        with httpx.Client(base_url=address, headers=headers, timeout=60, trust_env=False) as client:
            body = {"model": "count", "messages": messages, "rlm": {"inputs": {"log": "x" * 10}}}
            one = client.post("/v1/chat/completions", json=body).json()
            session = one["rlm"]["session"]
            run = client.post(f"/v1/sessions/{session}/questions", json={"question": "?"}).json()["id"]
            with client.stream("GET", f"/v1/runs/{run}/events") as events:
                for line in events.iter_lines():
                    if "llm_query" in line and "call_ended" not in line:
                        break
        os.kill(server.pid, signal.SIGKILL)
        server.wait(30)
    with (
        process(path) as (_, address),
        httpx.Client(base_url=address, headers=headers, timeout=60, trust_env=False) as client,
    ):
        assert client.get(f"/v1/runs/{run}").json()["status"] == "interrupted"
        shown = client.get(f"/v1/sessions/{session}").json()
        assert [question["status"] for question in shown["questions"]] == ["submitted", "interrupted"]
        # The conversation is known as well: it goes on after its own question, without the other one.
        messages += [one["choices"][0]["message"], {"role": "user", "content": "Twice?"}]
        two = client.post("/v1/chat/completions", json={"model": "count", "messages": messages}).json()
        assert json.loads(two["choices"][0]["message"]["content"]) == {"answer": 20}
        assert asked(client, session)["result"]["outputs"] == {"answer": 20}
