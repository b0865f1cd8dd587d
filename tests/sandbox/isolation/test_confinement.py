"""The layers put together: the tiers as a session has them."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Any

import pytest

from sandbox.isolation import confinement
from sandbox.isolation.confinement import LAYERS, TIERS, Confinement, default_read_only, resolve
from sandbox.limits import Limits
from tests.support.isolation.child_process import SESSION, ChildFailed, attempt, run
from tests.support.isolation.marks import as_anyone, linux, root, works

in_namespaces = works("namespaces", "landlock", "seccomp", "rlimits", "user")
under_landlock = works("landlock", "seccomp", "rlimits", "user")


def break_out(victim: int, secret: str) -> dict[str, str]:
    import ctypes
    import os
    import signal
    import socket

    def read(path: str) -> None:
        os.close(os.open(path, os.O_RDONLY))

    def write(path: str) -> None:
        os.close(os.open(path, os.O_CREAT | os.O_WRONLY, 0o600))

    return {
        "read a secret": attempt(lambda: read(secret)),
        "read passwd": attempt(lambda: read("/etc/passwd")),
        "read memory": attempt(lambda: read("/proc/self/mem")),
        "read the environment": attempt(lambda: read(f"/proc/{victim}/environ")),
        "list processes": attempt(lambda: os.listdir("/proc")),
        "write /usr": attempt(lambda: write("/usr/rlm-test")),
        "write /": attempt(lambda: write("/rlm-test")),
        "write /var/tmp": attempt(lambda: write("/var/tmp/rlm-test")),
        "write beside the scratch": attempt(lambda: write(f"{scratch}/../rlm-test")),  # noqa: F821
        "signal": attempt(lambda: os.kill(victim, signal.SIGTERM)),
        "become root": attempt(lambda: os.setuid(0)),
        "socket": attempt(socket.socket),
        "memory file": attempt(lambda: os.memfd_create("x")),
        "chroot": attempt(lambda: os.chroot("/")),
        "hard link": attempt(lambda: os.link("/etc/passwd", f"{scratch}/passwd")),  # noqa: F821
        "device": attempt(lambda: os.mknod(f"{scratch}/device", 0o020600, os.makedev(1, 1))),  # noqa: F821
        "dumpable": "EPERM" if ctypes.CDLL(None).prctl(4, 1, 0, 0, 0) else "ok",
    }


@pytest.mark.parametrize(
    "tier", [pytest.param("namespaces", marks=in_namespaces), pytest.param("landlock", marks=under_landlock)]
)
@as_anyone
def test_no_way_out(tier: str, ordinary: bool, tmp_path: Path) -> None:
    secret = tmp_path / "secret"
    secret.write_text("42")
    results = run(break_out, os.getpid(), str(secret), layers=TIERS[tier], ordinary=ordinary)
    refusals = {"EPERM", "EACCES", "EROFS", "ENOENT", "ESRCH", "EAFNOSUPPORT", "EXDEV"}
    assert {name: result for name, result in results.items() if result not in refusals} == {}


def work(processes: bool) -> dict[str, Any]:
    import asyncio
    import os
    import subprocess
    import threading

    values: list[int] = []
    thread = threading.Thread(target=values.append, args=(1,))
    thread.start()
    thread.join()
    with open("notes", "w") as file:
        file.write("in the scratch directory")
    results = {
        "directory": os.getcwd() == os.path.realpath(scratch),  # noqa: F821
        "file": os.path.getsize("notes"),
        "threads": values,
        "asyncio": asyncio.run(asyncio.sleep(0, "done")),
        "device": attempt(lambda: os.close(os.open("/dev/null", os.O_RDWR))),
    }
    if processes:
        results["shell"] = subprocess.run(["/bin/sh", "-c", "echo $((6*7))"], capture_output=True, text=True).stdout
    return results


@pytest.mark.parametrize(
    "tier", [pytest.param("namespaces", marks=in_namespaces), pytest.param("landlock", marks=under_landlock), "none"]
)
@as_anyone
def test_inside_there_is_room_to_work(tier: str, ordinary: bool) -> None:
    processes = tier == "namespaces"
    results = run(work, processes, layers=TIERS[tier], limits={"memory_bytes": 200 << 20}, ordinary=ordinary)
    assert results.pop("shell", "42\n") == "42\n"
    assert results == {
        "directory": True,
        "file": 24,
        "threads": [1],
        "asyncio": "done",
        "device": "ok",
    }


def import_from_everywhere() -> dict[str, Any]:
    import os
    import re
    import sys
    import xml.dom.minidom  # from the standard library, not loaded before

    import pytest  # from site-packages

    from sandbox.isolation import seatbelt  # from this package, not loaded before

    for module in (xml.dom.minidom, pytest, seatbelt):
        assert module.__file__
    prefix = os.path.dirname(sys.base_prefix)
    return {
        "uid": os.getuid(),
        "list above": attempt(lambda: os.listdir(prefix)),
        "read closed": attempt(lambda: os.close(os.open("/etc/shadow", os.O_RDONLY))),
        "list closed": attempt(lambda: os.listdir("/root")),
        "secret": attempt(lambda: os.close(os.open("/root/.bashrc", os.O_RDONLY))),
        "is open": bool(re.match("x", "x")),
    }


@root
@pytest.mark.parametrize(
    "tier", [pytest.param("namespaces", marks=in_namespaces), pytest.param("landlock", marks=under_landlock)]
)
def test_an_interpreter_in_a_closed_directory_can_be_used_by_the_sessions_user(tier: str) -> None:
    """Here it is under /root, mode 700. Elsewhere this only shows that imports work."""
    results = run(import_from_everywhere, layers=TIERS[tier])
    assert results["uid"] == SESSION
    for name in ("read closed", "list closed", "secret"):
        assert results[name] in {"EACCES", "ENOENT"}, name
    assert results["list above"] in {"EACCES", "ENOENT"}


def which_capabilities() -> int:
    import ctypes
    import struct

    header = ctypes.create_string_buffer(struct.pack("=Ii", 0x20080522, 0), 8)
    data = ctypes.create_string_buffer(24)
    assert ctypes.CDLL(None).capget(header, data) == 0
    return int(struct.unpack("=6I", data.raw)[1])


@root
@under_landlock
def test_a_capability_is_kept_only_where_paths_are_closed_and_landlock_guards_them() -> None:
    held = frozenset({"landlock", "user", "rlimits"})
    assert run(which_capabilities, layers=held) == 0  # without seccomp it would not be safe


def closed(path: str) -> bool:
    return any(not parent.stat().st_mode & 0o001 for parent in Path(path).resolve().parents)


@root
@under_landlock
def test_the_capability_is_not_kept_when_everything_can_be_reached() -> None:
    # Seccomp does not allow asking; what the right would open tells.
    layers = TIERS["landlock"]
    assert run(stat_in_a_closed_directory, layers=layers, read_only=["/usr", "/bin", "/lib", "/lib64"]) == "EACCES"
    expected = "ok" if closed(sys.base_prefix) else "EACCES"
    assert run(stat_in_a_closed_directory, layers=layers) == expected


def stat_in_a_closed_directory() -> str:
    import os

    return attempt(lambda: os.stat("/root/.bashrc"))


@in_namespaces
def test_separate_does_nothing_without_namespaces() -> None:
    assert run(namespace_links) is True


def namespace_links() -> bool:
    import os

    from sandbox.isolation.confinement import Confinement, separate
    from sandbox.limits import Limits

    def links() -> list[str]:
        return [os.readlink(f"/proc/self/ns/{name}") for name in sorted(os.listdir("/proc/self/ns"))]

    before = links()
    separate(Confinement(frozenset({"seccomp", "landlock"}), Limits(), (), "/tmp"))
    return before == links()


def confine_as_root_without_a_user() -> list[str]:
    from sandbox.isolation.confinement import Confinement, confine
    from sandbox.limits import Limits

    try:
        confine(Confinement(frozenset({"user"}), Limits(), (), "/tmp", None))
    except OSError as error:
        return [str(error)]
    return []


@root
def test_root_must_be_told_whom_to_become() -> None:
    (message,) = run(confine_as_root_without_a_user)
    assert "user: we are root and no uid was given" in message


def nothing() -> str:
    return "ran"


@linux
def test_a_scratch_that_is_missing_is_an_error() -> None:
    with pytest.raises(ChildFailed, match=r"FileNotFoundError: .*scratch: /nowhere/at/all"):
        run(nothing, layers=frozenset({"rlimits"}), scratch="/nowhere/at/all")


@linux
def test_the_fork_server_can_prepare_what_its_children_need() -> None:
    from sandbox.isolation import seccomp

    confinement.prepare()
    before = seccomp.build.cache_info().hits
    seccomp.build(processes=True, private_root=True, pid=None)
    assert seccomp.build.cache_info().hits == before + 1


def test_a_confinement_survives_the_way_to_the_fork_server() -> None:
    plan = Confinement(LAYERS, Limits(memory_bytes=5), ("/usr", "/lib"), "/box", 50_001)
    assert Confinement.from_json(json.loads(json.dumps(plan.to_json()))) == plan


@pytest.mark.parametrize(
    "fields",
    [
        {"layers": frozenset({"walls"})},
        {"layers": LAYERS, "scratch": "/tmp/x"},
        {"uid": 0},
        {"uid": -1},
    ],
)
def test_a_confinement_that_cannot_hold_is_refused(fields: dict[str, Any]) -> None:
    good = {"layers": frozenset({"rlimits"}), "limits": Limits(), "read_only": (), "scratch": "/box", "uid": None}
    with pytest.raises(ValueError, match="Confinement"):
        Confinement(**{**good, **fields})


@linux
def test_the_default_paths_hold_the_interpreter_and_not_the_repository() -> None:
    paths = default_read_only()
    package = Path(confinement.__file__).resolve().parents[1]

    def shown(path: str | Path) -> bool:
        real = Path(path).resolve()
        return any(real == Path(one) or Path(one) in real.parents for one in paths if not Path(one).is_symlink())

    assert shown(sys.executable)
    assert shown(os.__file__)
    assert shown(pytest.__file__)
    assert shown(package / "limits.py")
    if not shown(package.parent):  # not where it is installed in site-packages
        assert not shown(package.parent / "pyproject.toml")
        assert not shown(package.parent / "tests")
    for secret in ("/etc/passwd", "/etc/shadow", str(Path.home() / ".ssh"), "/proc", "/var", "/tmp"):
        assert not shown(secret), secret


def test_paths_are_real_and_none_is_inside_another(tmp_path: Path) -> None:
    base = tmp_path.resolve()
    (base / "real" / "inner" / "deep").mkdir(parents=True)
    (base / "real" / "own").symlink_to("inner")
    (base / "link").symlink_to("real")
    (base / "chain").symlink_to("link")
    assert resolve([f"{base}/real/inner", f"{base}/real"]) == (f"{base}/real",)
    assert resolve([f"{base}/link/inner"]) == (f"{base}/link", f"{base}/real/inner")
    assert resolve([f"{base}/chain/inner"]) == (f"{base}/chain", f"{base}/link", f"{base}/real/inner")
    assert resolve([f"{base}/real/own", f"{base}/real"]) == (f"{base}/real",)
    assert resolve([f"{base}/missing"]) == ()


def test_the_root_directory_is_never_shown() -> None:
    with pytest.raises(ValueError, match="root directory"):
        resolve(["/usr", "/"])


@in_namespaces
def test_links_lead_to_the_same_places_inside_even_under_tmp(tmp_path: Path) -> None:
    base = tmp_path.resolve()
    (base / "real").mkdir()
    (base / "real" / "file").write_text("text")
    (base / "link").symlink_to("real")
    paths = [*default_read_only(), *resolve([str(base / "link")])]
    assert run(read_file, f"{base}/link/file", layers=TIERS["namespaces"], read_only=paths) == "text"


def read_file(path: str) -> str:
    with open(path) as file:
        return file.read()
