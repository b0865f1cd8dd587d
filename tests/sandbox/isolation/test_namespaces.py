"""Namespaces and the private root alone, without the layers above them."""

from __future__ import annotations

import os
import socket
from pathlib import Path
from typing import Any

import pytest

from sandbox.isolation.confinement import default_read_only
from tests.support.isolation.child_process import ChildFailed, attempt, run
from tests.support.isolation.marks import as_anyone, works

pytestmark = works("namespaces")

ALONE = frozenset({"namespaces", "user"})

# A checkout or a virtual environment below /tmp is shown there, read-only.
MOUNTED_IN_TMP = {path.split("/")[2] for path in default_read_only() if path.startswith("/tmp/")}


def look_around() -> dict[str, Any]:
    import os
    import socket

    def tree(path: str) -> list[str]:
        return sorted(os.listdir(path))

    with socket.socket() as probe:
        loopback = attempt(lambda: probe.connect(("127.0.0.1", 1)))
    return {
        "pid": os.getpid(),
        "root": tree("/"),
        "dev": tree("/dev"),
        "etc": tree("/etc"),
        "scratch": tree("/box") + tree("/tmp"),
        "directory": os.getcwd(),
        "name": os.uname().nodename,
        "interfaces": [name for _, name in socket.if_nameindex()],
        "loopback": loopback,
        "user": [os.getuid(), os.getgid(), len(os.getgroups())],
        "modes": [oct(os.stat(path).st_mode & 0o777) for path in ("/box", "/tmp", "/")],
        "owners": [os.stat(path).st_uid == os.getuid() for path in ("/box", "/tmp", "/")],
    }


@as_anyone
def test_a_kernel_sees_a_machine_with_nothing_on_it(ordinary: bool) -> None:
    seen = run(look_around, layers=ALONE, ordinary=ordinary)
    assert seen["pid"] == 1
    assert "proc" not in seen["root"]
    assert not {"sys", "home", "var", "mnt", "run", "boot"} & set(seen["root"])
    assert set(seen["dev"]) == {"full", "null", "random", "shm", "urandom", "zero"}
    assert set(seen["etc"]) <= {"ld.so.cache", "localtime"}
    assert set(seen["scratch"]) <= MOUNTED_IN_TMP
    assert seen["directory"] == "/box"
    assert seen["name"] == "kernel"
    assert seen["interfaces"] == ["lo"]
    assert seen["loopback"] == "ENETUNREACH"
    assert 0 not in seen["user"][:2]
    assert seen["modes"] == ["0o700", "0o700", "0o755"]
    assert seen["owners"][:2] == [True, True]


def write_everywhere(paths: list[str]) -> dict[str, str]:
    import os
    from pathlib import Path

    def write(path: str) -> None:
        os.close(os.open(path, os.O_CREAT | os.O_WRONLY, 0o600))

    results = {path: attempt(lambda path=path: write(f"{path}/rlm-test-file")) for path in paths}
    results["chmod"] = attempt(lambda: os.chmod("/usr", 0o777))
    results["chmod a device"] = attempt(lambda: os.chmod("/dev/null", 0o600))
    results["device"] = attempt(lambda: Path("/dev/null").write_text("x"))
    results["random"] = attempt(lambda: os.close(os.open("/dev/urandom", os.O_RDONLY)))
    return results


@as_anyone
def test_only_the_scratch_can_be_written(ordinary: bool) -> None:
    places = ["/", "/usr", "/usr/lib", "/dev", "/etc", "/box", "/tmp", "/dev/shm"]
    results = run(write_everywhere, places, layers=ALONE, ordinary=ordinary)
    for name in ("/box", "/tmp", "/dev/shm", "device", "random"):
        assert results.pop(name) == "ok", name
    assert set(results.values()) <= {"EROFS", "EACCES", "EPERM"}


