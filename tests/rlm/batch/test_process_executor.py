"""The local executor with real processes and real sandboxes: they are killed and stopped, and nothing is lost."""

from __future__ import annotations

import contextlib
import http.server
import json
import os
import signal
import sys
import threading
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any, ClassVar

import psutil
import pytest

from rlm.batch.driver import StopRules
from rlm.batch.errors import ExecutorError, MachineUnfit
from rlm.batch.executors.base import WorkerConfig
from rlm.batch.executors.processes import ProcessExecutor
from rlm.batch.item import Item
from tests.support import batches

pytestmark = pytest.mark.processes

# Tools run in the worker process itself: this one ends it, or stops it, when an item says so.
KIT = '''
import os, signal, time
from pathlib import Path
from tests.support import batches


def wish(word: str) -> str:
    """Do what the word says."""
    if word == "die":
        os.kill(os.getpid(), signal.SIGKILL)
    if word == "freeze":
        os.kill(os.getpid(), signal.SIGSTOP)
    if word.startswith("once "):
        mark = Path(word.removeprefix("once "))
        if not mark.exists():
            mark.touch()
            os.kill(os.getpid(), signal.SIGKILL)
    if word.startswith("sleep "):
        time.sleep(float(word.removeprefix("sleep ")))
    return word
'''
REPLIES = """\
main:
  - |
    ```python
    wish(word)
    SUBMIT(twice=2 * n)
    ```
"""


@pytest.fixture(scope="module")
def executor(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ProcessExecutor]:
    made = ProcessExecutor(workers=1, at_once=3, log=tmp_path_factory.mktemp("executor") / "log")
    yield made
    made.close()


def _folder(path: Path, words: list[str]) -> Path:
    # A process knows one module of a name, so each folder has one of its own.
    batches.write_folder(path, 0, task=batches.TASK + f"tools: [kit_{path.name}:wish]\n", replies=REPLIES)
    (path / f"kit_{path.name}.py").write_text(KIT)
    (path / "rows.csv").write_text("n,word\n" + "".join(f"{n},{word}\n" for n, word in enumerate(words, 1)))
    return path


def _items(folder: Path) -> list[Item]:
    return [replace(one, key=f"{folder.name} {one.name}") for one in batches.source_of(folder).read()]


def test_items_run_in_other_processes_and_their_runs_are_on_record(executor: ProcessExecutor, tmp_path: Path) -> None:
    from rlm.files import home
    from rlm.traces import load

    folder = batches.write_folder(tmp_path / "a", 5)
    _, outcomes = batches.drive(folder, executor)
    batches.check_complete(folder, 5)
    batches.check_lines(folder, 5)
    assert {one.worker.rpartition(":")[2] for one in outcomes} == {str(pid) for pid in executor.pids}
    assert str(os.getpid()) not in {one.worker.rpartition(":")[2] for one in outcomes}
    wanted = {one.run_id for one in outcomes}
    end = time.monotonic() + 60
    while time.monotonic() < end:  # the worker writes its traces a moment after it says how a run ended
        ended = {run.id for run in load(home()) if run.ending == "submitted"}
        if wanted <= ended:
            break
    assert wanted <= ended


def test_a_worker_that_is_killed_is_replaced_and_its_items_are_run_again(
    executor: ProcessExecutor, tmp_path: Path
) -> None:
    folder = _folder(tmp_path / "killed", [f"once {tmp_path}/mark", "a", "b", "c", "d"])
    before = executor.pids
    _, outcomes = batches.drive(folder, executor)
    batches.check_complete(folder, 5)
    assert len(outcomes) == 5
    assert before != executor.pids


def test_an_item_that_kills_its_workers_is_given_up_and_takes_nobody_with_it(
    executor: ProcessExecutor, tmp_path: Path
) -> None:
    folder = _folder(tmp_path / "poison", ["a", "die", "b", "c"])
    batch, _ = batches.drive(folder, executor, rules=StopRules(max_losses=2))
    assert batch.endings == {"Submitted": 3, "Extracted": 0, "Failed": 0, "Lost": 1}
    (given_up,) = [one for one in batches.lines(folder) if one["ending"] == "Lost"]
    assert given_up["item"] == "row 2"
    assert "given up after it was lost 2 times" in given_up["error"]
    assert "SIGKILL" in given_up["error"]


