"""Control groups: in force where we may make one, and where they are looked for elsewhere."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from sandbox.isolation import cgroups
from tests.support.isolation.child_process import run
from tests.support.isolation.marks import linux, works

pytestmark = linux
MB = 1024 * 1024


def eat(memory: int, processes: int, eat_bytes: int, forks: int) -> dict[str, Any]:
    import os
    import signal

    from sandbox.isolation import cgroups

    cgroups.SLACK_BYTES = 16 * 1024 * 1024
    group = cgroups.create(f"rlm-test-{os.getpid()}", memory, processes)
    assert group is not None
    gate, gate_end = os.pipe()
    report, report_end = os.pipe()
    pid = os.fork()
    if pid == 0:
        os.read(gate, 1)
        kept = [os.urandom(1 << 20) for _ in range(eat_bytes >> 20)]
        children = []
        try:
            for _ in range(forks):
                child = os.fork()
                if child == 0:
                    signal.pause()
                children.append(child)
        except OSError:
            pass
        os.write(report_end, f"{len(kept)} {len(children)}".encode())
        for child in children:
            os.kill(child, signal.SIGKILL)
            os.waitpid(child, 0)
        os._exit(0)
    os.close(report_end)
    group.add(pid)
    os.write(gate_end, b"g")
    status = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    oom = group.oom_killed()
    removed = group.remove()
    return {
        "status": status,
        "said": os.read(report, 100).decode(),
        "oom": oom,
        "removed": removed and not any(directory.exists() for directory in group.directories),
    }


@works("cgroup")
def test_too_much_memory_kills_and_says_so() -> None:
    result = run(eat, 32 * MB, 10, 200 * MB, 0)
    assert result == {"status": -9, "said": "", "oom": True, "removed": True}


@works("cgroup")
def test_within_its_limits_a_process_is_left_alone() -> None:
    result = run(eat, 64 * MB, 10, 8 * MB, 2)
    assert result == {"status": 0, "said": "8 2", "oom": False, "removed": True}


@works("cgroup")
def test_processes_are_counted_together() -> None:
    result = run(eat, 64 * MB, 6, 0, 100)
    assert result["said"] == f"0 {6 + cgroups.SLACK_PROCESSES - 1}"
    assert result["removed"]


@works("cgroup")
def test_a_group_that_is_still_in_use_is_not_removed(monkeypatch: pytest.MonkeyPatch) -> None:
    assert run(remove_too_early) == [False, True]


def remove_too_early() -> list[bool]:
    import os
    import signal

    from sandbox.isolation import cgroups

    group = cgroups.create(f"rlm-test-{os.getpid()}", 1 << 26, 4)
    assert group is not None
    pid = os.fork()
    if pid == 0:
        signal.pause()
    group.add(pid)
    early = group.remove()
    os.kill(pid, signal.SIGKILL)
    os.waitpid(pid, 0)
    return [early, group.remove()]


@pytest.fixture
def tree(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A hierarchy of version 2 in ordinary files: /slice, which hands out both controllers, with /slice/ours in it."""
    ours = tmp_path / "slice" / "ours"
    ours.mkdir(parents=True)
    for directory, handed_out in ((tmp_path, "memory pids"), (tmp_path / "slice", "cpu memory pids"), (ours, "")):
        (directory / "cgroup.subtree_control").write_text(handed_out + "\n")
        (directory / "cgroup.procs").write_text("")
    for file in ("memory.max", "memory.high", "pids.max"):
        (ours / file).write_text("max\n")
    monkeypatch.setattr(cgroups, "_mounts", lambda: ((tmp_path, "/"), {}))
    monkeypatch.setattr(cgroups, "_memberships", lambda: {"": "/slice/ours"})
    return tmp_path


def test_version_2_makes_the_group_beside_ours(tree: Path) -> None:
    assert cgroups._parents() == [tree / "slice"]
    group = cgroups.create("rlm-test", 1, 1)
    assert group is not None
    assert group.directories == (tree / "slice" / "rlm-test",)
    assert not group.oom_killed()
    assert group.remove()


def test_version_2_makes_the_group_inside_ours_where_ours_is_handed_out(tree: Path) -> None:
    (tree / "slice/ours/cgroup.subtree_control").write_text("memory pids\n")
    assert cgroups._parents() == [tree / "slice" / "ours"]


