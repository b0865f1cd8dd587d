"""The filter in force: what it refuses, and that everything a kernel needs still runs under it."""

from __future__ import annotations

import errno
import platform
import signal
import socket
from typing import Any

import pytest

from tests.support.isolation.child_process import attempt, run, syscall
from tests.support.isolation.marks import works

pytestmark = works("seccomp")

FREE = {"processes": True, "private_root": True}
HELD = {"processes": False, "private_root": False}


def install_and_try_refused_calls() -> dict[str, str]:
    import os
    import platform
    import socket

    from sandbox.isolation import seccomp

    here = 0 if platform.machine() == "x86_64" else 1
    numbers = {
        "ptrace": (101, 117), "unshare": (272, 97), "mount": (165, 40), "bpf": (321, 280), "keyctl": (250, 219),
        "io_uring_setup": (425, 425), "userfaultfd": (323, 282), "perf_event_open": (298, 241), "shmget": (29, 194),
        "memfd_secret": (447, 447), "pidfd_open": (434, 434), "setns": (308, 268), "clone3": (435, 435),
        "openat2": (437, 437), "newer": (900, 900),
    }  # fmt: skip
    left, _right = socket.socketpair()
    seccomp.install(seccomp.build(processes=True, private_root=True))
    results = {name: attempt(lambda n=pair[here]: syscall(n, 0, 0, 0, 0, 0)) for name, pair in numbers.items()}
    results |= {
        "inet": attempt(socket.socket),
        "unix": attempt(lambda: socket.socket(socket.AF_UNIX)),
        "bind": attempt(lambda: left.bind("/tmp/nowhere")),
        "connect": attempt(lambda: left.connect("/tmp/nowhere")),
        "dgram pair": attempt(lambda: socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)),
        "stream pair": attempt(socket.socketpair),
        "memfd": attempt(lambda: os.memfd_create("x")),
        "fifo": attempt(lambda: os.mkfifo("/tmp/rlm-test-fifo")),
        "nice": attempt(lambda: os.nice(-1)),
        "affinity": attempt(lambda: os.sched_setaffinity(0, {0})),
    }
    return results


def test_refused_calls_fail_with_an_error_and_the_process_lives() -> None:
    results = run(install_and_try_refused_calls)
    kind = {"clone3": "ENOSYS", "openat2": "ENOSYS", "newer": "ENOSYS", "inet": "EAFNOSUPPORT", "unix": "EAFNOSUPPORT"}
    for name, result in results.items():
        assert result == ("ok" if name == "stream pair" else kind.get(name, "EPERM")), name


def held_kernel() -> dict[str, str]:
    import os
    import signal
    import subprocess
    import threading

    from sandbox.isolation import seccomp

    path = "/tmp/rlm-test-held"
    descriptor = os.open(path, os.O_CREAT | os.O_RDWR, 0o600)
    os.unlink(path)
    parent = os.getppid()
    seccomp.install(seccomp.build(processes=False, private_root=False, pid=os.getpid()))
    thread = threading.Thread(target=lambda: None)
    thread.start()
    thread.join()
    signal.signal(signal.SIGUSR1, lambda number, frame: None)
    return {
        "fork": attempt(os.fork),
        "exec": attempt(lambda: os.execv("/bin/true", ["true"])),
        "spawn": attempt(lambda: os.posix_spawn("/bin/true", ["true"], {})),
        "subprocess": attempt(lambda: subprocess.run(["/bin/true"], check=True)),
        "kill parent": attempt(lambda: os.kill(parent, 0)),
        "kill group": attempt(lambda: os.kill(0, 0)),
        "kill all": attempt(lambda: os.kill(-1, 0)),
        "chmod": attempt(lambda: os.fchmod(descriptor, 0o644)),
        "utime": attempt(lambda: os.utime(descriptor)),
        "chown": attempt(lambda: os.fchown(descriptor, -1, -1)),
        "setsid": attempt(os.setsid),
        "kill self": attempt(lambda: os.kill(os.getpid(), signal.SIGUSR1)),
        "raise": attempt(lambda: signal.raise_signal(signal.SIGUSR1)),
        "thread signal": attempt(lambda: signal.pthread_kill(threading.get_ident(), signal.SIGUSR1)),
    }


