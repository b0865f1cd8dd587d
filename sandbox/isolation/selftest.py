"""The tests that `probe` runs, in an interpreter of their own: each puts one layer on a fork and tries to break out.

A test returns a sentence about what was refused; whatever it raises says why the layer does not work.
"""

from __future__ import annotations

import errno
import json
import os
import resource
import sys
import tempfile
import traceback
from collections.abc import Callable

from sandbox.isolation import cgroups, confinement, landlock, libc, namespaces, privileges, rlimits, seccomp
from sandbox.isolation.confinement import Confinement
from sandbox.limits import MB, Limits

_UID = 59_999
_UNSHARE = {"x86_64": 272, "aarch64": 97}


def main() -> None:
    """Run every test; print one line of JSON for each: layer, whether it works, what was seen."""
    order = json.loads(sys.stdin.read())
    read_only = tuple(order["read_only"])
    tests: dict[str, Callable[[], str]] = {
        "namespaces": lambda: _namespaces(read_only),
        "landlock": _landlock,
        "seccomp": _seccomp,
        "rlimits": _rlimits,
        "user": _user,
        "cgroup": _cgroup,
    }
    for layer, test in tests.items():
        works, detail = _in_child(test)
        sys.stdout.write(json.dumps([layer, works, detail]) + "\n")
        sys.stdout.flush()


def _in_child(test: Callable[[], str]) -> tuple[bool, str]:
    reading, writing = os.pipe()
    pid = os.fork()
    if pid == 0:
        os.close(reading)
        _report(writing, test)
    os.close(writing)
    with os.fdopen(reading, "rb") as pipe:
        said = pipe.read()
    _, status = os.waitpid(pid, 0)
    if not said:
        return False, f"the test ended without a word, status {os.waitstatus_to_exitcode(status)}"
    works, detail = json.loads(said)
    return bool(works), str(detail)


def _report(writing: int, test: Callable[[], str]) -> None:
    try:
        answer = [True, test()]
    except BaseException as error:
        where = traceback.extract_tb(error.__traceback__)[-1]
        said = str(error.strerror if isinstance(error, OSError) and error.strerror else error)
        answer = [False, said or f"{type(error).__name__} at line {where.lineno} of {where.filename}"]
    os.write(writing, json.dumps(answer).encode())
    os._exit(0)


def _namespaces(read_only: tuple[str, ...]) -> str:
    layers = frozenset({"namespaces"})
    uid = _UID if os.geteuid() == 0 else None
    # The real thing as a session has it: everything that this user cannot read would be missed later.
    plan = Confinement(layers, Limits(), read_only, namespaces.SCRATCH, uid)
    host_name = os.uname().nodename
    confinement.separate(plan)

    def inside() -> str:
        confinement.confine(plan)
        _must(os.getpid() == 1, "the process is not alone in its pid namespace")
        _must(not os.path.exists("/etc/passwd"), "the host's files can be seen")
        _must(not os.path.exists("/proc/self"), "/proc can be seen")
        _must(os.uname().nodename != host_name or host_name == "kernel", "the host's name can be seen")
        _refused(lambda: os.close(os.open("/file", os.O_CREAT | os.O_WRONLY)), "writing to the private root")
        _no_network()
        os.close(os.open(f"{namespaces.SCRATCH}/file", os.O_CREAT | os.O_WRONLY))
        return "a private root without the host's files, process 1, no network"

    works, detail = _in_child(inside)
    if not works:
        raise OSError(0, detail)
    return detail


def _no_network() -> None:
    import socket

    names = [name for _, name in socket.if_nameindex()]
    _must(names == ["lo"], f"network interfaces can be seen: {', '.join(names)}")
    with socket.socket() as probe:
        _refused(lambda: probe.connect(("127.0.0.1", 9)), "the loopback interface", errno.ENETUNREACH)


def _landlock() -> str:
    with tempfile.TemporaryDirectory() as inside, tempfile.TemporaryDirectory() as outside:
        os.close(os.open(f"{outside}/old", os.O_CREAT | os.O_WRONLY))

        def confined() -> str:
            landlock.restrict(("/usr",), (inside,), namespaces.DEVICES)
            os.close(os.open(f"{inside}/new", os.O_CREAT | os.O_WRONLY))
            _refused(lambda: os.close(os.open(f"{outside}/new", os.O_CREAT | os.O_WRONLY)), "writing outside")
            _refused(lambda: os.close(os.open(f"{outside}/old", os.O_RDONLY)), "reading outside")
            return f"ABI {landlock.abi()}; reading and writing outside were refused"

        works, detail = _in_child(confined)
    if not works:
        raise OSError(0, detail)
    return detail


def _seccomp() -> str:
    seccomp.install(seccomp.build(processes=False, private_root=False, pid=os.getpid()))
    number = _UNSHARE[os.uname().machine]
    _refused(lambda: libc.syscall("unshare", number, 0), "unshare", errno.EPERM)
    _refused(lambda: os.close(os.memfd_create("file")), "a memory file", errno.EPERM)
    _refused(os.fork, "fork", errno.EPERM)
    return "unshare, a memory file and fork were refused"


def _rlimits() -> str:
    limits = Limits(memory_bytes=64 * MB)
    rlimits.apply(limits, address_space=rlimits.address_space(), count_processes=False)
    try:
        bytearray(128 * MB)
    except MemoryError:
        pass
    else:
        raise OSError(0, "more memory was given than allowed")
    _must(resource.getrlimit(resource.RLIMIT_CORE) == (0, 0), "core dumps are on")
    return "too much memory is a MemoryError"


def _user() -> str:
    root = os.geteuid() == 0
    if root:
        privileges.become(_UID)
    privileges.drop_capabilities()
    privileges.no_new_privileges()
    if root:
        _must(os.getresuid() == (_UID, _UID, _UID) and os.getgroups() == [], "the user did not change")
        _refused(lambda: os.setuid(0), "becoming root again", errno.EPERM)
        return "another user, no capabilities, no way back"
    return "an ordinary user already; no capabilities, no new ones"


def _cgroup() -> str:
    group = cgroups.create(f"rlm-probe-{os.getpid()}", 64 * MB, 8)
    if group is None:
        raise OSError(0, "no control group can be made here")
    reading, writing = os.pipe()
    pid = os.fork()
    if pid == 0:
        os.close(writing)
        os.read(reading, 1)
        os._exit(0)
    try:
        group.add(pid)
        with open(f"/proc/{pid}/cgroup") as file:
            moved = f"rlm-probe-{os.getpid()}" in file.read()
    finally:
        os.close(writing)
        os.waitpid(pid, 0)
        removed = group.remove()
    _must(moved, "a process could not be moved into the group")
    _must(removed, "the group could not be removed")
    return f"{len(group.directories)} groups made, a process moved, removed"


def _must(true: bool, otherwise: str) -> None:
    if not true:
        raise OSError(0, otherwise)


def _refused(action: Callable[[], object], what: str, expected: int | None = None) -> None:
    try:
        action()
    except OSError as error:
        if expected is None or error.errno == expected:
            return
        raise OSError(0, f"{what}: {error}") from error
    raise OSError(0, f"{what} was not refused")