def _fork_server(worker: int) -> psutil.Process:
    """The process that forks the kernels of a worker."""
    for one in psutil.Process(worker).children():
        with contextlib.suppress(psutil.NoSuchProcess):  # a check that has ended
            if "sandbox.zygote" in " ".join(one.cmdline()):
                return one
    raise LookupError("it has no fork server")


class _Killer(http.server.BaseHTTPRequestHandler):
    """A model that kills the fork server of whoever asks it first, and answers when all kernels are gone."""

    executor: ClassVar[ProcessExecutor]
    killed: ClassVar[list[int]] = []
    one: ClassVar[threading.Lock] = threading.Lock()

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers["Content-Length"]))
        with self.one:
            if not self.killed:
                (worker,) = self.executor.pids
                server = _fork_server(worker)
                family = [server, *server.children(recursive=True)]
                self.killed.append(server.pid)
                server.kill()
                psutil.wait_procs(family, timeout=30)
        answer = {"role": "assistant", "content": "```python\nSUBMIT(twice=2 * n)\n```"}
        choices = [{"index": 0, "finish_reason": "stop", "message": answer}]
        body = json.dumps({"id": "x", "object": "chat.completion", "created": 1, "model": "any", "choices": choices})
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body.encode())

    def log_message(self, format: str, *arguments: Any) -> None:
        pass


def test_an_item_whose_sandbox_was_killed_is_run_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SOME_KEY", "sk-any")
    # Without a response cache.
    _Killer.executor = executor = ProcessExecutor(WorkerConfig(traffic={}), workers=1, at_once=3)
    messages: list[str] = []
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), _Killer) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        base = f"http://127.0.0.1:{server.server_address[1]}/v1"
        model = {"main": {"model": "openai/any", "api_base": base, "api_key_env": "SOME_KEY"}}
        task = batches.TASK.replace("{scripted: replies.yaml}", json.dumps(model))
        folder = batches.write_folder(tmp_path / "zygote", 3, task=task)
        batch, _ = batches.drive(folder, executor, notify=messages.append)
        server.shutdown()
        executor.close()
    assert len(_Killer.killed) == 1, batches.lines(folder)
    assert batch.endings == {"Submitted": 3, "Extracted": 0, "Failed": 0, "Lost": 0}, batches.lines(folder)
    batches.check_complete(folder, 3)
    assert messages
    assert all("its sandbox on " in one and one.endswith("; it is run again") for one in messages)


def test_a_worker_that_is_stuck_is_ended_when_a_lease_does(executor: ProcessExecutor, tmp_path: Path) -> None:
    first, second = _items(_folder(tmp_path / "stuck", ["freeze", "a"]))
    outcomes = {one.name: one for one in executor.run([replace(first, lease=3.0), second])}
    assert outcomes["row 1"].ending == "Lost"
    assert "did not end in 3 seconds, and the worker was killed" in (outcomes["row 1"].error or "")
    assert outcomes["row 2"].ending in ("Submitted", "Lost")


def test_a_lease_does_not_end_while_an_item_waits_for_its_turn_to_ask(tmp_path: Path) -> None:
    # The second item's question is due after eight seconds, and its lease is for seven.
    limits = {"rate_limit_folder": str(tmp_path / "pace"), "limits": {"scripted/main": {"requests": 7.5}}}
    executor = ProcessExecutor(WorkerConfig(traffic=limits), workers=1, at_once=2)
    try:
        items = _items(_folder(tmp_path / "waiting", ["a", "b"]))
        list(executor.run([replace(items[0], inputs={"n": "x"})]))  # the worker has started: it can take a while
        outcomes = list(executor.run([replace(one, lease=7.0) for one in items]))
    finally:
        executor.close()
    assert [(one.ending, one.error) for one in outcomes] == [("Submitted", None)] * 2


