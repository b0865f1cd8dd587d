"""Control groups: memory and processes of a whole session, counted together by the system.

Covers:
- memory of all processes of a session together, files in its scratch and much of the system's own memory for it; swap
- processes and threads at once, forks included

Does not cover:
- machines where nobody has handed us a part of the hierarchy: `create` then gives None and the other limits stand alone
- memory that others touched first: pages shared with the fork server are charged to it
- processor time, of which a group only keeps count: the host asks for it

It is a backstop. A kernel that asks for too much memory gets a MemoryError from its address-space limit; only one that
gets around that, with many processes, meets this one and is killed.

Limits that somebody set on us go on holding: a group is made inside ours, or outside only where ours has no limits that
would be left behind. Version 2 allows the inside only where we have been given a subtree and are not in its way; else
the group is made beside ours. Version 1 allows any place, and the outermost is taken: a fork server that is killed
leaves its groups, and there the next one finds them and sweeps them away.
"""

from __future__ import annotations

import contextlib
import errno
import functools
import os
import signal
import time
from dataclasses import dataclass
from pathlib import Path

SLACK_BYTES = 128 * 1024 * 1024
"""What an idle kernel may come to have of its own: pages it shares with the fork server until one of them writes."""

SLACK_PROCESSES = 4
CPU_USAGE, CPU_STAT = "cpuacct.usage", "cpu.stat"
_CONTROLLERS = ("memory", "pids")
_COUNTERS = ("cpuacct",)
"""Controllers of version 1 that limit nothing; version 2 counts processor time in every group."""

_V1_UNLIMITED = 1 << 60
_SWEEP_AGE = 60.0


@dataclass(frozen=True, slots=True)
class Cgroup:
    """One session's group: one directory in version 2, one for each controller in version 1."""

    directories: tuple[Path, ...]

    def add(self, pid: int) -> None:
        """Move a process in, all its threads with it. Its children will be born there."""
        for directory in self.directories:
            _write(directory / "cgroup.procs", str(pid))

    def grow(self, by: int) -> None:
        """Allow that much more memory: inputs are the session's to hold, not the code's to use."""
        for directory in self.directories:
            # With swap first: it may never be less than without.
            for name in ("memory.memsw.limit_in_bytes", "memory.limit_in_bytes", "memory.max"):
                if (directory / name).exists():
                    _write(directory / name, str(int(_read(directory / name)) + by))

    @property
    def cpu_file(self) -> Path | None:
        """The file that says how much processor time all processes have used; None where the system keeps no count."""
        for directory in self.directories:
            for name in (CPU_USAGE, CPU_STAT):
                if (directory / name).exists():
                    return directory / name
        return None

    def oom_killed(self) -> bool:
        """Return whether the system has killed a process of this group because it was out of memory."""
        return any(
            _field(directory / name, "oom_kill") > 0
            for directory in self.directories
            for name in ("memory.events", "memory.oom_control")
        )

    def remove(self) -> bool:
        """Take the group away. Its processes must have ended: waits a moment for the last to be gone."""
        gone = [_remove(directory) for directory in self.directories]  # every one, even if the first stays
        return all(gone)


class Places:
    """Where a fork server makes its groups. They are looked up again when it has been moved to another group."""

    def __init__(self) -> None:
        self._ours: bytes | None = None
        self._parents: list[Path] = []

    def parents(self) -> list[Path]:
        """Return the directories to make a group in."""
        ours = _membership()
        if ours != self._ours:
            self._ours, self._parents = ours, _parents()
        return self._parents


def create(name: str, memory_bytes: int, processes: int, places: Places | None = None) -> Cgroup | None:
    """Return a group with these limits, or None where no group can be made.

    `memory_bytes` must include the files of the scratch directory: a private root keeps them in memory. Names look like
    `rlm-<pid of the fork server>-...`, so that what a dead one left behind is known as such.
    """
    memory = memory_bytes + SLACK_BYTES
    settings = {
        "memory.max": memory,
        "memory.swap.max": 0,
        "memory.oom.group": 1,
        "memory.limit_in_bytes": memory,
        "memory.memsw.limit_in_bytes": memory,
        "pids.max": processes + SLACK_PROCESSES,
    }
    parents = places.parents() if places is not None else _parents()
    _sweep(tuple(parents))
    made: list[Path] = []
    for parent in parents:
        directory = parent / name
        try:
            directory.mkdir(mode=0o755)
            made.append(directory)
            _limit(directory, settings)
        except OSError:
            Cgroup(tuple(made)).remove()
            return None
    return Cgroup(tuple(made)) if made else None


def cpu_seconds(descriptor: int) -> float:
    """Read the processor time of a group from its opened `cpu_file`."""
    text = os.pread(descriptor, 200, 0)
    if text.startswith(b"usage_usec"):
        return int(text.split(None, 2)[1]) / 1e6
    return int(text) / 1e9


def left_by(owner: int) -> list[Path]:
    """Return the groups of a fork server."""
    return [group for parent in _parents() for group in parent.glob(f"rlm-{owner}-*")]


def remove_all_of(owner: int) -> None:
    """End what runs in the groups that a fork server has left behind that was killed, and remove them."""
    for group in left_by(owner):
        for pid in _read(group / "cgroup.procs").split():
            with contextlib.suppress(OSError):
                os.kill(int(pid), signal.SIGKILL)
        with contextlib.suppress(OSError):
            group.rmdir()


