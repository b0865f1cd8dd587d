"""Seccomp: which system calls the kernel may make. What is not on the list is refused.

Covers:
- all of the system that Python, numpy, pandas, asyncio and libzmq on inherited sockets have no use for: mounts,
  namespaces, tracing, keys, io_uring, bpf, userfaultfd, memory files, System V IPC, message queues, new sockets
- starting processes and programs, unless `processes`
- changes to modes, owners and times of files, unless `private_root`
- signals to others, when `pid` is given
- locks on files: they are accepted and do nothing

Does not cover:
- anything behind a pointer: which file is opened is for Landlock and the private root
- flaws in the calls that are allowed
- datagram sockets that were open before: they can send to any unix socket that has a path. Hand none in.
- the scheduling policy of the user's other processes: it can be reset to the default (libzmq insists on that call)

Refused calls give EPERM. `socket` gives EAFNOSUPPORT, which libraries know how to live with. clone3, openat2 and
whatever came after this table give ENOSYS, so that the C library falls back to a call that can be checked. Another
architecture's calls, and x32, end the process.
"""

from __future__ import annotations

import ctypes
import errno
import functools
import platform
import signal
import socket
import struct
from collections.abc import Iterable

from sandbox.isolation import libc, privileges, syscalls

AUDIT_ARCH = {"x86_64": 0xC000003E, "aarch64": 0xC00000B7}
ALLOW, KILL = 0x7FFF0000, 0x80000000
X32 = 0x40000000
FIRST_UNKNOWN = 453
"""Calls from here on came after the table was made."""

# Classic BPF: (code, jump if true, jump if false, operand). Only what the system's cache of always-allowed calls can
# follow is used before an argument is read, so that these calls cost no run of the program at all.
Instruction = tuple[int, int, int, int]
Program = list[Instruction]
_LOAD, _JUMP, _JUMP_EQUAL, _JUMP_AT_LEAST, _JUMP_BITS, _AND, _RETURN = 0x20, 0x05, 0x15, 0x35, 0x45, 0x54, 0x06
_NUMBER_OFFSET, _ARCH_OFFSET, _ARGUMENTS_OFFSET = 0, 4, 16

_O_TMPFILE = 0x00400000  # the bit that is not O_DIRECTORY
_CLONE_THREAD = 0x00010000
_CLONE_NAMESPACES = 0x7E020000
# A child of our parent, one that is traced, a descriptor of a process: nothing here starts a process that way.
_CLONE_ODD = 0x00008000 | 0x00002000 | 0x00001000

_TCGETS, _TCGETS2, _TIOCGWINSZ, _FIONREAD, _FIONBIO, _FIONCLEX, _FIOCLEX = (
    0x5401, 0x802C542A, 0x5413, 0x541B, 0x5421, 0x5450, 0x5451,
)  # fmt: skip
_PR_SET_PDEATHSIG, _PR_GET_DUMPABLE, _PR_SET_NAME, _PR_GET_NAME = 1, 3, 15, 16
_PR_GET_NO_NEW_PRIVS, _PR_SET_VMA = 39, 0x53564D41
_ARCH_SET_FS, _ARCH_GET_FS, _ARCH_GET_XCOMP_PERM, _ARCH_REQ_XCOMP_PERM, _ARCH_CET_STATUS = (
    0x1002, 0x1003, 0x1022, 0x1023, 0x3001,
)  # fmt: skip
# Duplicates and flags. Not F_SETOWN and F_SETSIG: they have the system send any signal to the user's processes.
_FCNTL = (0, 1, 2, 3, 4, 1030, 1032, 1034)
_FCNTL_LOCKS = (6, 7, 37, 38)  # of a process, of an open file; to ask who holds one is refused
_SOL_SOCKET = 1
# Reuse, keep-alive, linger, credentials, time-outs (old and new form). Not filters, which are programs, and not the
# sizes of buffers, which are memory that no limit of ours counts.
_SOCKET_OPTIONS = (2, 9, 13, 16, 20, 21, 66, 67)

_SECCOMP = {"x86_64": 317, "aarch64": 277}
_SET_MODE_FILTER, _ALL_THREADS = 1, 1