def _most_taken(executor: ProcessExecutor, items: list[Item]) -> int:
    """Return the highest number of items that the executor had taken without yielding their outcomes."""
    taken = most = 0

    def source() -> Iterator[Item]:
        nonlocal taken
        for item in items:
            taken += 1
            yield item

    for done, outcome in enumerate(executor.run(source()), 1):
        assert outcome.ending == "Submitted", outcome.error
        most = max(most, taken - done)
    assert taken == len(items)
    return most


def test_items_are_taken_when_there_is_room_and_quick_ones_ahead(tmp_path: Path) -> None:
    executor = ProcessExecutor(WorkerConfig(traffic={}), workers=1, at_once=2)
    try:
        slow = _most_taken(executor, _items(_folder(tmp_path / "slow", ["sleep 1.2"] * 6)))
        quick = _most_taken(executor, _items(_folder(tmp_path / "quick", ["w"] * 12)))
    finally:
        executor.close()
    assert slow <= 2
    assert 2 < quick <= 6


def test_the_lease_of_an_item_that_was_sent_ahead_begins_with_its_turn(tmp_path: Path) -> None:
    executor = ProcessExecutor(WorkerConfig(traffic={}), workers=1, at_once=1)
    try:
        first, slow, quick = _items(_folder(tmp_path / "turns", ["w", "sleep 6", "w"]))
        outcomes = list(executor.run([first, slow, replace(quick, lease=6.0)]))
    finally:
        executor.close()
    assert [(one.ending, one.error) for one in outcomes] == [("Submitted", None)] * 3


def test_an_item_that_cannot_be_bound_fails_and_the_others_go_on(executor: ProcessExecutor, tmp_path: Path) -> None:
    first, second = _items(_folder(tmp_path / "bad", ["a", "b"]))
    outcomes = {one.name: one for one in executor.run([replace(first, inputs={"n": "x"}), second])}
    assert (outcomes["row 1"].ending, outcomes["row 2"].ending) == ("Failed", "Submitted")
    assert "expected int" in (outcomes["row 1"].error or "")


def test_where_the_isolation_that_is_asked_for_is_missing_the_batch_ends_at_once(
    executor: ProcessExecutor, tmp_path: Path
) -> None:
    missing = "namespaces" if sys.platform == "darwin" else "seatbelt"
    task = batches.TASK + f"sandbox: {{isolation: {missing}}}\n"
    folder = batches.write_folder(tmp_path / "unfit", 50, task=task)
    with pytest.raises(MachineUnfit, match=missing):
        batches.drive(folder, executor)
    assert batches.lines(folder) == []


def test_workers_end_with_their_driver_however_that_ends(tmp_path: Path) -> None:
    import subprocess

    folder = _folder(tmp_path / "orphans", ["a"] * 200)
    code = (
        "from pathlib import Path\n"
        "from rlm.batch.executors.processes import ProcessExecutor\n"
        "from tests.support import batches\n"
        "executor = ProcessExecutor(workers=1)\n"
        f"source = batches.source_of(Path({str(folder)!r}))\n"
        "import dataclasses\n"
        "items = (dataclasses.replace(one, key=one.name) for one in source.read())\n"
        "for outcome in executor.run(items): print(*executor.pids, flush=True)\n"
    )
    driver = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True)
    assert driver.stdout is not None
    worker = psutil.Process(int(driver.stdout.readline()))
    family = [worker, *worker.children(recursive=True)]
    assert len(family) > 1
    driver.send_signal(signal.SIGKILL)
    driver.wait()
    driver.stdout.close()
    _, alive = psutil.wait_procs(family, timeout=30)
    assert alive == []


def test_processes_that_do_not_start_are_an_error_and_not_a_loop(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    folder = batches.write_folder(tmp_path / "batch", 5)
    executor = ProcessExecutor(WorkerConfig(traffic={}), workers=1, log=tmp_path / "log")
    (tmp_path / "rlm").mkdir()
    (tmp_path / "rlm" / "__init__.py").write_text("raise SystemExit('another rlm')\n")
    with pytest.raises(ExecutorError, match="worker processes do not start: it exited with status 1"):
        batches.drive(folder, executor)
    executor.close()
    assert "another rlm" in (tmp_path / "log").read_text()
