"""The writer and the store: what is written comes back, once, in order, and nothing that went wrong stops a run."""

from __future__ import annotations

import json
import multiprocessing
import os
import sqlite3
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from rlm.events import Event
from rlm.redaction import MARK
from rlm.traces import TraceWriter, load
from rlm.traces import recorder as recorder_module
from rlm.traces import writer as writer_module
from rlm.traces.paths import writer_is_alive
from rlm.traces.writer import default_observer
from tests.support.events import make_event


@pytest.fixture
def writer(tmp_path: Path) -> Iterator[TraceWriter]:
    with TraceWriter(tmp_path) as made:
        yield made


def _start(run: str = "a" * 12, **data: Any) -> Event:
    return make_event("run_started", run, {"signature": {"name": "Task"}, "inputs": {}, **data})


def _end(run: str = "a" * 12, **data: Any) -> Event:
    return make_event("run_ended", run, {"ending": "Submitted", "confidence": 1.0, **data})


def test_events_come_back_in_order_with_their_long_texts_by_reference(writer: TraceWriter, tmp_path: Path) -> None:
    long = "x" * 5_000
    writer(_start())
    writer(make_event("cell_started", "a" * 12, {"iteration": 1, "code": long}))
    writer(make_event("something_new", "a" * 12, {"deep": [{"text": long}, 1.5, None, float("inf")]}))
    writer(_end())
    assert writer.flush(30)

    run = load(tmp_path)[0]
    events = run.events()
    assert [event.sequence for event in events] == [1, 2, 3, 4]
    assert events[1].data["code"]["size"] == 5_000
    assert events[1].data["code"] == events[2].data["deep"][0]["text"]
    assert run.resolve(events[2].data) == {"deep": [{"text": long}, 1.5, None, "inf"]}
    assert run.blob(events[1].data["code"]["$body"]) == long
    assert [event.kind for event in run.events(after=1, limit=2)] == ["cell_started", "something_new"]


def test_events_know_what_they_happened_under(writer: TraceWriter, tmp_path: Path) -> None:
    kinds = [
        ("run_started", {"inputs": {}}),
        ("iteration_started", {"iteration": 1}),
        ("model_asked", {"id": 1, "role": "main", "iteration": 1, "turns": []}),
        ("model_answered", {"id": 1, "text": "hm"}),
        ("cell_started", {"iteration": 1, "code": "f()"}),
        ("call_started", {"id": 7, "name": "f", "iteration": 1, "arguments": "[]"}),
        ("model_asked", {"id": 2, "role": "sub", "call": 7, "turns": []}),
        ("model_answered", {"id": 2, "text": "yes"}),
        ("call_ended", {"id": 7, "name": "f", "seconds": 0.1, "answer": "1"}),
        ("cell_ended", {"iteration": 1, "output": "", "success": True}),
        ("history", {"iteration": 1}),
        ("trigger_fired", {"reason": "enough"}),
        ("extraction_attempt", {"number": 1}),
    ]
    for kind, data in kinds:
        writer(make_event(kind, "a" * 12, data))
    assert writer.flush(30)
    parents = [event.parent for event in load(tmp_path)[0].events()]
    assert parents == [None, None, 2, 3, 2, 5, 6, 7, 6, 5, 2, None, 12]


def test_a_large_input_of_many_runs_is_there_once(writer: TraceWriter, tmp_path: Path) -> None:
    text = "".join(f"{number * 7919 % 104729:06d} " for number in range(1_500_000))
    assert len(text) > 10_000_000
    for number in range(20):
        writer(_start(f"{number:012d}", inputs={"doc": text}))
        writer(_end(f"{number:012d}"))
    assert writer.flush(100)

    runs = load(tmp_path)
    assert len(runs) == 20
    assert runs[0].file.query("SELECT count(*) FROM bodies")[0][0] == 1
    assert runs[13].inputs()["doc"] == text
    assert sum(file.stat().st_size for file in writer.folder.iterdir()) < 2 * len(text)


def test_inputs_of_every_kind_come_back(writer: TraceWriter, tmp_path: Path) -> None:
    given = {
        "text": "a \ud800 lone surrogate, \x1b[31m, <script>",
        "data": bytes(range(256)) * 10,
        "number": 5,
        "nothing": None,
        "rows": [{"n": number, "t": "x" * 300} for number in range(300)],
        "table": {str(number): number for number in range(1_000)},
    }
    writer(_start(inputs=given))
    assert writer.flush(30)
    assert load(tmp_path)[0].inputs() == given


