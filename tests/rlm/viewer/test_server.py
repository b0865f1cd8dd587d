"""The server behind the page: what it answers, and whom."""

from __future__ import annotations

import contextlib
import http.client
import json
import re
import shutil
import socket
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

from rlm.traces import UnknownRun
from rlm.traces.notes import Notes
from rlm.viewer.bundle import STATIC, STYLES
from rlm.viewer.run_cache import RunCache
from rlm.viewer.security import host_name, is_loopback
from rlm.viewer.server import has_display, make_server
from tests.support.events import make_event
from tests.support.viewer_runs import ended, iteration, started, tell
from tests.support.viewer_server import serve

RUN = "c" * 12


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("server-home")
    now = time.time()
    text = "half \ud800 and \U0001f600 " * 100
    tell(
        made,
        [started(RUN, now, doc=text), *iteration(RUN, 1, now, code="x = 1", output=text), ended(RUN, now, {"a": 1})],
    )
    return made


@pytest.fixture(scope="module")
def place(home: Path) -> Iterator[str]:
    yield from serve(home)


def ask(place: str, path: str, method: str = "GET", **headers: str) -> tuple[int, dict[str, str], bytes]:
    at = urlsplit(place)
    connection = http.client.HTTPConnection(str(at.hostname), at.port, timeout=60)
    try:
        connection.request(method, path, headers={name.replace("_", "-"): value for name, value in headers.items()})
        answer = connection.getresponse()
        return answer.status, {name.lower(): value for name, value in answer.getheaders()}, answer.read()
    finally:
        connection.close()


def get(place: str, path: str) -> Any:
    status, _, body = ask(place, path)
    assert status == 200, body
    return json.loads(body)


def test_a_run_that_was_resumed_since_names_the_run_that_went_on(tmp_path: Path) -> None:
    first, second, now = "a1" * 6, "b2" * 6, time.time()
    start = started(first, now, doc="text")
    goes_on = make_event("run_started", second, {**start.data, "resumed_from": first}, now)
    tell(tmp_path, [start, *iteration(first, 1, now, code="x = 1", output="")])
    cache = RunCache(tmp_path)
    assert cache.run(first).ending == "unfinished"
    tell(tmp_path, [goes_on, ended(second, now, {})])
    for _ in range(2):  # the second time it is in the cache
        run = cache.run(first)
        assert (run.ending, run.resumed_by) == ("resumed", second)


def test_every_answer_carries_the_policy(place: str) -> None:
    for path in ("/", "/static/page.js", "/api/runs", "/nothing", "/api/runs/nothing"):
        _, headers, _ = ask(place, path)
        policy = headers["content-security-policy"]
        assert "default-src 'none'" in policy
        assert "script-src 'self';" in policy
        assert "unsafe" not in policy
        assert "frame-ancestors 'none'" in policy
        assert headers["x-content-type-options"] == "nosniff"
        assert headers["referrer-policy"] == "no-referrer"
        assert headers["cache-control"] == "no-store"
        assert "server" not in headers


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "PATCH", "OPTIONS"])
def test_nothing_can_be_written(place: str, method: str) -> None:
    assert ask(place, "/api/runs", method)[0] == 405
    assert ask(place, f"/api/runs/{RUN}", method)[0] == 405


@pytest.mark.parametrize(
    "host",
    [
        *("evil.example", "127.0.0.1.evil.example", "localhost.evil.example:80", "192.168.0.1", ""),
        *("[::1].evil.example", "[::1]evil", "[::1", "[localhost]", "[127.0.0.1]:80:80", "[::1%25eth0]", "::1"),
        *("localhost:evil", "localhost:80:80", "localhost:", "localhost:123456", "user@localhost", "localhost/x"),
        *("localhost,evil.example", "local host", "localhost.", "127.1", "0x7f.1", "2130706433"),
    ],
)
def test_other_names_are_refused(place: str, host: str) -> None:
    status, _, body = ask(place, "/api/runs", Host=host)
    assert status == 421
    assert b"runs" not in body


