"""Who gets in, and what is refused before it is read: tokens, owners, hosts, pages of others, bad and huge requests."""

from __future__ import annotations

import contextlib
import http.client
import json
import socket
import time
from collections.abc import Iterator
from typing import Any
from urllib.parse import urlsplit

import httpx
import pytest

from rlm.serve.tokens import Tokens
from tests.support.task_server import COUNT, TaskServer, asked, opened, serving, write_task

OWN = ("/v1/me", "/v1/models", "/v1/runs", "/v1/sessions", "/api/runs")


def test_without_a_token_there_is_nothing(task_server):
    with task_server.client() as client:
        session = opened(client)
    for path in (*OWN, f"/v1/sessions/{session}", "/api/evals", "/v1/nothing"):
        for headers in ({}, {"authorization": "Bearer rlm_x"}, {"authorization": task_server.secrets["ann"]}):
            answer = httpx.get(task_server.address + path, headers=headers, trust_env=False)
            assert answer.status_code == 401, path
            assert answer.headers["www-authenticate"] == "Bearer"
            assert session not in answer.text
    for path in ("/", "/static/page.js", "/openapi.json", "/health"):
        assert httpx.get(task_server.address + path, trust_env=False).status_code == 200


def test_a_token_that_is_removed_is_refused_at_once(task_server):
    with task_server.client() as client:
        assert client.get("/v1/me").json()["name"] == "ann"
        Tokens().remove("ann")
        assert client.get("/v1/me").status_code == 401


def test_nobody_reaches_what_is_anothers(tmp_path):
    cells = (COUNT, "SUBMIT(answer=n)")
    with serving(write_task(tmp_path, *cells)) as place, place.client("ann") as ann, place.client("bob") as bob:
        session = opened(ann, log="private " * 10)
        run = asked(ann, session, "Private question?")["id"]
        made = ann.post("/v1/responses", json={"model": "count", "input": "?", "rlm": {"inputs": {"log": "private"}}})
        response, conversation = made.json()["id"], ann.post("/v1/conversations", json={}).json()["id"]
        reads = [
            *(f"/v1/runs/{run}", f"/v1/runs/{run}/events", f"/v1/runs/{run}/trace", f"/v1/sessions/{session}"),
            *(f"/v1/responses/{response}", f"/v1/conversations/{conversation}"),
            *(f"/api/runs/{run}", f"/api/runs/{run[:6]}", f"/api/runs/{run}/events", f"/api/runs/{run}/whole?only=1"),
            *(f"/api/runs/{run}/search?q=private", f"/api/runs/{run}/variables", f"/api/compare/{run}/{run}"),
            *("/api/evals", "/api/eval", f"/api/runs/{run}/blobs/{'0' * 40}"),
        ]
        question: dict[str, Any] = {"question": "?"}
        writes: list[tuple[str, str, Any]] = [
            ("POST", f"/v1/sessions/{session}/questions", question),
            ("POST", f"/v1/sessions/{session}/branch", None),
            ("POST", f"/v1/sessions/{session}/undo", None),
            ("POST", f"/v1/sessions/{session}/resume", None),
            ("PUT", f"/v1/sessions/{session}/inputs", {"inputs": {"log": "x"}}),
            ("DELETE", f"/v1/sessions/{session}", None),
            ("POST", f"/v1/runs/{run}/cancel", None),
            ("POST", f"/v1/responses/{response}/cancel", None),
            ("DELETE", f"/v1/responses/{response}", None),
            ("POST", "/v1/responses", {"model": "count", "input": "?", "previous_response_id": response}),
            ("POST", "/v1/responses", {"model": "count", "input": "?", "conversation": conversation}),
        ]
        for method, path, body in [*(("GET", path, None) for path in reads), *writes]:
            answer = bob.request(method, path, json=body)
            assert answer.status_code == 404, (method, path, answer.text)
            assert "private" not in answer.text.lower(), (method, path)
            unknown = path.replace(run, "0" * 12).replace(session, "0" * 12)
            if unknown != path:  # that there is such an id is not said
                other = bob.request(method, unknown, json=body)
                assert other.status_code == 404
                assert other.text.replace("0" * 12, "") == answer.text.replace(run, "").replace(session, "")
        assert bob.get("/v1/runs").json()["data"] == bob.get("/v1/sessions").json()["data"] == []
        assert bob.get("/api/runs").json()["runs"] == []
        # The same messages by another token are another conversation.
        assert bob.get("/v1/me").json()["sessions"] == 0
        # And it is all still there for its owner.
        assert len(ann.get(f"/v1/sessions/{session}").json()["questions"]) == 1
        assert [ann.get(path).status_code for path in reads[:7]] == [200] * 6 + [200]
        assert ann.get(f"/api/runs/{run[:6]}").status_code == 404


