"""The filter as a program, on both architectures, without installing it."""

from __future__ import annotations

import errno
import re
import socket
import struct
from functools import cache
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sandbox.isolation import seccomp, syscalls
from tests.support.isolation.bpf import Call, decision

Shape = tuple[bool, bool, int | None]

ARCHES = ("x86_64", "aarch64")
HEADERS = {
    "x86_64": Path("/usr/include/x86_64-linux-gnu/asm/unistd_64.h"),
    "aarch64": Path("/usr/include/asm-generic/unistd.h"),
}
GROUPS = {name: table for name, table in vars(syscalls).items() if name.isupper() and isinstance(table, dict)}
EVERY = {name: row for table in GROUPS.values() for name, row in table.items()}
# processes, private_root, pid
NAMESPACES_TIER: Shape = (True, True, None)
LANDLOCK_TIER: Shape = (False, False, 1234)
SHAPES = [NAMESPACES_TIER, LANDLOCK_TIER, (False, True, None), (True, False, 1234)]

# Named one by one so that a table that grows by mistake is noticed. x86_64, aarch64.
NEVER = {
    "ptrace": (101, 117), "process_vm_readv": (310, 270), "process_vm_writev": (311, 271), "kcmp": (312, 272),
    "mount": (165, 40), "umount2": (166, 39), "pivot_root": (155, 41), "chroot": (161, 51), "open_tree": (428, 428),
    "move_mount": (429, 429), "fsopen": (430, 430), "fsconfig": (431, 431), "fsmount": (432, 432),
    "fspick": (433, 433), "mount_setattr": (442, 442), "unshare": (272, 97), "setns": (308, 268), "bpf": (321, 280),
    "perf_event_open": (298, 241), "userfaultfd": (323, 282), "fanotify_init": (300, 262),
    "io_uring_setup": (425, 425), "io_uring_enter": (426, 426), "io_uring_register": (427, 427),
    "io_setup": (206, 0), "io_submit": (209, 2), "add_key": (248, 217), "request_key": (249, 218),
    "keyctl": (250, 219), "kexec_load": (246, 104), "init_module": (175, 105), "finit_module": (313, 273),
    "reboot": (169, 142), "swapon": (167, 224), "settimeofday": (164, 170), "clock_settime": (227, 112),
    "sethostname": (170, 161), "syslog": (103, 116), "open_by_handle_at": (304, 265),
    "name_to_handle_at": (303, 264), "pidfd_open": (434, 434), "pidfd_getfd": (438, 438),
    "pidfd_send_signal": (424, 424), "process_madvise": (440, 440), "move_pages": (279, 239),
    "mbind": (237, 235), "set_mempolicy": (238, 237), "memfd_secret": (447, 447), "memfd_create": (319, 279),
    "mknodat": (259, 33), "msgget": (68, 186), "msgsnd": (69, 189), "semget": (64, 190), "semop": (65, 193),
    "shmget": (29, 194), "shmat": (30, 196), "mq_open": (240, 180), "socket": (41, 198), "bind": (49, 200),
    "connect": (42, 203), "listen": (50, 201), "sendmmsg": (307, 269), "setpriority": (141, 140),
    "sched_setaffinity": (203, 122), "sched_setattr": (314, 274), "ioprio_set": (251, 30), "setuid": (105, 146),
    "setresuid": (117, 147), "setgroups": (116, 159), "capset": (126, 91), "seccomp": (317, 277),
    "setxattr": (188, 5), "fremovexattr": (199, 16), "execveat": (322, 281), "vmsplice": (278, 75),
    "splice": (275, 76), "rt_sigqueueinfo": (129, 138), "rt_tgsigqueueinfo": (297, 240), "quotactl": (179, 60),
    "acct": (163, 89), "lookup_dcookie": (212, 18), "landlock_create_ruleset": (444, 444), "clone3": (435, 435),
    "openat2": (437, 437), "inotify_init1": (294, 26), "mlockall": (151, 230),
}  # fmt: skip
X86_ONLY = {"mknod": 133, "iopl": 172, "ioperm": 173, "modify_ldt": 154, "uselib": 134, "create_module": 174}


