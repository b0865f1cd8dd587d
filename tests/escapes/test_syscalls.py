"""System calls that nothing here has a use for: namespaces, mounts, tracing, io_uring, bpf, keys, memory files, ..."""

from __future__ import annotations

import os
import platform
import socket
from pathlib import Path

import pytest

from .hosts import Box, eventually, runs

pytestmark = pytest.mark.layers("seccomp")

# name: (number on x86_64, number on aarch64, arguments). Harmless where it is not refused.
_CALLS: dict[str, tuple[int | None, int | None, str]] = {
    # namespaces and mounts
    "unshare-user": (272, 97, "0x10000000"),
    "unshare-mounts": (272, 97, "0x00020000"),
    "unshare-network": (272, 97, "0x40000000"),
    "unshare-processes": (272, 97, "0x20000000"),
    "unshare-nothing": (272, 97, "0"),
    "setns": (308, 268, "os.open('.', 0), 0"),
    "mount": (165, 40, "b'tmpfs', b'/box', b'tmpfs', 0, None"),
    "mount-bind": (165, 40, "b'/', b'/box', None, 4096, None"),
    "mount-remount-writable": (165, 40, "None, b'/', None, 32 | 4096, None"),
    "umount2": (166, 39, "b'/box', 2"),
    "pivot_root": (155, 41, "b'.', b'.'"),
    "chroot": (161, 51, "b'/usr'"),
    "fsopen": (430, 430, "b'tmpfs', 0"),
    "fsconfig": (431, 431, "0, 0, None, None, 0"),
    "fsmount": (432, 432, "0, 0, 0"),
    "open_tree": (428, 428, "-100, b'/', 1"),
    "move_mount": (429, 429, "-100, b'/usr', -100, b'/box', 0"),
    "mount_setattr": (442, 442, "-100, b'/', 0, bytes(32), 32"),
    "quotactl": (179, 60, "0, None, 0, None"),
    # other processes
    "ptrace-traceme": (101, 117, "0, 0, 0, 0"),
    "ptrace-attach": (101, 117, "16, os.getppid() or 1, 0, 0"),
    "process_vm_readv": (310, 270, "os.getpid(), bytes(16), 1, bytes(16), 1, 0"),
    "process_vm_writev": (311, 271, "os.getpid(), bytes(16), 1, bytes(16), 1, 0"),
    "process_madvise": (440, 440, "0, None, 0, 0, 0"),
    "process_mrelease": (448, 448, "0, 0"),
    "kcmp": (312, 272, "os.getpid(), os.getpid(), 0, 0, 0"),
    "pidfd_open": (434, 434, "os.getpid(), 0"),
    "pidfd_getfd": (438, 438, "0, 0, 0"),
    "pidfd_send_signal": (424, 424, "0, 0, None, 0"),
    "rt_sigqueueinfo": (129, 138, "os.getpid(), 0, bytes(128)"),
    "rt_tgsigqueueinfo": (297, 240, "os.getpid(), os.getpid(), 0, bytes(128)"),
    "prlimit-of-another": (302, 261, "os.getppid() or 2, 7, None, bytes(16)"),
    "sched_setaffinity": (203, 122, "0, 8, b'\\x01' + bytes(7)"),
    "sched_setattr": (314, 274, "0, bytes(48), 0"),
    "setpriority": (141, 140, "0, 0, -20"),
    "ioprio_set": (251, 30, "1, 0, 0"),
    "migrate_pages": (256, 238, "os.getpid(), 0, None, None"),
    "move_pages": (279, 239, "os.getpid(), 0, None, None, None, 0"),
    # io_uring, bpf and other large doors into the system
    "io_uring_setup": (425, 425, "8, bytes(120)"),
    "io_uring_enter": (426, 426, "0, 0, 0, 0, None"),
    "io_uring_register": (427, 427, "-1, 0, None, 0"),
    "io_setup": (206, 0, "1, bytes(8)"),
    "bpf": (321, 280, "0, bytes(72), 72"),
    "bpf-load-a-program": (321, 280, "5, bytes(128), 128"),
    "perf_event_open": (298, 241, "bytes(128), 0, -1, -1, 0"),
    "userfaultfd": (323, 282, "1"),
    "fanotify_init": (300, 262, "0, 0"),
    "inotify_init1": (294, 26, "0"),
    "seccomp-of-its-own": (317, 277, "1, 8, bytes(16)"),
    "landlock_create_ruleset": (444, 444, "None, 0, 1"),
    "modify_ldt": (154, None, "0, bytes(16), 16"),
    "splice": (275, 76, "0, None, 1, None, 1, 0"),
    "vmsplice": (278, 75, "1, bytes(16), 1, 0"),
    "tee": (276, 77, "0, 1, 1, 0"),
    "signalfd4": (289, 74, "-1, bytes(8), 8, 0"),
    "timer_create": (222, 107, "0, None, bytes(8)"),
    "futex_waitv": (449, 449, "None, 0, 0, None, 0"),
    "remap_file_pages": (216, 234, "0, 0, 0, 0, 0"),
    "mlockall": (151, 230, "1"),
    "mbind": (237, 235, "0, 0, 0, None, 0, 0"),
    "set_mempolicy": (238, 237, "0, None, 0"),
    # memory files and what is shared by name
    "memfd_create": (319, 279, "b'x', 0"),
    "memfd_secret": (447, 447, "0"),
    "shmget": (29, 194, "0x5ec4e7, 4096, 0o1666"),
    "shmat": (30, 196, "0, None, 0"),
    "semget": (64, 190, "0x5ec4e7, 1, 0o1666"),
    "msgget": (68, 186, "0x5ec4e7, 0o1666"),
    "mq_open": (240, 180, "b'escaped', 0o102, 0o666, None"),
    # keys
    "add_key": (248, 217, "b'user', b'escaped', b'x', 1, -3"),
    "request_key": (249, 218, "b'user', b'escaped', None, -3"),
    "keyctl-session": (250, 219, "0, -3, 1"),
    "keyctl-read": (250, 219, "11, -4, bytes(64), 64"),
    "keyctl-join": (250, 219, "1, b'escaped'"),
    # becoming somebody else
    "setuid": (105, 146, "0"),
    "setgid": (106, 144, "0"),
    "setresuid": (117, 147, "0, 0, 0"),
    "setgroups": (116, 159, "0, None"),
    "setfsuid": (122, 151, "0"),
    "capset": (126, 91, "b'\\x22\\x05\\x08\\x20' + bytes(4), b'\\xff' * 24"),
    # the machine
    "sethostname": (170, 161, "b'escaped', 7"),
    "setdomainname": (171, 162, "b'escaped', 7"),
    "reboot": (169, 142, "1, 2, 3, None"),
    "kexec_load": (246, 104, "0, 0, None, 0xffff"),
    "kexec_file_load": (320, 294, "-1, -1, 0, None, 0"),
    "init_module": (175, 105, "bytes(16), 16, b''"),
    "finit_module": (313, 273, "-1, b'', 0"),
    "delete_module": (176, 106, "b'no_such_module', 0"),
    "swapon": (167, 224, "b'/nonexistent', 0"),
    "swapoff": (168, 225, "b'/nonexistent'"),
    "acct": (163, 89, "b'/nonexistent/x'"),
    "syslog": (103, 116, "3, bytes(4096), 4096"),
    "iopl": (172, None, "0"),
    "ioperm": (173, None, "0x80, 1, 0"),
    "settimeofday": (164, 170, "None, None"),
    "clock_settime": (227, 112, "1, bytes(16)"),
    "adjtimex": (159, 171, "bytes(512)"),
    "vhangup": (153, 58, ""),
    "sync": (162, 81, ""),
    "syncfs": (306, 267, "0"),
    "lookup_dcookie": (212, 18, "0, None, 0"),
    "name_to_handle_at": (303, 264, "-100, b'/', bytes(136), bytes(4), 0"),
    "open_by_handle_at": (304, 265, "-100, bytes(136), 0"),
    "mknodat-device": (259, 33, "-100, b'device', 0o060600, 0x0800"),
    "execveat": (322, 281, "-100, b'/bin/true', None, None, 0"),
    "setxattr": (188, 5, "b'.', b'user.x', b'x', 1, 0"),
    # calls that are allowed, with arguments that are not
    "clone-with-a-user-namespace": (56, 220, "0x10000000 | 17, None, None, None, 0"),
    "clone-beside-the-parent": (56, 220, "0x00008000 | 17, None, None, None, 0"),
    "clone3": (435, 435, "bytes(88), 88"),
    "prctl-dumpable": (157, 167, "4, 1, 0, 0, 0"),
    "prctl-outlive-the-parent": (157, 167, "1, 0, 0, 0, 0"),
    "prctl-adopt-orphans": (157, 167, "36, 1, 0, 0, 0"),
    "prctl-be-traced-by-any": (157, 167, "0x59616d61, -1, 0, 0, 0"),
    "prctl-memory-layout": (157, 167, "35, 1, 0, 0, 0"),
    "prctl-keep-capabilities": (157, 167, "8, 1, 0, 0, 0"),
    "prctl-ambient-capability": (157, 167, "47, 2, 21, 0, 0"),
    "prctl-seccomp": (157, 167, "22, 1, 0, 0, 0"),
    "personality-no-randomisation": (135, 92, "0x0040000"),
    "ioctl-type-into-a-terminal": (16, 29, "0, 0x5412, b'x'"),
    "ioctl-console": (16, 29, "0, 0x541c, b'x'"),
    "ioctl-become-controlling-terminal": (16, 29, "0, 0x540e, 1"),
    "ioctl-file-flags": (16, 29, "os.open('.', 0), 0x40086602, bytes(8)"),
    "fcntl-signals-to-another": (72, 25, "0, 8, 1"),
    "fcntl-choose-the-signal": (72, 25, "0, 10, 9"),
    "fcntl-lease": (72, 25, "os.open('.', 0), 1024, 0"),
    "fcntl-watch-a-directory": (72, 25, "os.open('.', 0), 1026, 1"),
    "fcntl-large-pipe": (72, 25, "os.pipe()[0], 1031, 1 << 20"),
    "setsockopt-filter": (54, 208, "socket.socketpair()[0].detach(), 1, 26, bytes(16), 16"),
    "socketpair-datagrams": (53, 199, "1, 2, 0, bytes(8)"),
    "socketpair-of-another-family": (53, 199, "2, 1, 0, bytes(8)"),
    # a number from the future
    "a-call-that-does-not-exist-yet": (999, 999, ""),
}