@functools.cache
def build(arch: str | None = None, *, processes: bool, private_root: bool, pid: int | None = None) -> bytes:
    """The filter as the system takes it. `pid`: the only process that may be signalled, else any that can be seen."""
    arch = arch or platform.machine()
    if arch not in AUDIT_ARCH:
        raise OSError(errno.EOPNOTSUPP, f"seccomp: no table of system calls for {arch}")
    actions = _actions(arch, processes=processes, private_root=private_root, pid=pid)
    program: Program = [
        (_LOAD, 0, 0, _ARCH_OFFSET),
        (_JUMP_EQUAL, 1, 0, AUDIT_ARCH[arch]),
        _return(KILL),
        (_LOAD, 0, 0, _NUMBER_OFFSET),
        *_search(_ranges(actions, arch)),
    ]
    if len(program) >= 4096:
        raise ValueError("seccomp: the filter is longer than the system takes")
    return b"".join(struct.pack("=HBBI", *instruction) for instruction in program)


def install(program: bytes) -> None:
    """Put every thread of this process under the filter, for good."""
    privileges.no_new_privileges()
    instructions = ctypes.create_string_buffer(program, len(program))
    # struct sock_fprog: a 16-bit count, then a pointer, aligned
    header = struct.pack("@HP", len(program) // 8, ctypes.addressof(instructions))
    argument = ctypes.create_string_buffer(header, len(header))
    number = _SECCOMP.get(platform.machine())
    if number is None:
        raise OSError(errno.EOPNOTSUPP, f"seccomp: unknown machine {platform.machine()}")
    stuck = libc.syscall("seccomp: install", number, _SET_MODE_FILTER, _ALL_THREADS, argument)
    if stuck:
        raise OSError(errno.EBUSY, f"seccomp: thread {stuck} could not be put under the filter")


def _actions(arch: str, *, processes: bool, private_root: bool, pid: int | None) -> dict[int, Program]:
    """Return what to do with each call that has a rule, by number."""
    groups = [
        syscalls.DESCRIPTORS, syscalls.FILES, syscalls.MEMORY, syscalls.WAITING, syscalls.SOCKETS, syscalls.TIME,
        syscalls.SIGNALS, syscalls.THREADS, syscalls.FACTS,
    ]  # fmt: skip
    if private_root:
        groups.append(syscalls.METADATA)
    if processes:
        groups.append(syscalls.PROCESSES)
    named = {name: [_return(ALLOW)] for group in groups for name in group}
    named |= _argument_rules(processes=processes)
    if not private_root:
        # A file that never had a name would not be seen by whoever watches the scratch directory.
        for name, flags in (("open", 1), ("openat", 2)):
            named[name] = [*_without(flags, _O_TMPFILE, errno.EOPNOTSUPP), _return(ALLOW)]
        # It fills a disk faster than anybody can look; the C library writes zeros instead.
        named["fallocate"] = [_refuse(errno.EOPNOTSUPP)]
    if pid is not None:
        named["kill"] = named["tgkill"] = [*_one_of(0, [pid]), _return(ALLOW)]
        del named["tkill"]  # it names a thread of any process
    named |= {
        "socket": [_refuse(errno.EAFNOSUPPORT)],
        "clone3": [_refuse(errno.ENOSYS)],
        "openat2": [_refuse(errno.ENOSYS)],
    }
    numbers = {name: getattr(row, arch) for group in (*groups, syscalls.REFUSED_KINDLY) for name, row in group.items()}
    return {numbers[name]: program for name, program in named.items() if numbers[name] is not None}


def _argument_rules(*, processes: bool) -> dict[str, Program]:
    """Calls that are allowed with some arguments only."""
    allow = _return(ALLOW)
    thread = [] if processes else _any_bit(0, _CLONE_THREAD)
    return {
        "clone": [*_no_bit(0, _CLONE_NAMESPACES | _CLONE_ODD), *thread, allow],
        # Unconnected datagram sockets can be sent to any path: streams only.
        "socketpair": [
            *_one_of(0, [int(socket.AF_UNIX)], errno.EAFNOSUPPORT),
            *_masked(1, 0xF, int(socket.SOCK_STREAM)),
            allow,
        ],
        "setsockopt": [
            # libzmq sets this one on what it accepts from a Jupyter that talks over TCP, and hangs up when it cannot.
            *_when(1, int(socket.IPPROTO_TCP), [*_one_of(2, [int(socket.TCP_NODELAY)]), allow]),
            *_one_of(1, [_SOL_SOCKET]),
            *_one_of(2, _SOCKET_OPTIONS),
            allow,
        ],
        "ioctl": [
            *_one_of(1, [_TCGETS, _TCGETS2, _TIOCGWINSZ, _FIONREAD, _FIONBIO, _FIONCLEX, _FIOCLEX]),
            allow,
        ],
        # Files that several sessions can open are the host's, and a lock on one of them would keep the host waiting.
        # On a file of its own scratch a session needs none against others: the call succeeds and does nothing.
        "flock": [_refuse(0)],
        "fcntl": [
            *(part for lock in _FCNTL_LOCKS for part in _when(1, lock, [_refuse(0)])),
            *_one_of(1, _FCNTL),
            allow,
        ],
        "prctl": [
            # The fork server sets this after the filter is in place. Any other value would let a kernel outlive it.
            *_when(0, _PR_SET_PDEATHSIG, [*_one_of(1, [int(signal.SIGKILL)]), allow]),
            *_one_of(0, [_PR_SET_NAME, _PR_GET_NAME, _PR_SET_VMA, _PR_GET_DUMPABLE, _PR_GET_NO_NEW_PRIVS]),
            allow,
        ],
        "arch_prctl": [
            *_one_of(0, [_ARCH_SET_FS, _ARCH_GET_FS, _ARCH_GET_XCOMP_PERM, _ARCH_REQ_XCOMP_PERM, _ARCH_CET_STATUS]),
            allow,
        ],
        "personality": [*_one_of(0, [0, 0xFFFFFFFF]), allow],
        "prlimit64": [*_one_of(0, [0]), allow],
        # libzmq sets every thread to the default policy and aborts when it cannot.
        "sched_setscheduler": [*_one_of(1, [0]), allow],
    }


def _return(value: int) -> Instruction:
    return (_RETURN, 0, 0, value)


def _refuse(number: int) -> Instruction:
    return _return(0x00050000 | number)


def _load(argument: int) -> Instruction:
    # The lower half, on little-endian machines: every argument that is looked at is an int to the system.
    return (_LOAD, 0, 0, _ARGUMENTS_OFFSET + 8 * argument)


def _one_of(argument: int, values: Iterable[int], number: int = errno.EPERM) -> Program:
    """Go on if the argument is one of the values, else refuse."""
    listed = list(values)
    tests = [(_JUMP_EQUAL, len(listed) - index, 0, value) for index, value in enumerate(listed)]
    return [_load(argument), *tests, _refuse(number)]


def _without(argument: int, bits: int, number: int) -> Program:
    """Go on if none of the bits is set, else refuse."""
    return [_load(argument), (_JUMP_BITS, 0, 1, bits), _refuse(number)]


def _masked(argument: int, mask: int, value: int) -> Program:
    return [_load(argument), (_AND, 0, 0, mask), (_JUMP_EQUAL, 1, 0, value), _refuse(errno.EPERM)]


def _no_bit(argument: int, mask: int) -> Program:
    return [_load(argument), (_JUMP_BITS, 0, 1, mask), _refuse(errno.EPERM)]


def _any_bit(argument: int, mask: int) -> Program:
    return [_load(argument), (_JUMP_BITS, 1, 0, mask), _refuse(errno.EPERM)]


def _when(argument: int, value: int, then: Program) -> Program:
    """Do `then`, which returns, if the argument has the value; else go on."""
    return [_load(argument), (_JUMP_EQUAL, 0, len(then), value), *then]


def _ranges(actions: dict[int, Program], arch: str) -> list[tuple[int, Program]]:
    """Return the number line cut into runs of the same action: (first number, action)."""
    runs: list[tuple[int, Program]] = []
    for number in range(FIRST_UNKNOWN):
        action = actions.get(number, [_refuse(errno.EPERM)])
        if not runs or runs[-1][1] != action:
            runs.append((number, action))
    runs.append((FIRST_UNKNOWN, [_refuse(errno.ENOSYS)]))
    if arch == "x86_64":
        runs.append((X32, [_return(KILL)]))
    return runs


def _search(runs: list[tuple[int, Program]]) -> Program:
    """Return a binary search over the runs; the number is in the accumulator, every path ends in a return."""
    if len(runs) == 1:
        return runs[0][1]
    middle = len(runs) // 2
    left, right = _search(runs[:middle]), _search(runs[middle:])
    first = runs[middle][0]
    if len(left) <= 255:
        return [(_JUMP_AT_LEAST, len(left), 0, first), *left, *right]
    # A conditional jump reaches 255 instructions; a plain one reaches all.
    return [(_JUMP_AT_LEAST, 0, 1, first), (_JUMP, 0, 0, len(left)), *left, *right]