@cache
def built(arch: str, processes: bool, private_root: bool, pid: int | None) -> bytes:
    return seccomp.build(arch, processes=processes, private_root=private_root, pid=pid)


def decide(arch: str, name: str, *args: int, shape: Shape = NAMESPACES_TIER) -> str | int:
    number = getattr(EVERY[name], arch)
    assert number is not None
    return decision(built(arch, *shape), Call(seccomp.AUDIT_ARCH[arch], number, args))


def header_numbers(arch: str) -> dict[str, int]:
    pairs = re.findall(r"#define __NR(?:3264)?_(\w+)\s+(\d+)\b", HEADERS[arch].read_text())
    numbers = {name: int(number) for name, number in pairs}
    if arch == "aarch64":
        numbers["newfstatat"] = numbers["fstatat"]
    return numbers


@pytest.mark.parametrize("arch", ARCHES)
def test_numbers_are_those_of_the_system_headers(arch: str) -> None:
    if not HEADERS[arch].exists():
        pytest.skip(f"{HEADERS[arch]} is not installed")
    known = header_numbers(arch)
    assert len(known) > 250
    table = {name: getattr(row, arch) for name, row in EVERY.items() if getattr(row, arch) is not None}
    assert set(table) - set(known) <= {"fchmodat2"}  # newer than some headers
    assert {name: number for name, number in table.items() if number != known.get(name, number)} == {}
    # The tests' own list must be right too, or it proves nothing.
    index = ARCHES.index(arch)
    assert {name: numbers[index] for name, numbers in NEVER.items()} == {name: known[name] for name in NEVER}


@pytest.mark.parametrize("arch", ARCHES)
@pytest.mark.parametrize("shape", SHAPES)
def test_every_number_that_is_not_in_the_table_is_refused(arch: str, shape: Shape) -> None:
    listed = {getattr(row, arch) for row in EVERY.values()}
    program = built(arch, *shape)
    for number in range(2000):
        got = decision(program, Call(seccomp.AUDIT_ARCH[arch], number))
        if number >= seccomp.FIRST_UNKNOWN:
            assert got == errno.ENOSYS, number
        elif number not in listed:
            assert got == errno.EPERM, number


@pytest.mark.parametrize("arch", ARCHES)
def test_every_unconditional_call_in_the_table_is_allowed(arch: str) -> None:
    conditional = {
        "clone", "socketpair", "setsockopt", "ioctl", "fcntl", "prctl", "arch_prctl", "personality", "prlimit64",
        "sched_setscheduler", "flock",
    }  # fmt: skip
    for name, row in EVERY.items():
        if name not in conditional and name not in syscalls.REFUSED_KINDLY and getattr(row, arch) is not None:
            assert decide(arch, name, 2**64 - 1, 2**64 - 1, 2**64 - 1) == "allow", name


@pytest.mark.parametrize("arch", ARCHES)
def test_locks_on_files_succeed_and_do_nothing(arch: str) -> None:
    assert decide(arch, "flock", 5, 2) == 0
    assert [decide(arch, "fcntl", 5, command) for command in (6, 7, 37, 38)] == [0] * 4
    assert [decide(arch, "fcntl", 5, command) for command in (5, 36)] == [errno.EPERM] * 2


@pytest.mark.parametrize("arch", ARCHES)
@settings(deadline=None)
@given(args=st.tuples(*[st.integers(0, 2**64 - 1)] * 6), shape=st.sampled_from(SHAPES))
def test_dangerous_calls_are_never_allowed(arch: str, args: tuple[int, ...], shape: Shape) -> None:
    for name, numbers in NEVER.items():
        number = numbers[ARCHES.index(arch)]
        got = decision(built(arch, *shape), Call(seccomp.AUDIT_ARCH[arch], number, args))
        assert got != "allow", name


def test_old_calls_that_only_x86_has_are_refused() -> None:
    for number in X86_ONLY.values():
        assert decision(built("x86_64", *NAMESPACES_TIER), Call(seccomp.AUDIT_ARCH["x86_64"], number)) == errno.EPERM


