"""Landlock in force, and how the rules are put together for each version of it."""

from __future__ import annotations

import itertools
import os
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from sandbox.isolation import landlock
from tests.support.isolation.child_process import attempt, run
from tests.support.isolation.marks import as_anyone, linux, works

pytestmark = works("landlock")


@pytest.fixture
def places() -> Iterator[dict[str, str]]:
    # pytest's own directories are closed to other users
    with tempfile.TemporaryDirectory(prefix="rlm-test-") as directory:
        base = Path(directory)
        base.chmod(0o755)
        for name in ("inside", "readable", "outside"):
            (base / name).mkdir()
            (base / name).chmod(0o777)
            (base / name / "file").write_text("text")
            (base / name / "file").chmod(0o666)
        (base / "link").symlink_to(base / "outside")
        yield {name: str(base / name) for name in ("inside", "readable", "outside", "link")}


def try_files(places: dict[str, str]) -> dict[str, str]:
    import os
    from pathlib import Path

    from sandbox.isolation import landlock

    inside, readable, outside = Path(places["inside"]), Path(places["readable"]), Path(places["outside"])
    landlock.restrict([str(readable), places["link"], "/nowhere"], [str(inside)], ["/dev/null"])
    (inside / "way-out").symlink_to(outside / "file")
    return {
        "+read inside": attempt((inside / "file").read_text),
        "+write inside": attempt(lambda: (inside / "new").write_text("x")),
        "+make a directory inside": attempt((inside / "deep").mkdir),
        "+move inside": attempt(lambda: (inside / "new").rename(inside / "deep" / "new")),
        "+remove inside": attempt((inside / "deep" / "new").unlink),
        "+read readable": attempt((readable / "file").read_text),
        "+list readable": attempt(lambda: list(readable.iterdir())),
        "+write null": attempt(lambda: Path("/dev/null").write_text("x")),
        "-write readable": attempt(lambda: (readable / "file").write_text("x")),
        "-truncate readable": attempt(lambda: os.truncate(readable / "file", 0)),
        "-make in readable": attempt(lambda: (readable / "new").write_text("x")),
        "-remove readable": attempt((readable / "file").unlink),
        "-read outside": attempt((outside / "file").read_text),
        "-read through a link": attempt((inside / "way-out").read_text),
        "-read through a listed link": attempt((Path(places["link"]) / "file").read_text),
        "-list outside": attempt(lambda: list(outside.iterdir())),
        "-write outside": attempt(lambda: (outside / "file").write_text("x")),
        "-link out": attempt(lambda: os.link(inside / "file", outside / "hard")),
        "-link in": attempt(lambda: os.link(outside / "file", inside / "hard")),
        "-move out": attempt(lambda: (inside / "file").rename(outside / "moved")),
        "-a pipe inside": attempt(lambda: os.mkfifo(inside / "pipe")),
        "-execute inside": attempt(lambda: os.posix_spawn(str(inside / "file"), ["x"], {})),
        "-read another device": attempt(Path("/dev/zero").read_bytes),
        "-list processes": attempt(lambda: os.listdir("/proc")),
    }


@as_anyone
def test_only_the_listed_files_can_be_used(places: dict[str, str], ordinary: bool) -> None:
    for name, result in run(try_files, places, ordinary=ordinary).items():
        if name.startswith("+"):
            assert result == "ok", name
        else:
            assert result in {"EACCES", "EXDEV"}, name


def try_network() -> dict[str, str]:
    import os
    import signal
    import socket

    from sandbox.isolation import landlock

    target = socket.socket()
    target.bind(("127.0.0.1", 0))
    target.listen()
    abstract = socket.socket(socket.AF_UNIX)
    abstract.bind(f"\0rlm-test-{os.getpid()}")
    abstract.listen()
    parent = os.getpid()
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        landlock.restrict([], [], [])
        one, two, three = socket.socket(), socket.socket(), socket.socket(socket.AF_UNIX)
        results = [
            attempt(lambda: one.connect(target.getsockname())),
            attempt(lambda: two.bind(("127.0.0.1", 0))),
            attempt(lambda: three.connect(abstract.getsockname())),
            attempt(lambda: os.kill(parent, signal.SIGCONT)),
        ]
        os.write(writing, " ".join(results).encode())
        os._exit(0)
    os.waitpid(child, 0)
    names = ("connect", "bind", "abstract", "signal")
    return dict(zip(names, os.read(reading, 1000).decode().split(), strict=True)) | {"abi": str(landlock.abi())}


@as_anyone
def test_network_abstract_sockets_and_signals_are_refused_by_the_versions_that_can(ordinary: bool) -> None:
    results = run(try_network, ordinary=ordinary)
    abi = int(results["abi"])
    if abi >= 4:
        assert results["connect"] == results["bind"] == "EACCES"
    if abi >= 6:
        assert results["abstract"] == results["signal"] == "EPERM"


def restrict_as_version(version: int, places: dict[str, str]) -> dict[str, str]:
    from pathlib import Path

    from sandbox.isolation import landlock

    landlock.abi = lambda: version  # type: ignore[assignment]
    landlock.restrict([places["readable"]], [places["inside"]], ["/dev/null"])
    return {
        "inside": attempt(lambda: Path(places["inside"], "new").write_text("x")),
        "outside": attempt(lambda: Path(places["outside"], "new").write_text("x")),
    }


@pytest.mark.parametrize("version", range(1, 8))
def test_every_version_up_to_ours_can_be_spoken(version: int, places: dict[str, str]) -> None:
    if version > landlock.abi():
        pytest.skip(f"this system has ABI {landlock.abi()}")
    assert run(restrict_as_version, version, places) == {"inside": "ok", "outside": "EACCES"}


@linux
def test_later_versions_govern_more() -> None:
    sizes: list[tuple[int, ...]] = [landlock.handled(version) for version in range(1, 9)]
    for earlier, later in itertools.pairwise(sizes):
        assert all(before & after == before for before, after in zip(earlier, later, strict=True))
    assert sizes[0] == (0x1FFF, 0, 0)
    assert sizes[6] == (0xFFFF, 3, 3)


def test_a_system_without_landlock_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(landlock, "abi", lambda: 0)
    with pytest.raises(OSError, match="landlock: this system does not have it"):
        landlock.ruleset([], [], [])


def test_a_path_that_cannot_be_looked_up_leaves_no_descriptor_open(tmp_path: Path) -> None:
    before = len(os.listdir("/proc/self/fd"))
    with pytest.raises(OSError):
        landlock.ruleset([f"{tmp_path}/" + "x" * 300], [], [])
    assert len(os.listdir("/proc/self/fd")) == before