def test_what_cannot_be_written_down_is_described_and_said(writer: TraceWriter, tmp_path: Path) -> None:
    from rlm.traces.encoding import InputNotRecorded

    writer(_start(inputs={"odd": object(), "fine": 1}))
    assert writer.flush(30)
    run = load(tmp_path)[0]
    assert run.beginning["inputs"]["odd"]["type"] == "object"
    with pytest.raises(InputNotRecorded, match="'odd'"):
        run.inputs()


def test_what_a_model_wrote_is_never_taken_for_a_reference(writer: TraceWriter, tmp_path: Path) -> None:
    outputs = {"$body": "0" * 40, "nested": {"$json": "1", "text": "y" * 1_000}}
    writer(_start())
    writer(_end(result={"outputs": outputs}))
    assert writer.flush(30)
    result = load(tmp_path)[0].result()
    assert result is not None
    assert result["outputs"] == outputs


def test_values_that_json_does_not_know_do_not_stop_the_trace(writer: TraceWriter, tmp_path: Path) -> None:
    loop: list[Any] = []
    loop.append(loop)
    writer(_start())
    writer(make_event("odd", "a" * 12, {"object": object(), "set": {1}, "path": Path("x")}))
    writer(make_event("odd", "a" * 12, {"loop": loop}))
    writer(_end())
    assert writer.flush(30)
    run = load(tmp_path)[0]
    assert run.ending == "submitted"
    assert run.events()[1].data["path"] == "x"
    assert run.events()[2].data["kind"] == "odd"
    assert run.events()[2].data["not_kept"].startswith("RecursionError")


class Unprintable:
    """A value that cannot be recorded, whatever is asked of it."""

    def __repr__(self) -> str:
        raise OSError("no text")


@pytest.mark.parametrize(
    ("kind", "data"),
    [
        pytest.param("odd", {"value": Unprintable()}, id="a value without a text"),
        pytest.param("model_answered", {"id": 1, "text": "", "tokens_in": 1 << 70}, id="tokens SQLite cannot hold"),
        pytest.param("iteration_started", {"iteration": 1 << 70}, id="an iteration SQLite cannot hold"),
    ],
)
def test_one_event_that_cannot_be_recorded_is_replaced_and_recording_goes_on(
    writer: TraceWriter, tmp_path: Path, kind: str, data: dict[str, Any]
) -> None:
    writer(_start())
    writer(_start("b" * 12))
    writer(make_event("iteration_started", "a" * 12, {"iteration": 1}))
    writer(make_event(kind, "a" * 12, data))
    writer(make_event("cell_started", "a" * 12, {"iteration": 1, "code": "x = 1"}))
    writer(_end())
    writer(_end("b" * 12))
    assert writer.flush(30), writer.problem
    run = load(tmp_path).run("a" * 12)
    events = run.events()
    assert [event.sequence for event in events] == [1, 2, 3, 4, 5]
    assert [event.kind for event in events[2:4]] == ["not_recorded", "cell_started"]
    assert events[2].data["kind"] == kind
    assert events[2].data["iteration"] == 1
    assert events[2].data["not_kept"]
    assert run.iterations[0].code == "x = 1"
    assert run.ending == load(tmp_path).run("b" * 12).ending == "submitted"


def test_a_run_whose_end_cannot_be_recorded_has_ended(writer: TraceWriter, tmp_path: Path) -> None:
    end = _end()
    object.__setattr__(end, "recorded", {"result": {"outputs": {"answer": float("inf")}}, "value": Unprintable()})
    writer(_start())
    writer(end)
    assert writer.flush(30), writer.problem
    run = load(tmp_path)[0]
    assert run.ending == "submitted"
    assert run.events()[-1].kind == "not_recorded"
    assert run.result() is None


def _texts(value: Any) -> Iterator[str]:
    if isinstance(value, dict):
        value = [*value.keys(), *value.values()]
    if isinstance(value, list):
        for one in value:
            yield from _texts(one)
    else:
        yield value.decode() if isinstance(value, bytes) else str(value)