@pytest.mark.parametrize("arch", ARCHES)
@settings(deadline=None)
@given(foreign=st.integers(0, 2**32 - 1), number=st.integers(0, 2**32 - 1))
def test_calls_of_another_architecture_end_the_process(arch: str, foreign: int, number: int) -> None:
    if foreign != seccomp.AUDIT_ARCH[arch]:
        assert decision(built(arch, *NAMESPACES_TIER), Call(foreign, number)) == "kill"


def test_the_two_architectures_end_each_other() -> None:
    for arch, other in (ARCHES, ARCHES[::-1]):
        assert decision(built(arch, *NAMESPACES_TIER), Call(seccomp.AUDIT_ARCH[other], 0)) == "kill"


@settings(deadline=None)
@given(number=st.integers(seccomp.X32, 2**32 - 1))
def test_x32_calls_end_the_process(number: int) -> None:
    assert decision(built("x86_64", *NAMESPACES_TIER), Call(seccomp.AUDIT_ARCH["x86_64"], number)) == "kill"


@pytest.mark.parametrize("arch", ARCHES)
@settings(deadline=None)
@given(flags=st.integers(0, 2**64 - 1))
def test_clone_makes_no_namespaces_and_processes_only_when_allowed(arch: str, flags: int) -> None:
    odd = flags & (0x7E020000 | 0x8000 | 0x2000 | 0x1000)
    thread = flags & 0x10000
    assert decide(arch, "clone", flags, shape=NAMESPACES_TIER) == (errno.EPERM if odd else "allow")
    assert decide(arch, "clone", flags, shape=LANDLOCK_TIER) == (errno.EPERM if odd or not thread else "allow")


@pytest.mark.parametrize("arch", ARCHES)
def test_the_threads_and_processes_of_glibc_can_be_made(arch: str) -> None:
    new_thread, fork, spawn = 0x3D0F00, 0x01200011, 0x4111
    for shape in SHAPES:
        assert decide(arch, "clone", new_thread, shape=shape) == "allow"
    for flags in (fork, spawn):
        assert decide(arch, "clone", flags, shape=NAMESPACES_TIER) == "allow"
        assert decide(arch, "clone", flags, shape=LANDLOCK_TIER) == errno.EPERM


@pytest.mark.parametrize("arch", ARCHES)
@pytest.mark.parametrize("group", ["PROCESSES", "METADATA"])
def test_processes_and_metadata_are_only_for_a_world_of_ones_own(arch: str, group: str) -> None:
    for name, row in GROUPS[group].items():
        if getattr(row, arch) is not None:
            assert decide(arch, name, shape=NAMESPACES_TIER) == "allow"
            assert decide(arch, name, shape=LANDLOCK_TIER) == errno.EPERM


@pytest.mark.parametrize("arch", ARCHES)
@settings(deadline=None)
@given(family=st.integers(0, 50), kind=st.integers(0, 15), flags=st.sampled_from([0, 0o4000, 0o2000000, 0o2004000]))
def test_socket_pairs_are_unix_streams_only(arch: str, family: int, kind: int, flags: int) -> None:
    got = decide(arch, "socketpair", family, kind | flags)
    if family != socket.AF_UNIX:
        assert got == errno.EAFNOSUPPORT
    else:
        assert got == ("allow" if kind == socket.SOCK_STREAM else errno.EPERM)


@pytest.mark.parametrize("arch", ARCHES)
def test_some_refusals_are_ones_that_callers_can_live_with(arch: str) -> None:
    assert decide(arch, "socket", socket.AF_INET) == errno.EAFNOSUPPORT
    assert decide(arch, "clone3") == decide(arch, "openat2") == errno.ENOSYS


@pytest.mark.parametrize("arch", ARCHES)
@settings(deadline=None)
@given(target=st.integers(-(2**31), 2**31 - 1))
def test_signals_reach_nobody_else_when_a_pid_is_given(arch: str, target: int) -> None:
    for name in ("kill", "tgkill"):
        got = decide(arch, name, target, 1234, 9, shape=LANDLOCK_TIER)
        assert got == ("allow" if target == 1234 else errno.EPERM)
        assert decide(arch, name, 1234, 1234, 9, shape=LANDLOCK_TIER) == "allow"
    assert decide(arch, "tkill", target, 9, shape=LANDLOCK_TIER) == errno.EPERM
    assert decide(arch, "kill", target, 9, shape=NAMESPACES_TIER) == "allow"


