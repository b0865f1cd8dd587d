"""Namespaces: a kernel sees a machine with nothing on it but what it was given.

Covers:
- files: a private root holds read-only views of the listed paths and of the files that the session was given, five
  devices and one scratch file system; no /proc, no /sys, no home
- how many bytes and how many files the scratch holds, /box, /tmp and /dev/shm together
- processes: no other one can be seen, signalled or waited for, and all of them end with the first
- the network: none, not even loopback; abstract unix sockets; System V and POSIX message queues; the host's name

Does not cover:
- descriptors that were open before
- the system calls themselves: seccomp
- what is inside the listed paths: a secret in site-packages can be read
- kernel memory that is not charged to a file or a process: the cgroup
"""

from __future__ import annotations

import ctypes
import os
import platform
import stat
import struct
from collections.abc import Iterable, Sequence
from pathlib import Path

from sandbox.isolation import libc, privileges
from sandbox.mounts import Mount

SCRATCH = "/box"
# Scratch directories are views of one file system, so that its size and its inodes limit them together.
OUT = "/out"
"""Where code writes files for its caller."""

WRITABLE = (SCRATCH, "/tmp", OUT)
DEVICES = ("/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom")
INSIDE_UID = 1000

_CLONE_NEWNS, _CLONE_NEWCGROUP, _CLONE_NEWUTS, _CLONE_NEWIPC = 0x00020000, 0x02000000, 0x04000000, 0x08000000
_CLONE_NEWUSER, _CLONE_NEWPID, _CLONE_NEWNET = 0x10000000, 0x20000000, 0x40000000
_APART = _CLONE_NEWNS | _CLONE_NEWCGROUP | _CLONE_NEWUTS | _CLONE_NEWIPC | _CLONE_NEWPID | _CLONE_NEWNET

_MS_NOSUID, _MS_NODEV, _MS_NOEXEC, _MS_BIND, _MS_REC, _MS_PRIVATE = 2, 4, 8, 4096, 16384, 1 << 18
_ATTR_RDONLY, _ATTR_NOSUID, _ATTR_NODEV, _ATTR_NOEXEC = 1, 2, 4, 8
_MNT_DETACH = 2
_AT_FDCWD, _AT_RECURSIVE = -100, 0x8000
_MOUNT_SETATTR = 442
_PIVOT_ROOT = {"x86_64": 155, "aarch64": 41}

# Any directory that exists: the new root is put together there, over whatever it holds, in our mount namespace only.
_STAGE = "/tmp"


def separate(*, pids: bool = True) -> None:
    """Leave the host's namespaces. With `pids`, the next fork is process 1 of a pid namespace."""
    if os.geteuid() == 0:
        # Without a user namespace: in one, root could not enter directories such as /root to mount what is in them.
        libc.call("namespaces: unshare", "unshare", _APART if pids else _APART & ~_CLONE_NEWPID)
        return
    uid, gid = os.geteuid(), os.getegid()
    privileges.set_dumpable(True)  # else /proc/self/uid_map belongs to root
    libc.call("namespaces: unshare", "unshare", _APART | _CLONE_NEWUSER)
    _write("/proc/self/setgroups", "deny")
    _write("/proc/self/uid_map", f"{INSIDE_UID} {uid} 1")
    _write("/proc/self/gid_map", f"{INSIDE_UID} {gid} 1")


def own_pids() -> int | None:
    """Return a descriptor of this process's pid namespace for `fork_first`; None if there is no way back."""
    if os.geteuid() != 0:
        return None
    descriptor = os.open("/proc/self/ns/pid", os.O_RDONLY | os.O_CLOEXEC)
    try:
        libc.call("namespaces: setns", "setns", descriptor, _CLONE_NEWPID)
    except OSError:
        os.close(descriptor)
        return None
    return descriptor


def fork_first(own: int) -> int:
    """Fork as `os.fork` does: the child is process 1 of a pid namespace. `own` is what `own_pids` returned.

    It saves the process that would otherwise leave its pid namespace, fork and exit: as much work as the kernel itself.
    """
    libc.call("namespaces: unshare", "unshare", _CLONE_NEWPID)
    try:
        pid = os.fork()
    except BaseException:
        libc.call("namespaces: setns", "setns", own, _CLONE_NEWPID)
        raise
    if pid:  # never in the child, whose children would be born outside
        libc.call("namespaces: setns", "setns", own, _CLONE_NEWPID)
    return pid


def enter_private_root(
    read_only: Iterable[str], mounts: Sequence[Mount] = (), *, file_bytes: int, file_count: int, owner: int
) -> None:
    """Make the private root and go there, into the scratch directory. The old root cannot be reached any more."""
    mask = os.umask(0)
    try:
        _mount(None, "/", None, _MS_REC | _MS_PRIVATE)
        # The sources are opened before the stage hides what is under it; /proc/self/fd still leads to them.
        sources = _open_sources((*read_only, *DEVICES))
        hidden = {mount: _open_mount(mount) for mount in mounts if mount.source.startswith(f"{_STAGE}/")}
        try:
            _mount("tmpfs", _STAGE, "tmpfs", _MS_NOSUID | _MS_NODEV, "size=1m,mode=755")
            # The scratch first: an interpreter that lives in the host's /tmp is shown inside ours.
            _make_scratch(file_bytes, file_count, owner)
            for path, descriptor in sources.items():
                _show(path, descriptor)
            for mount in mounts:
                _show_mount(mount, hidden.get(mount))
        finally:
            for descriptor in (*sources.values(), *hidden.values()):
                os.close(descriptor)
        Path(_STAGE, "dev/shm").symlink_to("/tmp")
        _pivot()
    finally:
        os.umask(mask)
    libc.call("namespaces: host name", "sethostname", b"kernel", 6)
    os.chdir(SCRATCH)