def test_no_secret_reaches_the_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    secrets = {"ACME_API_KEY": 'q7!very"secret\\key', "DB_PASSWORD": "hunter2hunter2", "GITHUB_TOKEN": "t0k3n-value-1"}
    for name, value in secrets.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("HOME_SWEET_HOME", "not-a-secret-value")
    with TraceWriter(tmp_path) as writer:
        said = " ".join(secrets.values())
        writer(_start(inputs={"doc": f"{said} " * 100, "short": secrets["DB_PASSWORD"], "data": said.encode()}))
        writer(make_event("model_asked", "a" * 12, {"id": 1, "turns": [["user", f"{said}\n" * 50]], "model": "m"}))
        writer(make_event("call_started", "a" * 12, {"id": 1, "name": "f", "arguments": json.dumps([[said], {}])}))
        writer(
            make_event("odd", "a" * 12, {said: "in a key", "header": "Authorization: Bearer abcdefghijklmnopqrstuvw"})
        )
        writer(make_event("odd", "a" * 12, {"key": "sk-proj-abcdefghijklmnop0123 not-a-secret-value"}))
        assert writer.flush(30)
    raw = b"".join(file.read_bytes() for file in writer.folder.iterdir())
    run = load(tmp_path)[0]
    shown = "\n".join(_texts([[run.resolve(event.data) for event in run.events()], run.inputs()]))
    for value in (*secrets.values(), "abcdefghijklmnopqrstuvw", "sk-proj-abc"):
        assert value not in shown
        assert value.encode() not in raw
    assert "not-a-secret-value" in shown
    assert shown.count(MARK) > 300
    assert "secret" in run.beginning["inputs"]["doc"]["note"]


def test_a_run_is_running_while_its_writer_is_alive_and_unfinished_afterwards(tmp_path: Path) -> None:
    writer = TraceWriter(tmp_path)
    writer(_start())
    assert writer.flush(30)
    run = load(tmp_path)[0]
    assert run.ending == "running"
    writer.close()
    assert load(tmp_path)[0].ending == "unfinished"
    assert run.reload().ending == "unfinished"


def test_a_run_without_iterations_of_its_own_has_those_of_its_result(writer: TraceWriter, tmp_path: Path) -> None:
    """As a run with plans has: the accepted plan is executed by a child run."""
    writer(_start())
    writer(_end(result={"outputs": {"n": 1}, "iterations": 3}))
    assert writer.flush(30)
    assert load(tmp_path)[0].iterations_used == 3


def test_an_interrupted_run_is_unfinished_at_once(writer: TraceWriter, tmp_path: Path) -> None:
    writer(_start())
    writer(make_event("run_interrupted", "a" * 12, {}))
    assert writer.flush(30)
    assert load(tmp_path)[0].ending == "unfinished"


def test_another_process_sees_whether_the_writer_is_alive(writer: TraceWriter, tmp_path: Path) -> None:
    writer(_start())
    assert writer.flush(30)
    code = "import sys; from rlm.traces import load; print(load(sys.argv[1])[0].ending)"
    seen = subprocess.run([sys.executable, "-c", code, str(tmp_path)], capture_output=True, text=True, check=True)
    assert seen.stdout.strip() == "running"
    assert load(tmp_path)[0].ending == "running"  # looking from outside took no lock away


def test_a_file_that_nobody_writes_is_taken_up_again(tmp_path: Path) -> None:
    paths = []
    for number in range(3):
        with TraceWriter(tmp_path) as writer:
            writer(_start(f"{number:012d}"))
            assert writer.flush(30)
            paths.append(writer.path)
    assert len(set(paths)) == 1
    assert len(load(tmp_path)) == 3


def test_two_writers_have_files_of_their_own(tmp_path: Path) -> None:
    with TraceWriter(tmp_path) as one, TraceWriter(tmp_path) as two:
        for number, writer in enumerate((one, two)):
            writer(_start(f"{number:012d}"))
            assert writer.flush(30)
        assert one.path != two.path
    assert len(load(tmp_path)) == 2


def test_a_large_file_is_not_taken_up_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(recorder_module, "MAX_BYTES", 20_000)
    with TraceWriter(tmp_path) as writer:
        writer(_start(inputs={"doc": os.urandom(50_000)}))
        writer(_end())
        assert writer.flush(30)
        first = writer.path
        with sqlite3.connect(str(first)) as connection:
            connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        connection.close()
        writer(_start("b" * 12))
        assert writer.flush(30)
        assert writer.path != first
    assert len(load(tmp_path)) == 2