def test_two_names_in_one_request_are_refused(place: str) -> None:
    at = urlsplit(place)
    with socket.create_connection((str(at.hostname), at.port or 0), timeout=60) as connection:
        request = f"GET /api/runs HTTP/1.1\r\nHost: evil.example\r\nHost: {at.netloc}\r\nConnection: close\r\n\r\n"
        connection.sendall(request.encode())
        with connection.makefile("rb") as answer:
            status = answer.readline()
            rest = answer.read()
    assert status.split()[1] in (b"400", b"421")
    assert RUN.encode() not in rest


def test_its_own_names_are_known(place: str) -> None:
    port = urlsplit(place).port
    for host in (f"127.0.0.1:{port}", f"localhost:{port}", f"[::1]:{port}"):
        assert ask(place, "/api/runs", Host=host)[0] == 200


def test_other_pages_are_refused(place: str) -> None:
    own = f"http://{urlsplit(place).netloc}"
    assert ask(place, "/api/runs", Origin=own)[0] == 200
    for origin in ("https://evil.example", "null", own.replace("http:", "https:"), own + "0"):
        assert ask(place, "/api/runs", Origin=origin)[0] == 403
    assert ask(place, "/api/runs", Sec_Fetch_Site="cross-site", Sec_Fetch_Mode="no-cors")[0] == 403
    assert ask(place, "/api/runs", Sec_Fetch_Site="same-site", Sec_Fetch_Mode="cors")[0] == 403
    link = {"Sec_Fetch_Site": "cross-site", "Sec_Fetch_Mode": "navigate"}
    assert ask(place, "/", **link, Sec_Fetch_Dest="document")[0] == 200
    assert ask(place, "/", **link, Sec_Fetch_Dest="iframe")[0] == 403


@pytest.mark.parametrize(
    "name", ["..%2f..%2fsecurity.py", "../app.py", "%2e%2e/app.py", "app.js", "lib/dom.js", "nothing.js", ""]
)
def test_only_its_own_files_are_served(place: str, name: str) -> None:
    status, _, body = ask(place, f"/static/{name}")
    assert status == 404
    assert b"import" not in body


def test_a_skeleton_has_no_texts_and_whole_events_have_references(place: str) -> None:
    answer = get(place, f"/api/runs/{RUN[:4]}/events?after=0")
    assert answer["run"]["id"] == RUN
    events = answer["events"]
    assert [one[0] for one in events] == list(range(1, len(events) + 1))
    assert all("output" not in one[4] and "turns" not in one[4] for one in events)
    sequence = next(one[0] for one in events if one[2] == "cell_ended")
    (found,) = get(place, f"/api/runs/{RUN}/whole?only={sequence}")
    reference = found[4]["output"]
    assert reference["size"] == 1300
    body = get(place, f"/api/runs/{RUN}/blobs/{reference['$body']}?start=5&end=13")
    assert body == {"kind": "text", "start": 5, "text": "\ud800 and \U0001f600 ", "more": True}
    assert get(place, f"/api/runs/{RUN}/events?after={events[-1][0]}")["events"] == []


def test_what_is_not_there_is_a_problem_in_words(place: str) -> None:
    for path in ("/api/runs/zzz", f"/api/runs/{RUN}/blobs/zzz", f"/api/runs/{RUN}/blobs/{'0' * 40}", "/api/zzz"):
        status, _, body = ask(place, path)
        assert status == 404
        assert json.loads(body)["problem"]


def put(place: str, path: str, body: bytes, **headers: str) -> tuple[int, dict[str, Any]]:
    at = urlsplit(place)
    connection = http.client.HTTPConnection(str(at.hostname), at.port, timeout=60)
    try:
        connection.request("PUT", path, body, headers)
        answer = connection.getresponse()
        text = answer.read()
        return answer.status, json.loads(text) if text.startswith(b"{") else {"problem": text.decode()}
    finally:
        connection.close()