def fill(directories: list[str]) -> dict[str, int | str]:
    import os

    files = 0
    errors = []
    try:
        while files < 10_000:
            open(f"{directories[files % len(directories)]}/{files}", "w").close()
            files += 1
    except OSError as error:
        errors.append(error.strerror)
    for number in range(files):
        os.unlink(f"{directories[number % len(directories)]}/{number}")
    written = 0
    try:
        for number in range(100):
            with open(f"{directories[number % len(directories)]}/{number}", "wb", buffering=0) as file:
                for _ in range(4):
                    written += file.write(b"x" * 65536)
    except OSError as error:
        errors.append(error.strerror)
    return {"files": files, "bytes": written, "errors": " / ".join(errors)}


@as_anyone
def test_the_scratch_is_limited_over_all_its_directories_together(ordinary: bool) -> None:
    limits = {"file_count": 100, "file_bytes": 2 * 1024 * 1024}
    filled = run(fill, ["/box", "/tmp", "/dev/shm"], layers=ALONE, limits=limits, ordinary=ordinary)
    full = "No space left on device"
    assert filled.pop("files") <= 100
    assert filled == {"bytes": 2 * 1024 * 1024, "errors": f"{full} / {full}"}


def reach_the_host(socket_path: str, abstract: str) -> dict[str, str]:
    import os
    import socket

    def connect(address: str) -> None:
        with socket.socket(socket.AF_UNIX) as one:
            one.connect(address)

    return {
        "path": attempt(lambda: connect(socket_path)),
        "abstract": attempt(lambda: connect(abstract)),
        "parent": attempt(lambda: os.kill(os.getppid() or 2, 0)) if os.getppid() else "nobody",
        "passwd": attempt(lambda: open("/etc/passwd").close()),
        "up": attempt(lambda: open("/../../../../etc/passwd").close()),
    }


@as_anyone
def test_the_hosts_sockets_processes_and_files_are_out_of_reach(ordinary: bool, tmp_path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as one, socket.socket(socket.AF_UNIX) as other:
        one.bind(f"{tmp_path}/s")
        one.listen()
        other.bind(f"\0rlm-test-{os.getpid()}")
        other.listen()
        results = run(reach_the_host, one.getsockname(), other.getsockname().decode(), layers=ALONE, ordinary=ordinary)
    assert results == {
        "path": "ENOENT",
        "abstract": "ECONNREFUSED",
        "parent": "nobody",
        "passwd": "ENOENT",
        "up": "ENOENT",
    }


def import_and_run() -> list[str]:
    import subprocess
    import sys
    import xml.dom.minidom  # not loaded before

    child = subprocess.run([sys.executable, "-c", "import sqlite3; print('in')"], capture_output=True, text=True)
    return [xml.dom.minidom.__name__, child.stdout + child.stderr]


def test_the_interpreter_still_imports_and_starts_itself() -> None:
    assert run(import_and_run, layers=ALONE) == ["xml.dom.minidom", "in\n"]


def processes_end_with_the_first(descriptor: int) -> str:
    import os
    import time

    if os.fork() == 0:
        os.setsid()
        time.sleep(60)  # would hold the pipe open
    return "done"


def test_all_processes_end_with_the_first() -> None:
    reading, writing = os.pipe()
    os.set_inheritable(writing, True)
    try:
        assert run(processes_end_with_the_first, writing, layers=ALONE, descriptors=(writing,)) == "done"
    finally:
        os.close(writing)
    with os.fdopen(reading, "rb") as pipe:
        assert pipe.read() == b""  # everyone who had the other end is gone


def nothing() -> str:
    return "ran"


def test_a_path_that_is_gone_is_passed_over() -> None:
    from sandbox.isolation.confinement import default_read_only

    assert run(nothing, layers=ALONE, read_only=[*default_read_only(), "/nowhere/at/all"]) == "ran"


def test_an_error_names_the_step() -> None:
    from sandbox.isolation.confinement import default_read_only

    with pytest.raises(ChildFailed, match="private root: "):
        run(nothing, layers=ALONE, read_only=[*default_read_only(), "/usr/" + "x" * 300])
