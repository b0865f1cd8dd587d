"""Resource limits: what the system counts for a single process or a single user.

Covers:
- memory: address space beyond what the process had when it was confined, so that a request too many is a MemoryError
- the size of one file, the number of open descriptors, core dumps
- processes and threads at once, where the count is the session's own (see `apply`)

Does not cover:
- memory of several processes together: each one has the limit for itself; the cgroup counts them together
- all files together: the private root's scratch has a size; without one only each file has
- time: the host keeps the clocks
"""

from __future__ import annotations

import os
import resource

from sandbox.isolation import libc
from sandbox.limits import Limits

OPEN_FILES = 256
_M_ARENA_MAX = -8


INPUT_ROOM = 64 << 30
"""Address space for inputs, on top of the limit, until `tighten_memory` says how much they really took."""


def open_address_space() -> int | None:
    """Return a descriptor that tells the address space of this process, also where a private root hides /proc."""
    try:
        return os.open("/proc/self/statm", os.O_RDONLY | os.O_CLOEXEC)
    except FileNotFoundError:
        return None  # macOS


def address_space(descriptor: int | None = None) -> int | None:
    """Return the bytes of address space this process has; None where /proc does not say."""
    opened = open_address_space() if descriptor is None else descriptor
    if opened is None:
        return None
    try:
        return int(os.pread(opened, 200, 0).split()[0]) * os.sysconf("SC_PAGE_SIZE")
    finally:
        if descriptor is None:
            os.close(opened)


def tighten_memory(descriptor: int, memory_bytes: int) -> None:
    """From here on, `memory_bytes` more than now, for good. Called when the inputs are loaded and no cell has run."""
    now = address_space(descriptor)
    if now is not None:
        _set(resource.RLIMIT_AS, now + memory_bytes, "as")


def apply(limits: Limits, *, address_space: int | None, count_processes: bool) -> None:
    """Set the limits, for good. `address_space` is read earlier: a private root hides /proc.

    RLIMIT_NPROC counts a user's processes within a user namespace. Where that is this session alone (a namespace of its
    own, or a user of its own), `count_processes`, it is the session's limit. Elsewhere it counts all that the user runs
    on the machine, and the session may add as many to what there is now: a rough limit, which moves with whatever else
    the user starts and ends, but keeps a flood of threads from going on. Root is never counted.
    """
    _set(resource.RLIMIT_CORE, 0, "core")
    _set(resource.RLIMIT_NOFILE, OPEN_FILES, "nofile")
    _set(resource.RLIMIT_FSIZE, limits.file_bytes, "fsize")
    if address_space is not None:
        # Each arena of glibc reserves 64 MB of address space; one for each of many threads would eat the limit.
        if libc.has("mallopt"):
            libc.call("rlimits: arenas", "mallopt", _M_ARENA_MAX, 2)
        _set(resource.RLIMIT_AS, address_space + limits.memory_bytes, "as")
    if count_processes:
        _set(resource.RLIMIT_NPROC, limits.processes, "nproc")
    elif os.getuid() != 0 and (others := _tasks_of_user()) is not None:
        _set(resource.RLIMIT_NPROC, others + limits.processes, "nproc")


def _tasks_of_user() -> int | None:
    """Return how many processes and threads the user of this process has; None where nothing says so."""
    mine, count = os.getuid(), 0
    try:
        processes = [name for name in os.listdir("/proc") if name.isdecimal()]
    except FileNotFoundError:
        return None
    for name in processes:
        try:
            with open(f"/proc/{name}/status", "rb") as file:
                status = file.read()
        except OSError:
            continue  # it has ended
        if int(_value(status, b"Uid:")) == mine:
            count += int(_value(status, b"Threads:"))
    return count


def _value(status: bytes, name: bytes) -> bytes:
    return status.partition(b"\n" + name)[2].split(None, 1)[0]


def _set(kind: int, value: int, name: str) -> None:
    _, hard = resource.getrlimit(kind)
    if hard != resource.RLIM_INFINITY:
        value = min(value, hard)  # somebody has set a tighter one already
    try:
        resource.setrlimit(kind, (value, value))
    except (OSError, ValueError) as error:
        number = error.errno if isinstance(error, OSError) else None
        raise OSError(number or 0, f"rlimits: {name} = {value}: {error}") from error