def test_notes_can_be_written_with_the_token_only(place: str, home: Path) -> None:
    token = urlsplit(place).path.strip("/")
    body = json.dumps({"text": " The rent is wrong. ", "labels": ["wrong", "to  look at", "wrong"]}).encode()
    target = f"/api/runs/{RUN}/note"
    assert put(place, target, body)[0] == 405
    other = token[:-1] + ("x" if token[-1] != "x" else "y")
    assert put(place, f"/{other}{target}", body)[0] == 405
    assert put(place, f"/{token}{target}", body, Origin="http://evil.example")[0] == 403
    assert put(place, f"/{token}{target}", body, Host="evil.example")[0] == 421
    assert put(place, f"/{token}/api/runs", body)[0] == 405
    assert put(place, f"/{token}/api/runs/zzz/note", body)[0] == 404
    assert Notes(home).all() == {}
    status, written = put(place, f"/{token}{target}", body, Origin=f"http://{urlsplit(place).netloc}")
    assert (status, written["text"], written["labels"]) == (200, "The rent is wrong.", ["wrong", "to look at"])
    summary = get(place, f"/{token}/api/runs/{RUN}")
    assert summary["note"] == written
    assert summary["writable"] is True
    assert get(place, f"/api/runs/{RUN}")["writable"] is False
    (row,) = get(place, "/api/runs")["runs"]
    assert (row["note"], row["labels"]) == ("The rent is wrong.", ["wrong", "to look at"])
    assert put(place, f"/{token}{target}", b'{"text": "", "labels": []}')[0] == 200
    assert Notes(home).all() == {}


@pytest.mark.parametrize(
    ("body", "problem"),
    [
        (b"{}", "A note has a text and labels"),
        (b"no json", "A note has a text and labels"),
        (b'{"text": 1, "labels": []}', "a note is a text"),
        (b'{"text": "x", "labels": "wrong"}', "labels are a list"),
        (b'{"text": "x", "labels": ["a,b"]}', "no comma"),
        (json.dumps({"text": "x" * 10_001, "labels": []}).encode(), "10,001 characters"),
        (b"x" * 200_000, "too long"),
    ],
)
def test_notes_that_are_none_are_refused(place: str, home: Path, body: bytes, problem: str) -> None:
    status, answer = put(place, f"{urlsplit(place).path}api/runs/{RUN}/note", body)
    assert status in (400, 413)
    assert problem in answer["problem"]
    assert Notes(home).all() == {}


def test_the_list_is_sent_again_only_when_it_has_changed(place: str, home: Path) -> None:
    first = get(place, "/api/runs")
    assert get(place, f"/api/runs?known={first['state']}") == {"same": True}
    Notes(home).write(RUN, "seen")
    second = get(place, f"/api/runs?known={first['state']}")
    assert second["runs"][0]["note"] == "seen"
    Notes(home).remove([RUN])
    assert "note" not in get(place, f"/api/runs?known={second['state']}")["runs"][0]


def test_a_text_of_a_run_is_found_with_its_step_and_its_range(place: str) -> None:
    answer = get(place, f"/api/runs/{RUN}/search?q=AND%20%F0%9F%98%80")
    assert {(found["step"], found["part"]) for found in answer["places"]} == {
        *(("start", "inputs"), ("1", "output"), ("1", "observation"))
    }
    (output,) = [found for found in answer["places"] if found["part"] == "output"]
    assert output["around"][1] == "and \U0001f600"
    assert output["around"][0].endswith("half \ud800 ")
    assert output["span"] == [7, 12]
    assert output["more"] == 99
    assert get(place, f"/api/runs/{RUN}/search?q=.*")["places"] == []
    assert get(place, f"/api/runs/{RUN}/search?q=")["places"] == []