def test_equal_conversations_of_two_tokens_stay_apart(tmp_path):
    with serving(write_task(tmp_path, COUNT, "SUBMIT(answer=n)")) as place, place.client("ann") as ann:
        first: dict[str, Any] = {"role": "user", "content": "?"}
        body: dict[str, Any] = {"model": "count", "messages": [first], "rlm": {"inputs": {"log": "abc"}}}
        one = ann.post("/v1/chat/completions", json=body).json()
        messages = [first, one["choices"][0]["message"], {"role": "user", "content": "again?"}]
        with place.client("bob") as bob:
            answer = bob.post("/v1/chat/completions", json={"model": "count", "messages": messages})
            assert answer.status_code == 400  # a new session, which has no log
            assert "log" in answer.json()["error"]["message"]


def test_other_host_names_are_refused(task_server):
    with task_server.client() as client:
        for host in ("evil.example", "127.0.0.1.evil.example", "192.168.0.1", "localhost.", ""):
            assert client.get("/v1/me", headers={"host": host}).status_code == 421, host


def test_pages_of_others_are_refused(task_server):
    with task_server.client() as client:
        for headers in (
            {"origin": "http://evil.example"},
            {"origin": "null"},
            {"origin": "http://127.0.0.1:1"},
            {"sec-fetch-site": "cross-site", "sec-fetch-mode": "cors"},
            {"sec-fetch-site": "same-site", "sec-fetch-mode": "cors"},
        ):
            assert client.get("/v1/me", headers=headers).status_code == 403, headers
        assert client.get("/v1/me", headers={"origin": task_server.address}).status_code == 200
        answer = client.get("/v1/me")
        assert "access-control-allow-origin" not in answer.headers
        assert "default-src 'none'" in answer.headers["content-security-policy"]


def test_the_page_has_no_data_and_the_policy_of_the_viewer(task_server):
    answer = httpx.get(f"{task_server.address}/", trust_env=False)
    assert 'name="rlm-serve"' in answer.text
    policy = answer.headers["content-security-policy"]
    assert "script-src 'self'" in policy
    assert "unsafe" not in policy


BAD = [
    *(b"", b"{", b"[]", b"null", b'"x"', b"\xff\xfe", b"[" * 200_000, b'{"a":' * 100_000),
    *(b'{"model": NaN}', b'{"model": 1e999999}', b'{"model": ' + b"1" * 10_000 + b"}", b'{"model": "\\ud800"}'),
    *(b'{"model": "count", "inputs": {"log": "\\ud800"}}', b'{"model": "count", "inputs": []}'),
    *(b'{"model": "count", "inputs": {"log": "x"}, "more": 1}', b'{"model": "count", "inputs": {"": "x"}}'),
    b'{"model": "count", "inputs": {"log": {"$bytes": "!"}}}',
    b'{"model": "count", "inputs": {"log": "x", "more": ' + b"[" * 5_000 + b"]" * 5_000 + b"}}",
]


def test_bad_requests_are_refused_in_words(task_server):
    with task_server.client() as client:
        for path in ("/v1/runs", "/v1/sessions", "/v1/chat/completions", "/v1/responses"):
            for body in BAD:
                answer = client.post(path, content=body, headers={"content-type": "application/json"})
                assert answer.status_code == 400, (path, body[:100], answer.text)
                error = answer.json()["error"]
                assert 0 < len(error["message"]) < 2_000
                assert answer.headers["x-should-retry"] == "false"
        assert client.get("/v1/sessions").json()["data"] == []


def test_other_kinds_of_bodies_are_refused(task_server):
    with task_server.client() as client:
        for kind in ("text/plain", "application/x-www-form-urlencoded", "multipart/form-data; boundary=x", ""):
            answer = client.post("/v1/runs", content=b"{}", headers={"content-type": kind})
            assert answer.status_code == 415, kind


@contextlib.contextmanager
def connected(place: TaskServer, request: bytes) -> Iterator[socket.socket]:
    """A connection on which the beginning of a request was sent."""
    at = urlsplit(place.address)
    with socket.create_connection((str(at.hostname), at.port or 0), timeout=60) as connection:
        connection.sendall(request)
        yield connection


def head(place: TaskServer, path: str = "/v1/runs", **headers: str) -> bytes:
    fields = {
        "Host": urlsplit(place.address).netloc,
        "Authorization": f"Bearer {place.secrets['ann']}",
        "Content-Type": "application/json",
        **{name.replace("_", "-"): value for name, value in headers.items()},
    }
    lines = "".join(f"{name}: {value}\r\n" for name, value in fields.items())
    return f"POST {path} HTTP/1.1\r\n{lines}\r\n".encode()


def answered(connection: socket.socket) -> tuple[int, dict[str, Any]]:
    answer = http.client.HTTPResponse(connection)
    answer.begin()
    return answer.status, json.loads(answer.read())


def test_a_huge_request_is_refused_by_its_length_before_its_body(task_server):
    with task_server.client(input_bytes=1_000):
        pass
    for length in ("70000", "1000000000000", "9" * 19):
        with connected(task_server, head(task_server, Content_Length=length)) as connection:
            status, body = answered(connection)  # and not one byte of the body was sent
            assert (status, body["error"]["code"]) == (413, "request_too_large")