def test_a_forked_child_writes_to_a_file_of_its_own(tmp_path: Path) -> None:
    writer = TraceWriter(tmp_path)
    writer(_start())
    assert writer.flush(30)

    def child() -> None:
        writer(_start("c" * 12))
        writer(_end("c" * 12))
        os._exit(0 if writer.flush(30) and writer_is_alive(writer.folder / "none.db") is False else 1)

    process = multiprocessing.get_context("fork").Process(target=child)
    process.start()
    process.join(60)
    assert process.exitcode == 0
    writer(_end())
    assert writer.flush(30)
    writer.close()
    runs = {run.id: run for run in load(tmp_path)}
    assert {run.ending for run in runs.values()} == {"submitted"}
    assert runs["a" * 12].file.path != runs["c" * 12].file.path


def test_where_nothing_can_be_written_that_is_said_once_and_nothing_is_raised(tmp_path: Path) -> None:
    (tmp_path / "traces").write_text("a file where a directory should be")
    said: list[str] = []
    writer = TraceWriter(tmp_path, on_problem=said.append)
    for _ in range(100):
        writer(_start())
        writer(_end())
    assert not writer.flush(30)
    writer.close()
    assert len(said) == 1
    assert "no longer recorded" in said[0]
    assert str(tmp_path) in said[0]


def test_a_database_that_stays_locked_stops_the_trace_and_not_the_run(tmp_path: Path) -> None:
    said: list[str] = []
    writer = TraceWriter(tmp_path, on_problem=said.append, on_connect=lambda one: one.execute("PRAGMA busy_timeout=50"))
    writer(_start())
    assert writer.flush(30)
    other = sqlite3.connect(str(writer.path), isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    writer(_end())
    assert not writer.flush(30)
    other.execute("ROLLBACK")
    other.close()
    writer.close()
    assert len(said) == 1
    assert "locked" in said[0]
    assert load(tmp_path)[0].ending == "unfinished"


def test_a_full_queue_makes_the_caller_wait_and_loses_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(writer_module, "MAX_QUEUED", 10)
    gate = threading.Event()
    writer = TraceWriter(tmp_path, on_connect=lambda _: gate.wait(30) and None)
    done = threading.Event()

    def put() -> None:
        writer(_start())
        for number in range(200):
            writer(make_event("tick", "a" * 12, {"number": number}))
        done.set()

    thread = threading.Thread(target=put)
    thread.start()
    assert not done.wait(0.3)  # it is being held back, for as long as nothing can be written
    gate.set()
    thread.join(30)
    assert writer.flush(30)
    writer.close()
    numbers = [event.data["number"] for event in load(tmp_path)[0].events(kinds=["tick"])]
    assert numbers == list(range(200))


def test_load_includes_every_event_that_this_process_has_recorded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RLM_HOME", str(tmp_path))
    observe = default_observer()
    for number in range(5):
        observe(_start(f"{number:012d}"))
        assert len(load()) == number + 1  # without a flush
    monkeypatch.setenv("RLM_TRACE", "off")
    default_observer()(_start("d" * 12))
    assert len(load()) == 5


def test_what_was_queued_is_written_when_the_process_ends(tmp_path: Path) -> None:
    code = """
import sys
from rlm.traces import TraceWriter
from rlm.events import Event
from tests.support.events import make_event
writer = TraceWriter(sys.argv[1])
writer(make_event("run_started", "e" * 12, {"inputs": {}}))
for number in range(500):
    writer(make_event("tick", "e" * 12, {"number": number}))
"""
    subprocess.run([sys.executable, "-c", code, str(tmp_path)], check=True)
    assert load(tmp_path)[0].event_count == 501


def test_answers_are_on_disk_soon_without_anyone_waiting(writer: TraceWriter, tmp_path: Path) -> None:
    writer(_start())
    writer(make_event("model_answered", "a" * 12, {"id": 1, "text": "paid for"}))
    deadline = time.monotonic() + 30
    while time.monotonic() < deadline:
        runs = load(tmp_path)
        if runs and runs[0].events(kinds=["model_answered"]):
            return
    pytest.fail("the answer never came to the disk")


def test_only_the_owner_can_read_the_files(writer: TraceWriter) -> None:
    writer(_start())
    assert writer.flush(30)
    assert writer.folder.stat().st_mode & 0o077 == 0
    assert all(file.stat().st_mode & 0o077 == 0 for file in writer.folder.iterdir())