def test_other_machines_need_the_token(home: Path) -> None:
    server = make_server(home, host="0.0.0.0")
    thread = threading.Thread(target=server.run)
    thread.start()
    try:
        at = urlsplit(server.address)
        assert server.open_to_others
        local = f"http://127.0.0.1:{at.port}"
        token = at.path.strip("/")
        assert len(token) >= 32
        assert get(local, f"/{token}/api/runs")["runs"]
        assert b"static/page.js" in ask(local, f"/{token}/")[2]
        assert ask(local, f"/{token}/static/page.js")[0] == 200
        for path in (
            "/",
            "/api/runs",
            f"/{token[:-1]}/api/runs",
            f"/{token}x/api/runs",
            "//api/runs",
            "/static/page.js",
        ):
            status, _, body = ask(local, path)
            assert status == 404, path
            assert token.encode() not in body
        assert ask(local, f"/{token}/api/runs", Host="evil.example")[0] == 421
        assert ask(local, f"/{token}/api/runs", Host="192.168.7.7:80")[0] == 200
        assert ask(local, f"/{token}/api/runs", Host=f"{socket.gethostname()}:1")[0] == 200
    finally:
        server.stop()
        thread.join(30)


def test_a_port_that_is_taken_is_said(home: Path) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        with pytest.raises(OSError, match="in use"):
            make_server(home, port=taken.getsockname()[1])


def test_names_are_read_without_their_ports() -> None:
    assert [host_name(one) for one in ("a:1", "[::1]:2", "A", "::1", "[::1]x", "a:b")] == ["a", "::1", "a", "", "", ""]
    assert [is_loopback(one) for one in ("localhost", "127.9.9.9", "::1", "10.0.0.1", "localhost.")] == [
        *(True, True, True, False, False)
    ]


def test_a_browser_is_opened_only_where_it_is_seen() -> None:
    assert not has_display({"SSH_CONNECTION": "a", "DISPLAY": ":0"}.get)
    assert has_display({"WAYLAND_DISPLAY": "wayland-0"}.get)


def test_all_modules_are_sent_as_one(place: str) -> None:
    _, _, page = ask(place, "/")
    assert re.findall(rb'src="([^"]+)"', page) == [b"static/page.js"]
    _, headers, script = ask(place, "/static/page.js")
    assert headers["content-type"] == "text/javascript; charset=utf-8"
    modules = {path.relative_to(STATIC).with_suffix("").as_posix() for path in STATIC.rglob("*.js")}
    assert set(re.findall(r"^const from_(\w+) = ", script.decode(), re.MULTILINE)) == {
        module.replace("/", "_") for module in modules
    }
    assert len(modules) > 30
    assert not re.search(rb"^(import|export)\b", script, re.MULTILINE)


def test_all_style_sheets_are_sent_as_one(place: str) -> None:
    _, _, page = ask(place, "/")
    assert b'href="static/page.css"' in page
    _, headers, style = ask(place, "/static/page.css")
    assert headers["content-type"] == "text/css; charset=utf-8"
    assert sorted(STYLES) == sorted(path.stem for path in (STATIC / "css").iterdir())
    for path in (STATIC / "css").iterdir():
        assert path.read_bytes() in style


def test_no_script_of_the_page_reads_markup() -> None:
    for path in STATIC.rglob("*.js"):
        forbidden = r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|\beval\(|new Function|DOMParser|setHTML"
        assert not re.search(forbidden, path.read_text(encoding="utf-8")), path.name


def test_a_run_that_is_no_longer_there_is_not_shown(home: Path, tmp_path: Path) -> None:
    shutil.copytree(home, tmp_path / "copy")
    cache = RunCache(tmp_path / "copy")
    assert cache.run(RUN).id == RUN
    shutil.rmtree(tmp_path / "copy" / "traces")
    with pytest.raises(UnknownRun):
        cache.run(RUN)
    assert len(cache.runs()) == 0


def test_a_damaged_trace_is_a_problem_in_words(home: Path, tmp_path: Path) -> None:
    shutil.copytree(home, tmp_path / "copy")
    for path in (tmp_path / "copy" / "traces").glob("*.db"):
        whole = path.read_bytes()
        path.write_bytes(whole[:8192] + b"\xff" * (len(whole) - 8192))
    with contextlib.contextmanager(serve)(tmp_path / "copy") as place:
        status, _, body = ask(place, f"/api/runs/{RUN}/events")
        assert status in (404, 500)
        assert json.loads(body)["problem"]
        assert ask(place, "/api/runs")[0] == 200
