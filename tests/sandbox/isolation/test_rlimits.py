"""Resource limits in force."""

from __future__ import annotations

from typing import Any

from tests.support.isolation.child_process import attempt, run
from tests.support.isolation.marks import as_anyone, works

pytestmark = works("rlimits")

MB = 1024 * 1024


@as_anyone
def test_memory_beyond_the_limit_is_a_memory_error(ordinary: bool) -> None:
    results = run(use_memory, layers=frozenset({"rlimits"}), limits={"memory_bytes": 100 * MB}, ordinary=ordinary)
    assert results == ["ok", "MemoryError", "ok"]


def use_memory() -> list[str]:
    from sandbox.isolation import rlimits

    mb = 1024 * 1024
    descriptor = rlimits.open_address_space()
    assert descriptor is not None
    rlimits.tighten_memory(descriptor, 100 * mb)  # as a kernel does when its inputs are loaded
    return [attempt(lambda size=size: bytearray(size * mb)) for size in (40, 200, 40)]


def write_and_open() -> dict[str, Any]:
    import os
    import resource

    def write() -> None:
        with open(f"{scratch}/large", "wb") as file:  # noqa: F821
            file.write(b"x" * 2_000_000)

    descriptors: list[int] = []

    def open_many() -> None:
        for _ in range(1000):
            descriptors.append(os.open("/dev/null", os.O_RDONLY))

    results = {
        "write": attempt(write),
        "open": attempt(open_many),
        "core": resource.getrlimit(resource.RLIMIT_CORE),
        "raise": attempt(lambda: resource.setrlimit(resource.RLIMIT_CORE, (10, 10))),
    }
    for descriptor in descriptors:
        os.close(descriptor)
    return results


def test_files_descriptors_and_core_dumps_are_limited_for_good() -> None:
    results = run(write_and_open, layers=frozenset({"rlimits", "user"}), limits={"file_bytes": 1_000_000})
    assert results == {"write": "EFBIG", "open": "EMFILE", "core": [0, 0], "raise": "ValueError"}


def fork_without_end() -> int:
    import os
    import signal

    children: list[int] = []
    try:
        while len(children) < 200:
            pid = os.fork()
            if pid == 0:
                signal.pause()
            children.append(pid)
    except OSError:
        pass
    for pid in children:
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
    return len(children)


@as_anyone
@works("namespaces")
def test_processes_are_counted_for_the_session_alone(ordinary: bool) -> None:
    layers = frozenset({"namespaces", "rlimits", "user"})
    children = run(fork_without_end, layers=layers, limits={"processes": 10}, ordinary=ordinary)
    assert children == 8 if ordinary else children in (8, 9)  # in a user namespace its maker counts too


def start_threads() -> int:
    import threading

    release = threading.Event()
    threads = []
    try:
        for _ in range(40):
            thread = threading.Thread(target=release.wait)
            thread.start()
            threads.append(thread)
    except RuntimeError:
        pass
    finally:
        release.set()
    return len(threads)


def test_where_the_count_is_not_the_sessions_own_it_may_add_to_what_there_is() -> None:
    layers = frozenset({"rlimits"})
    # Whatever else this user runs or ends meanwhile moves the count a little.
    assert 3 <= run(start_threads, layers=layers, limits={"processes": 15}, ordinary=True) < 40


def tighter_already() -> list[int]:
    import resource

    from sandbox.isolation import rlimits
    from sandbox.limits import Limits

    resource.setrlimit(resource.RLIMIT_NOFILE, (64, 64))
    rlimits.apply(Limits(), address_space=None, count_processes=False)
    return list(resource.getrlimit(resource.RLIMIT_NOFILE))


def test_a_tighter_limit_that_was_there_before_stays() -> None:
    assert run(tighter_already) == [64, 64]