def test_without_processes_threads_run_and_nobody_else_can_be_signalled() -> None:
    results = run(held_kernel)
    allowed = {"kill self", "raise", "thread signal"}
    for name, result in results.items():
        assert result == ("ok" if name in allowed else "EPERM"), name


def everyday_python(options: dict[str, Any]) -> dict[str, Any]:
    import asyncio
    import os
    import pathlib
    import shutil
    import socket
    import subprocess
    import tempfile
    import threading
    import time
    from concurrent.futures import ThreadPoolExecutor

    from sandbox.isolation import seccomp

    seccomp.install(seccomp.build(**options, pid=None if options["processes"] else os.getpid()))

    async def talk() -> str:
        left, right = socket.socketpair()
        reader, answering = await asyncio.open_connection(sock=left)
        _, writer = await asyncio.open_connection(sock=right)
        writer.write(b"hello\n")
        await writer.drain()
        line = await asyncio.wait_for(reader.readline(), 5)
        slept = await asyncio.to_thread(lambda: time.sleep(0.001) or "slept")
        for end in (answering, writer):
            end.close()
            await end.wait_closed()
        return line.decode().strip() + slept

    def files() -> list[str]:
        with tempfile.TemporaryDirectory() as name:
            directory = pathlib.Path(name)
            (directory / "a").write_text("text")
            (directory / "b").mkdir()
            (directory / "a").rename(directory / "b" / "c")
            (directory / "link").symlink_to("b/c")
            shutil.copyfile(directory / "link", directory / "d")
            with (directory / "d").open("r+b") as file:
                file.truncate(2)
                os.fsync(file.fileno())
            return sorted(str(path.relative_to(directory)) for path in directory.rglob("*"))

    seen: list[int] = []
    threads = [threading.Thread(target=seen.append, args=(index,)) for index in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    with ThreadPoolExecutor(4) as pool:
        squares = list(pool.map(lambda number: number * number, range(5)))
    results: dict[str, Any] = {
        "asyncio": asyncio.run(talk()),
        "files": files(),
        "threads": sorted(seen),
        "pool": squares,
        "random": len(os.urandom(8)),
    }
    if options["processes"]:
        results["subprocess"] = subprocess.run(
            ["/bin/sh", "-c", "echo out"], capture_output=True, check=True, text=True
        ).stdout
        results["copy"] = attempt(lambda: shutil.copy2("/bin/true", tempfile.mkdtemp()))
        child = os.fork()
        if child == 0:
            os._exit(3)
        results["fork"] = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    return results


@pytest.mark.parametrize("options", [FREE, HELD], ids=["private-root", "landlock"])
def test_everyday_python_runs_under_the_filter(options: dict[str, Any]) -> None:
    results = run(everyday_python, options)
    assert results["asyncio"] == "helloslept"
    assert results["files"] == ["b", "b/c", "d", "link"]
    assert results["threads"] == list(range(8))
    assert results["pool"] == [0, 1, 4, 9, 16]
    if options["processes"]:
        assert results["subprocess"] == "out\n"
        assert results["copy"] == "ok"
        assert results["fork"] == 3


def numbers_and_tables(options: dict[str, Any]) -> list[Any]:
    import io
    import os

    from sandbox.isolation import seccomp

    seccomp.install(seccomp.build(**options, pid=None if options["processes"] else os.getpid()))
    import numpy
    import pandas

    matrix = numpy.arange(160_000, dtype=float).reshape(400, 400)
    product = matrix @ matrix  # large enough for the threads of its library
    table = pandas.read_csv(io.StringIO("key,value\na,1\nb,2\na,3\n"))
    sums = table.groupby("key")["value"].sum().to_dict()
    return [float(product[1, 1]) > 0, sums]


@pytest.mark.parametrize("options", [FREE, HELD], ids=["private-root", "landlock"])
def test_numpy_and_pandas_load_and_compute_under_the_filter(options: dict[str, Any]) -> None:
    pytest.importorskip("numpy")
    pytest.importorskip("pandas")
    assert run(numbers_and_tables, options) == [True, {"a": 4, "b": 2}]


def serve_on_an_inherited_socket(descriptor: int, options: dict[str, Any]) -> str:
    import os

    import zmq

    from sandbox.isolation import seccomp

    seccomp.install(seccomp.build(**options, pid=None if options["processes"] else os.getpid()))
    context = zmq.Context()
    server = context.socket(zmq.ROUTER)
    server.setsockopt(zmq.USE_FD, descriptor)
    server.bind("ipc://@unused")
    assert server.poll(20_000)
    *identity, text = server.recv_multipart()
    server.send_multipart([*identity, text.upper()])
    context.destroy(linger=5000)
    return "served"


@pytest.mark.parametrize("options", [FREE, HELD], ids=["private-root", "landlock"])
def test_libzmq_serves_on_a_listening_socket_that_was_handed_in(options: dict[str, Any], tmp_path: Any) -> None:
    zmq = pytest.importorskip("zmq")
    path = f"{tmp_path}/s"
    with socket.socket(socket.AF_UNIX) as listener, zmq.Context() as context, context.socket(zmq.DEALER) as client:
        listener.bind(path)
        listener.listen(4)
        client.setsockopt(zmq.LINGER, 0)  # it may have connected again, and would wait 30 s for a handshake
        client.connect(f"ipc://{path}")
        client.send(b"hello")
        assert (
            run(serve_on_an_inherited_socket, listener.fileno(), options, descriptors=(listener.fileno(),)) == "served"
        )
        assert client.poll(5000)
        assert client.recv() == b"HELLO"


def take_a_descriptor(descriptor: int) -> list[Any]:
    import mmap
    import os
    import socket

    from sandbox.isolation import seccomp

    seccomp.install(seccomp.build(processes=False, private_root=True))
    with socket.socket(fileno=descriptor) as channel:
        _, received, _, _ = socket.recv_fds(channel, 16, 4)
    with mmap.mmap(received[0], 0, prot=mmap.PROT_READ) as view:
        return [len(received), bytes(view[:5]).decode(), os.fstat(received[0]).st_size]


@pytest.mark.skipif(not hasattr(__import__("os"), "memfd_create"), reason="needs Linux")
def test_a_memory_file_can_be_received_and_mapped() -> None:
    import os

    ours, theirs = socket.socketpair()
    file = os.memfd_create("input")
    with ours, theirs:
        os.write(file, b"hello, world")
        socket.send_fds(ours, [b"x"], [file])
        os.close(file)
        assert run(take_a_descriptor, theirs.fileno(), descriptors=(theirs.fileno(),)) == [1, "hello", 12]


def use_the_x32_interface() -> int:
    import os

    from sandbox.isolation import seccomp

    child = os.fork()
    if child == 0:
        seccomp.install(seccomp.build(processes=True, private_root=True))
        attempt(lambda: syscall(0x40000000 + 39))
        os._exit(0)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


@pytest.mark.skipif(platform.machine() != "x86_64", reason="x32 belongs to x86_64")
def test_the_x32_interface_ends_the_process() -> None:
    assert run(use_the_x32_interface) == -signal.SIGSYS


def install_twice() -> list[str]:
    from sandbox.isolation import seccomp

    program = seccomp.build(processes=True, private_root=True)
    seccomp.install(program)
    return [attempt(lambda: seccomp.install(program))]


def test_nothing_can_be_laid_over_the_filter() -> None:
    assert run(install_twice) == ["EPERM"]


def install_nonsense() -> list[str]:
    from sandbox.isolation import seccomp

    return [attempt(lambda: seccomp.install(b"\xff" * 16))]


def test_a_filter_that_the_system_refuses_is_an_error() -> None:
    assert run(install_nonsense) == [errno.errorcode[errno.EINVAL]]
    assert attempt(lambda: syscall(39)) in {"ok", "ENOSYS"}  # this process is under no filter
