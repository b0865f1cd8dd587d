"""The log file: a whole JSON array at every moment, under several writers, and when one of them is killed."""

from __future__ import annotations

import json
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from rlm.plans import JsonLog, JsonLogError

APPEND = """
import os, sys
from rlm.plans import JsonLog
path, writers, count = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
gate, go = os.pipe()
for writer in range(writers):
    if os.fork() == 0:
        os.close(go)
        os.read(gate, 1)  # all begin when the gate is closed
        for number in range(count):
            JsonLog(path).append({"writer": writer, "number": number, "text": "x" * 200})
        os._exit(0)
os.close(go)
os.close(gate)
print("begun", flush=True)
sys.exit(sum(os.wait()[1] != 0 for _ in range(writers)))
"""

KILL = """
import itertools, os, signal, sys
from rlm.plans import JsonLog
log, total = JsonLog(sys.argv[1]), 0
for turn in range(int(sys.argv[2])):
    said, say = os.pipe()
    child = os.fork()
    if child == 0:
        for number in itertools.count():
            log.append({"turn": turn, "number": number, "text": "x" * 5000})
            os.write(say, b"+")
    os.close(say)
    for _ in range(2 + turn):  # it dies at another moment each time, in the midst of its writing
        assert os.read(said, 1)
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    acknowledged = 2 + turn + len(os.read(said, 100_000))
    mine = [one["number"] for one in log.read() if one["turn"] == turn]
    assert mine == list(range(len(mine))), mine
    # What was said to be written is there; one more may be, which was written and not said.
    assert acknowledged <= len(mine) <= acknowledged + 1, (acknowledged, len(mine))
    log.append({"turn": "after", "number": turn})
    total += len(mine) + 1
assert len(log.read()) == total
"""

FULL = """
import resource, signal, sys
from rlm.plans import JsonLog, JsonLogError
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, (4096, 4096))  # as on a disk that has no more room
log, written = JsonLog(sys.argv[1]), 0
try:
    while True:
        log.append({"number": written, "text": "x" * 300})
        written += 1
except JsonLogError as error:
    print(written, error)
"""


def script(text: str, *arguments: object) -> subprocess.Popen[str]:
    command = [sys.executable, "-c", text, *map(str, arguments)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def test_ten_processes_append_at_once_and_lose_nothing(tmp_path: Path) -> None:
    path = tmp_path / "log.json"
    reads = 0
    with script(APPEND, path, 10, 12) as writers:
        assert writers.stdout is not None
        assert writers.stdout.readline() == "begun\n"
        while writers.poll() is None:
            JsonLog(path).read()  # raises unless the array is whole
            reads += 1
        assert (writers.returncode, writers.stderr and writers.stderr.read()) == (0, "")
    found = [(entry["writer"], entry["number"]) for entry in json.loads(path.read_text())]
    assert sorted(found) == [(writer, number) for writer in range(10) for number in range(12)]
    for number in range(10):  # each writer's own are in order
        assert [n for w, n in found if w == number] == list(range(12))
    assert reads > 1


def test_a_writer_that_is_killed_leaves_a_whole_log_and_no_lock(tmp_path: Path) -> None:
    with script(KILL, tmp_path / "log.json", 12) as killer:
        _, said = killer.communicate(timeout=100)
        assert (killer.returncode, said) == (0, "")


def test_a_write_that_stopped_half_way_is_not_read(tmp_path: Path) -> None:
    log = JsonLog(tmp_path / "log.json")
    log.append({"n": 1})
    (tmp_path / ".log.json.0a1b2c3d.tmp").write_text('[{"n": 1}, {"n": ')  # what a killed writer leaves
    assert log.read() == [{"n": 1}]
    log.append({"n": 2})
    assert log.read() == [{"n": 1}, {"n": 2}]


def test_threads_of_one_process_exclude_each_other(tmp_path: Path) -> None:
    log = JsonLog(tmp_path / "log.json")
    threads = [threading.Thread(target=lambda n=n: log.append({"n": n})) for n in range(8)]
    for one in threads:
        one.start()
    for one in threads:
        one.join()
    assert sorted(entry["n"] for entry in log.read()) == list(range(8))


def test_what_others_wrote_stays_byte_for_byte(tmp_path: Path) -> None:
    path = tmp_path / "log.json"
    theirs = '[\r\n  {"a" : 1.50, "b": "\\u00e9"},\r\n  {"c":12345678901234567890}'
    path.write_bytes((theirs + "\r\n]\r\n").encode())
    path.chmod(0o640)
    JsonLog(path).append({"d": "é"})
    written = path.read_bytes().decode()
    assert written.startswith(theirs)
    assert json.loads(written)[2] == {"d": "é"}
    assert path.stat().st_mode & 0o777 == 0o640


def test_a_link_stays_a_link(tmp_path: Path) -> None:
    real, link = tmp_path / "real.json", tmp_path / "log.json"
    link.symlink_to(real)
    JsonLog(link).append({"n": 1})
    assert link.is_symlink()
    assert json.loads(real.read_text()) == [{"n": 1}]


def test_hostile_texts_come_back_as_they_were(tmp_path: Path) -> None:
    log = JsonLog(tmp_path / "log.json")
    for text in ("]\n[", '"},{"', "\ud800 half", "\x00\x1b[2J", "\u2028", "]"):
        log.append({"text": text})
    assert [one["text"] for one in log.read()] == ["]\n[", '"},{"', "\ud800 half", "\x00\x1b[2J", "\u2028", "]"]


def test_what_json_does_not_know_is_not_written(tmp_path: Path) -> None:
    log = JsonLog(tmp_path / "log.json")
    log.append({"n": 1})
    with pytest.raises(ValueError, match="JSON compliant"):
        log.append({"n": float("nan")})
    with pytest.raises(TypeError):
        log.append({"n": object()})
    assert log.read() == [{"n": 1}]


def test_a_place_that_cannot_be_written_is_said(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(JsonLogError, match="cannot be written"):
        JsonLog(tmp_path / "file" / "log.json").append({"n": 1})


def test_a_disk_that_is_full_leaves_what_was_there(tmp_path: Path) -> None:
    path = tmp_path / "log.json"
    with script(FULL, path) as writer:
        said, errors = writer.communicate(timeout=100)
    assert (writer.returncode, errors) == (0, "")
    written, _, error = said.partition(" ")
    assert "cannot be written" in error
    assert [one["number"] for one in JsonLog(path).read()] == list(range(int(written)))
    assert int(written) > 5
    assert sorted(one.name for one in tmp_path.iterdir()) == ["log.json", "log.json.lock"]