@pytest.mark.parametrize("file", ["memory.max", "memory.high", "pids.max"])
def test_limits_that_somebody_set_on_us_are_not_left_behind(tree: Path, file: str) -> None:
    (tree / "slice/ours" / file).write_text("1000000\n")
    assert cgroups._parents() == []
    assert cgroups.create("rlm-test", 1, 1) is None


def test_without_the_controllers_there_is_no_group(tree: Path) -> None:
    (tree / "slice/cgroup.subtree_control").write_text("cpu\n")
    assert cgroups.create("rlm-test", 1, 1) is None


def test_a_group_at_the_top_of_what_we_can_see_has_nothing_beside_it(
    tree: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cgroups, "_mounts", lambda: ((tree / "slice/ours", "/slice/ours"), {}))
    assert cgroups._parents() == []


def test_limits_are_written_in_the_files_that_are_there(tmp_path: Path) -> None:
    for file in ("memory.limit_in_bytes", "pids.max"):
        (tmp_path / file).touch()
    cgroups._limit(tmp_path, {"memory.max": 1, "memory.limit_in_bytes": 2, "pids.max": 3})
    assert {path.name: path.read_text() for path in tmp_path.iterdir()} == {
        "memory.limit_in_bytes": "2",
        "pids.max": "3",
    }


def test_both_versions_out_of_memory_counts_are_understood(tmp_path: Path) -> None:
    group = cgroups.Cgroup((tmp_path,))
    assert not group.oom_killed()
    (tmp_path / "memory.events").write_text("low 0\nmax 12\noom 3\noom_kill 0\n")
    assert not group.oom_killed()
    (tmp_path / "memory.oom_control").write_text("oom_kill_disable 0\nunder_oom 0\noom_kill 2\n")
    assert group.oom_killed()


def test_a_name_that_is_taken_gives_none_and_leaves_the_other_alone(tree: Path) -> None:
    first = cgroups.create("rlm-test", 1, 1)
    assert first is not None
    assert cgroups.create("rlm-test", 1, 1) is None
    assert first.directories[0].exists()


@pytest.fixture
def old_tree(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Two hierarchies of version 1 in ordinary files, without limits; we are in /a/ours in both."""
    for controller, file, value in (
        ("memory", "memory.limit_in_bytes", str(2**63 - 4096)),
        ("pids", "pids.max", "max"),
    ):
        (tmp_path / controller / "a" / "ours").mkdir(parents=True)
        for directory in ("a", "a/ours"):
            (tmp_path / controller / directory / file).write_text(value)
    mounts = {controller: (tmp_path / controller, "/") for controller in ("memory", "pids")}
    monkeypatch.setattr(cgroups, "_mounts", lambda: (None, mounts))
    monkeypatch.setattr(cgroups, "_memberships", lambda: dict.fromkeys(mounts, "/a/ours"))
    return tmp_path


def test_version_1_makes_the_group_as_far_out_as_it_can(old_tree: Path) -> None:
    assert cgroups._parents() == [old_tree / "memory", old_tree / "pids"]


def test_version_1_does_not_step_out_of_a_group_that_has_limits(old_tree: Path) -> None:
    (old_tree / "memory/a/memory.limit_in_bytes").write_text("1000000")
    (old_tree / "pids/a/ours/pids.max").write_text("100")
    assert cgroups._parents() == [old_tree / "memory/a", old_tree / "pids/a/ours"]


def test_what_a_killed_fork_server_left_is_swept_away(old_tree: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    names = {"rlm-4194999-1": False, f"rlm-{os.getpid()}-1": True, "rlm-x-1": True, "other-4194999": True}
    for name in names:
        (old_tree / "memory" / name).mkdir()
    cgroups._sweep((old_tree / "memory",))
    assert all((old_tree / "memory" / name).exists() for name in names)  # they may be about to be used
    monkeypatch.setattr(cgroups, "_SWEEP_AGE", -1.0)
    cgroups._sweep.cache_clear()
    cgroups._sweep((old_tree / "memory",))
    assert {name: (old_tree / "memory" / name).exists() for name in names} == names


@works("cgroup")
def test_an_error_names_the_file() -> None:
    group = cgroups.create(f"rlm-test-{os.getpid()}-error", 64 * MB, 2)
    assert group is not None
    try:
        with pytest.raises(OSError, match=r"cgroup: write 2147483646 to .*cgroup\.procs"):
            group.add(2**31 - 2)
    finally:
        assert group.remove()