def _limit(directory: Path, settings: dict[str, int]) -> None:
    # The order matters in version 1: memory with swap cannot be set lower than memory alone.
    for file, value in settings.items():
        path = f"{directory}/{file}"
        try:
            descriptor = os.open(path, os.O_WRONLY | os.O_CLOEXEC)
        except FileNotFoundError:
            continue  # of the other version, or of a controller that is not here
        try:
            os.write(descriptor, b"%d" % value)
        except OSError as error:
            raise OSError(error.errno, f"cgroup: write {value} to {path}: {error.strerror}") from error
        finally:
            os.close(descriptor)


def _parents() -> list[Path]:
    """Return the directories to make a group in; none if they would not limit memory."""
    unified, by_controller = _mounts()
    ours = _memberships()
    if unified is not None and "" in ours:
        parent = _unified_parent(*unified, ours[""])
        if parent is not None:
            return [parent]
    found: dict[str, Path] = {}
    for controller in (*_CONTROLLERS, *_COUNTERS):
        if controller in by_controller and controller in ours:
            directory = _directory(*by_controller[controller], ours[controller])
            outermost = _outermost(directory, by_controller[controller][0]) if directory is not None else None
            if outermost is not None:
                found[controller] = outermost
    # Controllers that are mounted together share one directory.
    return list(dict.fromkeys(found.values())) if "memory" in found else []


def _unified_parent(mount: Path, root: str, path: str) -> Path | None:
    ours = _directory(mount, root, path)
    if ours is None:
        return None
    if _delegates(ours):
        return ours
    beside = ours.parent
    unlimited = all(_read(ours / file) in ("max", "") for file in ("memory.max", "memory.high", "pids.max"))
    inside = beside == mount or mount in beside.parents
    return beside if inside and unlimited and _delegates(beside) else None


def _outermost(directory: Path, mount: Path) -> Path | None:
    """Return the widest group that we may write to without stepping out of one that has limits; version 1."""
    found = None
    while True:
        if os.access(directory, os.W_OK):
            found = directory
        limited = any(
            (text := _read(directory / file)) not in ("", "max") and int(text) < _V1_UNLIMITED
            for file in ("memory.limit_in_bytes", "memory.memsw.limit_in_bytes", "pids.max")
        )
        if limited or directory == mount:
            return found
        directory = directory.parent


def _delegates(directory: Path) -> bool:
    """Return whether groups made in this directory have both controllers and take processes of ours."""
    # To move a process, the common ancestor's list of processes must be writable as well.
    writable = all(os.access(path, os.W_OK) for path in (directory, directory / "cgroup.procs"))
    return writable and set(_CONTROLLERS) <= set(_read(directory / "cgroup.subtree_control").split())


def _directory(mount: Path, root: str, path: str) -> Path | None:
    """Return where a group is found under a mount that shows the hierarchy from `root` on."""
    relative = os.path.relpath(path, root)
    return None if relative.startswith("..") else mount / relative


def _mounts() -> tuple[tuple[Path, str] | None, dict[str, tuple[Path, str]]]:
    """Version 2's mount, and version 1's by controller; each with the part of the hierarchy that it shows."""
    unified: tuple[Path, str] | None = None
    by_controller: dict[str, tuple[Path, str]] = {}
    for line in _read(Path("/proc/self/mountinfo")).splitlines():
        before, _, after = line.partition(" - ")
        root, mount = before.split()[3:5]
        kind, _, options = after.split()[:3]
        if kind == "cgroup2":
            unified = (Path(mount), root)
        elif kind == "cgroup":
            for option in options.split(","):
                by_controller[option] = (Path(mount), root)
    return unified, by_controller


def _membership() -> bytes:
    """Return what the system says about the groups that we are in."""
    with contextlib.suppress(OSError), open("/proc/self/cgroup", "rb", buffering=0) as file:
        return file.read()
    return b""


def _memberships() -> dict[str, str]:
    """Return the group that we are in, by controller; version 2's under the empty name."""
    ours: dict[str, str] = {}
    for line in _read(Path("/proc/self/cgroup")).splitlines():
        _, controllers, path = line.split(":", 2)
        for controller in controllers.split(","):
            ours[controller] = path
    return ours


@functools.cache
def _sweep(parents: tuple[Path, ...]) -> None:
    """Remove what fork servers left that were killed; once for each place. A group with a process in it cannot go."""
    for parent in parents:
        for group in parent.glob("rlm-*"):
            owner = group.name.split("-")[1]
            try:
                # A new one may be about to get its process; pids mean little to us if it is another container's.
                abandoned = owner.isdecimal() and not Path("/proc", owner).exists()
                if abandoned and time.time() - group.stat().st_ctime > _SWEEP_AGE:
                    group.rmdir()
            except OSError:
                continue


def _read(path: Path) -> str:
    try:
        return path.read_text().strip()
    except OSError:
        return ""


def _field(path: Path, name: str) -> int:
    for line in _read(path).splitlines():
        key, _, value = line.partition(" ")
        if key == name:
            return int(value)
    return 0


def _write(path: Path, text: str) -> None:
    try:
        path.write_text(text)
    except OSError as error:
        raise OSError(error.errno, f"cgroup: write {text} to {path}: {error.strerror}") from error


def _remove(directory: Path) -> bool:
    for _ in range(40):
        try:
            directory.rmdir()
        except FileNotFoundError:
            return True
        except OSError as error:
            if error.errno != errno.EBUSY:
                return False
            time.sleep(0.005)  # a killed process leaves its group a little after it can be waited for
        else:
            return True
    return False