@pytest.mark.parametrize("arch", ARCHES)
@pytest.mark.parametrize(
    ("name", "position", "allowed", "refused"),
    [
        # TIOCSTI, TIOCLINUX, TIOCSCTTY, FIOASYNC, FIOSETOWN, SIOCSPGRP, FICLONE
        ("ioctl", 1, [0x5401, 0x541B, 0x5421, 0x5451], [0x5412, 0x541C, 0x540E, 0x5452, 0x8901, 0x8902, 0x40049409]),
        # F_SETOWN, F_SETSIG, F_SETOWN_EX, F_SETLEASE, F_NOTIFY, F_SETPIPE_SZ, F_ADD_SEALS
        ("fcntl", 1, [0, 1, 2, 3, 4, 1030], [8, 10, 15, 1024, 1026, 1031, 1033]),
        # PR_SET_DUMPABLE, PR_SET_SECCOMP, PR_SET_MM, PR_SET_PTRACER, PR_CAP_AMBIENT, PR_SET_CHILD_SUBREAPER
        ("prctl", 0, [15, 16, 39, 0x53564D41], [4, 22, 35, 0x59616D61, 47, 36]),
        ("personality", 0, [0, 0xFFFFFFFF], [0x0040000, 0x0400000, 8]),
        ("prlimit64", 0, [0], [1, 1234, 0xFFFFFFFF]),
        ("sched_setscheduler", 1, [0], [1, 2, 3, 5, 6]),
    ],
)
def test_calls_are_allowed_with_listed_arguments_only(
    arch: str, name: str, position: int, allowed: list[int], refused: list[int]
) -> None:
    for value in allowed:
        assert decide(arch, name, *[0] * position, value) == "allow", hex(value)
    for value in refused:
        assert decide(arch, name, *[0] * position, value) == errno.EPERM, hex(value)


@pytest.mark.parametrize("arch", ARCHES)
@settings(deadline=None)
@given(value=st.integers(0, 2**32 - 1))
def test_a_kernel_cannot_arrange_to_outlive_its_parent(arch: str, value: int) -> None:
    assert decide(arch, "prctl", 1, value) == ("allow" if value == 9 else errno.EPERM)


@pytest.mark.parametrize("arch", ARCHES)
def test_socket_options_are_listed(arch: str) -> None:
    for level, option in ((1, 9), (6, 1)):  # keep-alive; TCP_NODELAY, which libzmq insists on
        assert decide(arch, "setsockopt", 3, level, option) == "allow"
    for level, option in (
        (1, 7),
        (1, 8),
        (1, 26),
        (1, 50),
        (1, 52),
        (6, 2),
        (6, 31),
        (0, 1),
        (1, 51),
    ):  # filters, TCP, IP
        assert decide(arch, "setsockopt", 3, level, option) == errno.EPERM


@settings(deadline=None)
@given(args=st.tuples(*[st.one_of(st.integers(0, 2**64 - 1), st.integers(0, 64))] * 6), shape=st.sampled_from(SHAPES))
def test_both_architectures_decide_alike(args: tuple[int, ...], shape: Shape) -> None:
    for name, row in EVERY.items():
        if None not in row:
            assert decide("x86_64", name, *args, shape=shape) == decide("aarch64", name, *args, shape=shape), name


@pytest.mark.parametrize("arch", ARCHES)
@pytest.mark.parametrize("shape", SHAPES)
def test_the_filter_is_short_and_ends_in_a_return(arch: str, shape: Shape) -> None:
    program = built(arch, *shape)
    assert len(program) % 8 == 0
    assert len(program) // 8 < 1000  # the system takes 4096
    assert struct.unpack_from("<HBBI", program, len(program) - 8)[0] == 0x06


def test_an_architecture_without_a_table_is_an_error() -> None:
    with pytest.raises(OSError, match="riscv64"):
        seccomp.build("riscv64", processes=False, private_root=False)
