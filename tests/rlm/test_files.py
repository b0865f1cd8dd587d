"""Locks and atomic replacement: between threads and processes, over forks and kills."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from rlm.files import FileLock, is_locked, replacing, write_atomic

_HOLD = """
import pathlib, sys
from rlm.files import FileLock
FileLock(pathlib.Path(sys.argv[1])).acquire()
print("locked", flush=True)
sys.stdin.read()
"""
_FULL = """
import pathlib, resource, sys
from rlm.files import write_atomic
resource.setrlimit(resource.RLIMIT_FSIZE, (100, 100))
try:
    write_atomic(pathlib.Path(sys.argv[1]), b"x" * 1000)
except OSError as error:
    print(error.strerror)
"""
_WRITE = """
import pathlib, sys
from rlm.files import replacing
with replacing(pathlib.Path(sys.argv[1])) as file:
    file.write(b"half")
    file.flush()
    print("written", flush=True)
    sys.stdin.read()
"""


def _start(code: str, path: Path) -> subprocess.Popen[str]:
    process = subprocess.Popen(
        [sys.executable, "-c", code, str(path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    assert process.stdout.readline().strip() in ("locked", "written")
    return process


def _kill(process: subprocess.Popen[str]) -> None:
    process.kill()
    process.communicate()


def _in_child(check: object) -> int:
    """Run a check in a forked child and return its exit code: 0 where it is true."""
    child = os.fork()
    if child == 0:
        os._exit(0 if check() else 1)  # type: ignore[operator]
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def test_a_lock_keeps_other_objects_out_until_it_is_released(tmp_path: Path) -> None:
    path = tmp_path / "a.lock"
    first, second = FileLock(path), FileLock(path)
    assert first.acquire(timeout=0)
    assert not second.acquire(timeout=0)
    assert is_locked(path)
    first.release()
    assert not is_locked(path)
    assert second.acquire(timeout=0)
    second.release()


def test_a_timeout_ends_the_wait_and_a_release_within_it_too(tmp_path: Path) -> None:
    first, second = FileLock(tmp_path / "a.lock"), FileLock(tmp_path / "a.lock")
    first.acquire()
    began = time.monotonic()
    assert not second.acquire(timeout=0.1)
    assert 0.1 <= time.monotonic() - began < 5
    threading.Timer(0.1, first.release).start()
    assert second.acquire(timeout=30)
    second.release()


def test_locked_blocks_of_threads_do_not_overlap(tmp_path: Path) -> None:
    counted = tmp_path / "count"
    counted.write_text("0")

    def add() -> None:
        for _ in range(50):
            with FileLock(tmp_path / "a.lock"):
                write_atomic(counted, str(int(counted.read_text()) + 1), durable=False)

    threads = [threading.Thread(target=add) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert counted.read_text() == "200"


def test_the_lock_of_a_killed_process_is_free(tmp_path: Path) -> None:
    holder = _start(_HOLD, tmp_path / "a.lock")
    lock = FileLock(tmp_path / "a.lock")
    try:
        assert not lock.acquire(timeout=0)
    finally:
        _kill(holder)
    assert lock.acquire(timeout=10)
    lock.release()


def test_a_forked_child_has_no_lock_and_does_not_release_its_parents(tmp_path: Path) -> None:
    path = tmp_path / "a.lock"
    lock = FileLock(path)
    lock.acquire()

    def child() -> bool:
        lock.release()  # without effect here
        return is_locked(path) and not FileLock(path).acquire(timeout=0)

    assert _in_child(child) == 0
    assert is_locked(path)
    lock.release()


def test_a_forked_child_that_lives_on_does_not_keep_the_lock(tmp_path: Path) -> None:
    path = tmp_path / "a.lock"
    lock = FileLock(path)
    lock.acquire()
    child = os.fork()
    if child == 0:
        signal.pause()
        os._exit(0)
    try:
        lock.release()
        assert FileLock(path).acquire(timeout=10)
    finally:
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)


def test_a_lock_file_that_was_removed_is_not_locked_in_vain(tmp_path: Path) -> None:
    path = tmp_path / "a.lock"
    old = FileLock(path)
    old.acquire()
    path.unlink()
    assert not old.is_current()
    new = FileLock(path)
    assert new.acquire(timeout=0)
    assert new.is_current()
    old.release()
    new.release()


def test_the_content_of_a_locked_file_stays(tmp_path: Path) -> None:
    path = tmp_path / "lines"
    path.write_text("one\n")
    lock = FileLock(path, append=True)
    lock.acquire()
    os.write(lock.fileno(), b"two\n")
    lock.release()
    assert path.read_text() == "one\ntwo\n"
    with pytest.raises(ValueError, match="not locked"):
        lock.fileno()


def test_a_failed_block_leaves_the_old_file_and_nothing_else(tmp_path: Path) -> None:
    path = tmp_path / "a.json"
    path.write_text("old")
    with pytest.raises(TypeError), replacing(path) as file:
        file.write("new")  # type: ignore[arg-type]
    assert path.read_text() == "old"
    assert os.listdir(tmp_path) == ["a.json"]


def test_a_write_without_room_leaves_the_old_file_and_nothing_else(tmp_path: Path) -> None:
    path = tmp_path / "a.json"
    path.write_text("old")
    done = subprocess.run([sys.executable, "-c", _FULL, str(path)], capture_output=True, text=True, check=True)
    assert done.stdout == "File too large\n"
    assert path.read_text() == "old"
    assert os.listdir(tmp_path) == ["a.json"]


def test_a_killed_writer_leaves_the_old_file_and_its_remains_are_removed_later(tmp_path: Path) -> None:
    path = tmp_path / "a.json"
    path.write_text("old")
    _kill(_start(_WRITE, path))
    assert path.read_text() == "old"
    (left,) = [one for one in tmp_path.iterdir() if one != path]
    write_atomic(path, "new")
    assert left.exists(), "its writer may be alive"
    os.utime(left, (0, 0))
    write_atomic(path, "newer")
    assert (path.read_text(), os.listdir(tmp_path)) == ("newer", ["a.json"])


def test_a_replaced_file_keeps_its_permissions_and_a_link_stays_one(tmp_path: Path) -> None:
    path, link = tmp_path / "a.json", tmp_path / "link"
    write_atomic(path, "one", mode=0o600)
    assert path.stat().st_mode & 0o777 == 0o600
    path.chmod(0o640)
    link.symlink_to(path)
    write_atomic(link, "two")
    assert link.is_symlink()
    assert (path.read_text(), path.stat().st_mode & 0o777) == ("two", 0o640)