_CALL = """
import ctypes, errno, os, socket
library = ctypes.CDLL(None, use_errno=True)
arguments = [ctypes.create_string_buffer(a, max(len(a), 1)) if isinstance(a, bytes) else ctypes.c_long(a or 0)
             for a in ({arguments})]
result = library.syscall(ctypes.c_long({number}), *arguments)
print(result, errno.errorcode.get(ctypes.get_errno()) if result == -1 else 'done')
"""
_REFUSED = ("-1 EPERM", "-1 ENOSYS", "-1 EAFNOSUPPORT")


def _run(box: Box, number: int, arguments: str) -> str:
    ended = box.run(_CALL.format(number=number, arguments=arguments + "," if arguments else ""))
    assert ended.error is None, ended
    return ended.text.strip()


@pytest.mark.parametrize(
    "call", [name for name, row in _CALLS.items() if row[platform.machine() == "aarch64"] is not None]
)
def test_a_refused_system_call(standing_box, call):
    number = _CALLS[call][platform.machine() == "aarch64"]
    assert _run(standing_box, number, _CALLS[call][2]) in _REFUSED


@pytest.mark.parametrize("family", [name for name in dir(socket) if name.startswith("AF_")])
def test_a_socket_of_any_family(standing_box, family):
    ended = standing_box.run(
        "import socket\nmade = []\n"
        "for kind in (1, 2, 3, 4, 5, 10):\n"
        "    for protocol in (0, 1, 6, 17, 255, 15, 16):\n"
        "        try:\n"
        f"            made.append(socket.socket({int(getattr(socket, family))}, kind, protocol))\n"
        "        except OSError:\n            pass\n"
        "print(len(made))"
    )
    assert ended.text == "0\n"