def test_a_huge_request_without_a_length_is_refused_while_it_comes(task_server):
    with task_server.client(input_bytes=1_000):
        pass
    chunk = b"4000\r\n" + b" " * 0x4000 + b"\r\n"
    with connected(task_server, head(task_server, Transfer_Encoding="chunked")) as connection:
        connection.sendall(chunk * 5)
        status, body = answered(connection)
        assert (status, body["error"]["code"]) == (413, "request_too_large")
        connection.settimeout(30)
        with contextlib.suppress(ConnectionError):
            assert connection.recv(1) == b""  # the rest is not read


def test_what_a_session_was_sent_is_limited_altogether(task_server):
    with task_server.client(input_bytes=1_000) as client:
        assert client.post("/v1/sessions", json={"model": "count", "inputs": {"log": "x" * 1_001}}).status_code == 413
        session = opened(client, log="x" * 600)
        for _ in range(2):
            answer = client.put(f"/v1/sessions/{session}/inputs", json={"inputs": {"more": "y" * 300}})
        assert (answer.status_code, answer.json()["error"]["code"]) == (413, "inputs_too_large")
        answer = client.post(f"/v1/sessions/{session}/questions", json={"question": "?" * 200})
        assert answer.status_code == 413
        assert client.get(f"/v1/sessions/{session}").json()["questions"] == []


def test_huge_headers_and_addresses_are_refused(task_server):
    with task_server.client() as client:
        with contextlib.suppress(httpx.HTTPError):
            assert client.get("/v1/me", headers={"x": "y" * 200_000}).status_code in (400, 431)
        with contextlib.suppress(httpx.HTTPError):
            assert client.get("/v1/runs/" + "x" * 65_000).status_code in (400, 404, 414, 431)
        assert client.get("/v1/runs/" + "x" * 5_000).status_code == 404
        assert client.get("/v1/me").status_code == 200


def test_sessions_and_runs_are_limited_for_each_token(tmp_path):
    slow = "import time\ntime.sleep(600)"
    with serving(write_task(tmp_path, slow)) as place, place.client("ann", sessions=2, runs=1) as ann:
        first, second = opened(ann), opened(ann)
        answer = ann.post("/v1/sessions", json={"model": "count", "inputs": {"log": "x"}})
        assert (answer.status_code, answer.json()["error"]["code"]) == (403, "too_many_sessions")
        run = ann.post(f"/v1/sessions/{first}/questions", json={"question": "?"}).json()["id"]
        answer = ann.post(f"/v1/sessions/{second}/questions", json={"question": "?"})
        assert (answer.status_code, answer.json()["error"]["code"]) == (429, "too_many_runs")
        assert (answer.headers["x-should-retry"], answer.headers["retry-after"]) == ("true", "2")
        with place.client("bob") as bob:  # others have their own
            other = bob.post(f"/v1/sessions/{opened(bob)}/questions", json={"question": "?"})
            assert other.status_code == 201
            bob.post(f"/v1/runs/{other.json()['id']}/cancel")
        ann.post(f"/v1/runs/{run}/cancel")
        assert ann.post(f"/v1/sessions/{second}/questions", json={"question": "?"}).status_code == 201


def test_a_run_has_the_time_of_its_token(tmp_path):
    cells = ("import time\ntime.sleep(0.2)\nprint(1)", "time.sleep(0.2)\nprint(2)", "time.sleep(0.2)\nprint(3)")
    with serving(write_task(tmp_path, *cells * 9)) as place, place.client(run_seconds=0.3, day_seconds=0.35) as client:
        session = opened(client)
        run = asked(client, session)
        assert run["status"] == "failed"
        assert "of 0.3 second" in run["result"]["reason"]
        end = time.monotonic() + 30
        while (answer := client.post(f"/v1/sessions/{session}/questions", json={"question": "?"})).status_code == 201:
            assert time.monotonic() < end
            client.post(f"/v1/runs/{answer.json()['id']}/cancel")
        assert (answer.status_code, answer.json()["error"]["code"]) == (429, "day_used_up")


def test_two_servers_do_not_share_a_folder(task_server, tmp_path):
    from rlm.errors import ServerInUse

    with pytest.raises(ServerInUse, match="another `rlm serve`"), serving(tmp_path / "count.yaml"):
        pass


def test_a_file_of_the_server_is_never_an_input(tmp_path):
    signature = "doc: File, question: str -> answer: str"
    path = write_task(tmp_path, "SUBMIT(answer=doc.read_text())", name="read", signature=signature)
    more = write_task(tmp_path, "SUBMIT(answer=str(more))", signature="question: str -> answer: str")
    with serving(path, more) as place, place.client() as client:
        for value in ("/etc/passwd", {"$file": {"path": "/etc/passwd"}}, {"file": "/etc/passwd"}, "@/etc/passwd"):
            for where in ("sessions", "runs"):
                body = {"model": "read", "inputs": {"doc": value, **({"question": "?"} if where == "runs" else {})}}
                answer = client.post(f"/v1/{where}", json=body)
                assert answer.status_code == 400, (where, value, answer.text)
        given = {"$file": {"path": "/etc/passwd", "folder": False, "size": 1, "modified_ns": 1}}
        session = client.post("/v1/sessions", json={"model": "count", "inputs": {"more": given}}).json()["id"]
        assert asked(client, session)["result"]["outputs"] == {"answer": str(given)}