def _open_sources(paths: Iterable[str]) -> dict[str, int]:
    opened: dict[str, int] = {}
    for path in paths:
        try:
            opened[path] = os.open(path, os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC)
        except FileNotFoundError:
            continue
        except OSError as error:
            raise OSError(error.errno, f"private root: open {path}: {error.strerror}") from error
    return opened


def _open_mount(mount: Mount) -> int:
    """Open what the session was given, without reading it, and make sure that it is that."""
    try:
        descriptor = os.open(mount.source, os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC)
    except OSError as error:
        raise OSError(error.errno, f"private root: open {mount.source}: {error.strerror}") from error
    try:
        mount.check(os.fstat(descriptor))
    except BaseException:
        os.close(descriptor)
        raise
    return descriptor


def _show_mount(mount: Mount, opened: int | None) -> None:
    """Put a view of what the session was given into the stage: not what is mounted inside of it, and to read only."""
    source, target = _open_mount(mount) if opened is None else opened, _STAGE + mount.target
    try:
        os.makedirs(os.path.dirname(target), mode=0o755, exist_ok=True)
        if mount.is_folder:
            os.makedirs(target, mode=0o755, exist_ok=True)
        else:
            os.close(os.open(target, os.O_CREAT | os.O_WRONLY | os.O_CLOEXEC, 0o444))
        _mount(f"/proc/self/fd/{source}", target, None, _MS_BIND, what=mount.source)
    finally:
        if opened is None:
            os.close(source)
    _set_attributes(target, _ATTR_RDONLY | _ATTR_NOSUID | _ATTR_NODEV | _ATTR_NOEXEC, recursive=False)


def _show(path: str, source: int) -> None:
    """Put a read-only view of the source into the stage, or the same link if it is one."""
    target = _STAGE + path
    os.makedirs(os.path.dirname(target), mode=0o755, exist_ok=True)
    mode = os.fstat(source).st_mode
    if stat.S_ISLNK(mode):
        Path(target).symlink_to(os.readlink("", dir_fd=source))
        return
    if stat.S_ISDIR(mode):
        os.makedirs(target, mode=0o755, exist_ok=True)
    else:
        os.close(os.open(target, os.O_CREAT | os.O_WRONLY | os.O_CLOEXEC, 0o444))
    _mount(f"/proc/self/fd/{source}", target, None, _MS_BIND | _MS_REC, what=path)
    forbidden = _ATTR_RDONLY | _ATTR_NOSUID
    forbidden |= _ATTR_NOEXEC if stat.S_ISCHR(mode) else _ATTR_NODEV
    _set_attributes(target, forbidden, recursive=True)


def _make_scratch(file_bytes: int, file_count: int, owner: int) -> None:
    pool = f"{_STAGE}/scratch"
    Path(pool).mkdir(0o700)
    # The root of the file system and the two directories are inodes as well.
    inodes = file_count + 1 + len(WRITABLE)
    data = f"size={file_bytes},nr_inodes={inodes},mode=700"
    _mount("tmpfs", pool, "tmpfs", _MS_NOSUID | _MS_NODEV | _MS_NOEXEC, data)
    for path in WRITABLE:
        Path(pool + path).mkdir(0o700)
        os.chown(pool + path, owner, owner)
        Path(_STAGE + path).mkdir(0o755)
        _mount(pool + path, _STAGE + path, None, _MS_BIND)
    # The views keep the file system alive; the pool itself is not for the kernel to see.
    libc.call("private root: hide the pool", "umount2", pool.encode(), _MNT_DETACH)
    Path(pool).rmdir()


def _pivot() -> None:
    os.chdir(_STAGE)
    number = _PIVOT_ROOT.get(platform.machine())
    if number is None:
        raise OSError(0, f"private root: unknown machine {platform.machine()}")
    # With the same directory for both, the old root ends up on top of the new one and can be taken off at once.
    libc.syscall("private root: pivot_root", number, b".", b".")
    libc.call("private root: leave the old root", "umount2", b".", _MNT_DETACH)
    os.chdir("/")
    _set_attributes("/", _ATTR_RDONLY | _ATTR_NOSUID | _ATTR_NODEV, recursive=False)


def _mount(
    source: str | None, target: str, kind: str | None, flags: int, data: str | None = None, what: str | None = None
) -> None:
    step = f"private root: mount {what or target}"
    values = [value.encode() if value is not None else None for value in (source, target, kind)]
    libc.call(step, "mount", *values, flags, data.encode() if data is not None else None)


def _set_attributes(path: str, attributes: int, *, recursive: bool) -> None:
    # Unlike a remount this reaches the mounts inside, and leaves alone what an ordinary user may not clear.
    values = ctypes.create_string_buffer(struct.pack("=QQQQ", attributes, 0, 0, 0), 32)
    flags = _AT_RECURSIVE if recursive else 0
    libc.syscall(f"private root: protect {path}", _MOUNT_SETATTR, _AT_FDCWD, path.encode(), flags, values, 32)


def _write(path: str, text: str) -> None:
    try:
        descriptor = os.open(path, os.O_WRONLY | os.O_CLOEXEC)
        try:
            os.write(descriptor, text.encode())
        finally:
            os.close(descriptor)
    except OSError as error:
        raise OSError(error.errno, f"namespaces: write {path}: {error.strerror}") from error