def test_the_host_is_what_it_was(standing_box):
    """Seen from outside after all that was tried: same name, no key, no queue, no shared memory, same mounts."""
    name, mounts = os.uname().nodename, Path("/proc/self/mounts").read_text()
    for call in (
        "sethostname",
        "setdomainname",
        "shmget",
        "semget",
        "msgget",
        "mq_open",
        "add_key",
        "mount",
        "umount2",
    ):
        row = _CALLS[call]
        _run(standing_box, row[platform.machine() == "aarch64"], row[2])
    assert os.uname().nodename == name
    assert Path("/proc/self/mounts").read_text() == mounts
    for table in ("shm", "sem", "msg"):
        assert str(0x5EC4E7) not in Path(f"/proc/sysvipc/{table}").read_text()
    keys = Path("/proc/keys")
    assert not keys.exists() or "escaped" not in keys.read_text()


_OTHER_ARCHITECTURES = {
    # mov eax, 39 (mkdir); mov ebx, path; mov ecx, 0777; int 0x80
    "32-bit-calls": "b'\\xb8\\x27\\0\\0\\0\\xbb' + low + b'\\xb9\\xff\\x01\\0\\0\\xcd\\x80\\xc3'",
    # mov eax, 83 | x32 bit (mkdir); mov edi, path; mov esi, 0777; syscall
    "x32-calls": "b'\\xb8\\x53\\0\\0\\x40\\xbf' + low + b'\\xbe\\xff\\x01\\0\\0\\x0f\\x05\\xc3'",
}


@pytest.mark.skipif(platform.machine() != "x86_64", reason="the other way to call exists on x86_64 only")
@pytest.mark.parametrize("way", _OTHER_ARCHITECTURES)
def test_system_calls_of_another_architecture(box, host, secret, way):
    """Numbers mean other calls there: the filter must not be asked in the wrong language."""
    target = secret.directory / "made"
    ready = box.run(
        "import ctypes, struct\n"
        "c = ctypes.CDLL(None)\n"
        "c.mmap.restype = ctypes.c_void_p\n"
        "page = c.mmap(ctypes.c_void_p(0x10000000), 8192, 7, 0x32, -1, 0)\n"  # a fixed place below 4 GB
        "low = struct.pack('<I', page + 4096)\n"
        f"ctypes.memmove(page + 4096, {str(target)!r}.encode() + b'\\0', {len(str(target)) + 1})\n"
        f"code = {_OTHER_ARCHITECTURES[way]}\n"
        "ctypes.memmove(page, code, len(code))\n"
        "'ready'"
    )
    assert ready.value == "'ready'"
    ended = box.run("print('result', ctypes.CFUNCTYPE(ctypes.c_int)(page)())")
    assert not target.exists()
    assert secret.unharmed()
    assert ended.death == "KernelDied" or "result -" in ended.text, ended
    if ended.death:
        assert eventually(lambda: not runs(box.pid))
