"""The pool: kernels nobody has used, refilled, and not lost with their zygote."""

from __future__ import annotations

import gc
import os
import signal
import threading
import time

import pytest

import sandbox
from sandbox import Limits


@pytest.fixture
def own_pool():
    with sandbox.Pool(size=2) as pool:
        yield pool


def waiting(pool):
    return [kernel.process.pid for kernels in pool._ready.values() for kernel in kernels]


def test_a_session_takes_a_kernel_that_waited_and_the_pool_refills(own_pool):
    assert own_pool.wait_full()
    before = waiting(own_pool)
    with sandbox.Session(pool=own_pool) as session:
        assert session.pid in before
        assert own_pool.wait_full()
        assert session.pid not in waiting(own_pool)


def test_neither_the_fork_server_nor_an_unused_kernel_has_a_second_thread(own_pool):
    """A fork of a process with threads keeps their memory, and what a kernel has mapped raises its own limit."""
    assert own_pool.wait_full()
    for pid in [own_pool._zygote.pid, *waiting(own_pool)]:
        assert len(os.listdir(f"/proc/{pid}/task")) == 1


def test_the_last_kernel_is_replaced_at_once_the_others_when_nobody_takes_any(own_pool, monkeypatch):
    monkeypatch.setattr("sandbox.pool._CALM_SECONDS", 3600.0)
    assert own_pool.wait_full()
    first = own_pool.take()
    assert own_pool._next_setup()[0] is None
    second = own_pool.take()
    while not waiting(own_pool):
        time.sleep(0.01)
    assert len(waiting(own_pool)) == 1
    monkeypatch.setattr("sandbox.pool._CALM_SECONDS", 0.0)
    own_pool._wake_filler()
    assert own_pool.wait_full()
    first.close()
    second.close()


def test_a_session_puts_nothing_into_the_file_system(tmp_path, monkeypatch):
    """So nothing is left when its host is killed at the worst moment."""
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    made = []
    monkeypatch.setattr("tempfile.mkdtemp", lambda *args, **options: made.append(args))
    with sandbox.Pool(size=1) as pool, sandbox.Session(pool=pool, isolation="namespaces") as session:
        assert session.run("1").value_repr == "1"
        assert os.listdir(tmp_path) == []
    assert made == []


def test_no_kernel_is_handed_out_twice(own_pool):
    taken, lock = [], threading.Lock()

    def take():
        with sandbox.Session(pool=own_pool) as session:
            assert session.run("'used' in dir()").value_repr == "False"
            session.run("used = True")
            with lock:
                taken.append((session.pid, time.monotonic()))

    threads = [threading.Thread(target=take) for _ in range(12)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(taken) == 12
    assert len({pid for pid, _ in taken}) == 12


def test_a_kernel_that_died_waiting_is_not_handed_out(own_pool):
    own_pool.wait_full()
    kernels = [kernel for several in own_pool._ready.values() for kernel in several]
    for kernel in kernels:
        os.kill(kernel.process.pid, signal.SIGKILL)
    until = time.monotonic() + 30
    while any(kernel.process.alive for kernel in kernels):  # a signal is sent before its process is gone
        assert time.monotonic() < until
        time.sleep(0.005)
    with sandbox.Session(pool=own_pool) as session:
        assert session.run("1").value_repr == "1"


def test_the_pool_survives_the_death_of_its_zygote(own_pool):
    own_pool.wait_full()
    session = sandbox.Session(pool=own_pool)
    os.kill(own_pool._zygote.pid, signal.SIGKILL)
    result_or_closed = None
    try:
        result_or_closed = session.run("import time; time.sleep(5)")
    except sandbox.SessionClosed:
        pass
    assert result_or_closed is None or result_or_closed.death is not None
    assert not session.alive
    session.close()
    with sandbox.Session(pool=own_pool) as another:
        assert another.run("1").value_repr == "1"
    assert own_pool.wait_full()


def test_sessions_with_other_limits_get_kernels_with_other_limits(own_pool):
    small = Limits(memory_bytes=64 << 20)
    with sandbox.Session(pool=own_pool, limits=small) as session:
        assert not session.run("bytearray(200 << 20)").ok
    with sandbox.Session(pool=own_pool) as session:
        assert session.run("len(bytearray(200 << 20))").ok


def test_a_closed_pool_leaves_no_process_and_hands_out_nothing(own_pool):
    own_pool.wait_full()
    pids = [*waiting(own_pool), own_pool._zygote.pid]
    own_pool.close()
    for _ in range(500):
        if not any(os.path.exists(f"/proc/{pid}") for pid in pids):
            break
        time.sleep(0.02)
    assert not [pid for pid in pids if os.path.exists(f"/proc/{pid}")]
    with pytest.raises(sandbox.SandboxError, match="closed"):
        own_pool.take()


def test_a_pool_of_size_zero_starts_each_kernel_when_asked():
    with sandbox.Pool(size=0) as pool, sandbox.Session(pool=pool) as session:
        assert session.run("1").value_repr == "1"
        assert waiting(pool) == []


def test_a_zygote_that_cannot_start_says_why(monkeypatch):
    monkeypatch.setattr("sandbox.launch._BOOT", "raise SystemExit('broken on purpose')")
    with sandbox.Pool(size=0) as pool, pytest.raises(sandbox.KernelStartError, match="broken on purpose"):
        pool.take()


def test_more_modules_can_be_imported_before_the_fork():
    with sandbox.Pool(size=0, preload=("wsgiref",)) as pool, sandbox.Session(pool=pool, policy="off") as session:
        assert session.run("import sys; 'wsgiref' in sys.modules").value_repr == "True"


def test_a_session_that_gets_no_second_kernel_closes_its_descriptors_once(own_pool, monkeypatch):
    """Numbers of closed descriptors soon belong to others: closing them again would close a file of the host's."""
    connect, kernels = sandbox.Session._connect, []

    def once(self, *where):
        if kernels:
            raise OSError("none")
        kernels.append(connect(self, *where))
        return kernels[0]

    def die(self):
        raise sandbox.KernelDied("it died in the pool")

    monkeypatch.setattr(sandbox.Session, "_connect", once)
    monkeypatch.setattr(sandbox.Session, "_load", die)
    with pytest.raises(OSError, match="none"):
        sandbox.Session(pool=own_pool)
    gc.collect()
    others = [os.dup(2) for _ in range(8)]  # these get the numbers that were closed
    kernels[0].close()
    for other in others:
        os.close(other)
