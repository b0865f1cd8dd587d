"""Landlock: which files the kernel may open, whatever user it runs as.

Covers:
- reading, writing, making, removing, renaming and executing files outside the paths it was given
- truncating (ABI 3), device ioctls (ABI 5)
- TCP bind and connect (ABI 4)
- connecting to abstract unix sockets of others, signals to processes outside (ABI 6)

Does not cover:
- metadata: `stat`, `readlink`, `chmod`, `chown`, `utime`, extended attributes; seccomp refuses what changes any of it
- descriptors that were open before; mapping a readable file as code
- UDP and unix sockets that have a path; before ABI 6 abstract ones: seccomp refuses `socket`, `bind` and `connect`
- how much is written
- before ABI 2, moving files between directories of the scratch: the system refuses all of it
"""

from __future__ import annotations

import ctypes
import errno
import os
import stat
import struct
from collections.abc import Iterable

from sandbox.isolation import libc, privileges
from sandbox.mounts import Mount

# The three calls have the same numbers on every architecture.
_CREATE_RULESET, _ADD_RULE, _RESTRICT_SELF = 444, 445, 446
_VERSION_FLAG = 1
_RULE_PATH_BENEATH = 1

EXECUTE, WRITE_FILE, READ_FILE, READ_DIR = 1 << 0, 1 << 1, 1 << 2, 1 << 3
REMOVE_DIR, REMOVE_FILE = 1 << 4, 1 << 5
MAKE_CHAR, MAKE_DIR, MAKE_REG, MAKE_SOCK, MAKE_FIFO, MAKE_BLOCK, MAKE_SYM = (1 << bit for bit in range(6, 13))
REFER, TRUNCATE, IOCTL_DEV = 1 << 13, 1 << 14, 1 << 15

_BIND_TCP, _CONNECT_TCP = 1, 2
_ABSTRACT_SOCKETS, _SIGNALS = 1, 2

_READ = EXECUTE | READ_FILE | READ_DIR
# No EXECUTE: what the kernel writes it cannot run. No sockets, pipes or devices: nothing needs them.
_WRITE = (
    READ_FILE | READ_DIR | WRITE_FILE | REMOVE_DIR | REMOVE_FILE | MAKE_DIR | MAKE_REG | MAKE_SYM | REFER | TRUNCATE
)
# Where the scratch is an ordinary directory somebody has to look how full it is: every file keeps its name, at the top.
_WRITE_FLAT = READ_FILE | READ_DIR | WRITE_FILE | MAKE_REG | TRUNCATE
_DEVICE = READ_FILE | WRITE_FILE
_ON_A_FILE = EXECUTE | WRITE_FILE | READ_FILE | TRUNCATE | IOCTL_DEV


def abi() -> int:
    """Return the version of Landlock that this system has; 0 if it has none or it is switched off."""
    try:
        return libc.syscall("landlock: version", _CREATE_RULESET, None, 0, _VERSION_FLAG)
    except OSError:
        return 0


def handled(version: int) -> tuple[int, int, int]:
    """Return what a ruleset governs in this version: access to files, to the network, and scopes."""
    files = (1 << 13) - 1
    if version >= 2:
        files |= REFER
    if version >= 3:
        files |= TRUNCATE
    if version >= 5:
        files |= IOCTL_DEV
    network = _BIND_TCP | _CONNECT_TCP if version >= 4 else 0
    scopes = _ABSTRACT_SOCKETS | _SIGNALS if version >= 6 else 0
    return files, network, scopes


def ruleset(
    read_only: Iterable[str],
    read_write: Iterable[str],
    devices: Iterable[str],
    mounts: Iterable[Mount | str] = (),
    *,
    flat: bool = False,
) -> int:
    """Return a descriptor of a ruleset. The paths are looked up now, with the rights the caller has now.

    `mounts` can be read, and nothing in them executed. `flat`: in the writable paths files can be made and written, but
    not removed or renamed, and no directories made.
    """
    version = abi()
    if version == 0:
        raise OSError(errno.EOPNOTSUPP, "landlock: this system does not have it")
    files, network, scopes = handled(version)
    # An older system refuses a longer structure than it knows.
    size = 8 if version < 4 else 16 if version < 6 else 24
    attributes = struct.pack("=QQQ", files, network, scopes)[:size]
    descriptor = libc.syscall(
        "landlock: create a ruleset", _CREATE_RULESET, ctypes.create_string_buffer(attributes, size), size, 0
    )
    os.set_inheritable(descriptor, False)
    try:
        for paths, access in ((read_only, _READ), (read_write, _WRITE_FLAT if flat else _WRITE), (devices, _DEVICE)):
            for path in paths:
                _allow(descriptor, path, access & files)
        for mount in mounts:
            _allow(descriptor, mount, (READ_FILE | READ_DIR) & files)
    except BaseException:
        os.close(descriptor)
        raise
    return descriptor


def enforce(descriptor: int) -> None:
    """Put this process under the ruleset, for good. Closes the descriptor."""
    try:
        privileges.no_new_privileges()
        libc.syscall("landlock: enforce the ruleset", _RESTRICT_SELF, descriptor, 0)
    finally:
        os.close(descriptor)


def restrict(read_only: Iterable[str], read_write: Iterable[str], devices: Iterable[str]) -> None:
    """Leave this process nothing but these paths, for good."""
    enforce(ruleset(read_only, read_write, devices))


def _allow(descriptor: int, place: str | Mount, access: int) -> None:
    path = place if isinstance(place, str) else place.source
    try:
        # A link grants nothing by itself: what it leads to is listed too if it may be read, and following it here
        # could grant a whole tree of which only a corner was meant.
        opened = os.open(path, os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC)
    except FileNotFoundError:
        if isinstance(place, str):
            return
        raise
    try:
        found = os.fstat(opened)
        if isinstance(place, Mount):
            place.check(found)
        mode = found.st_mode
        if stat.S_ISLNK(mode):
            return
        if not stat.S_ISDIR(mode):
            access &= _ON_A_FILE
        rule = ctypes.create_string_buffer(struct.pack("=Qi", access, opened), 12)
        libc.syscall(f"landlock: allow {path}", _ADD_RULE, descriptor, _RULE_PATH_BENEATH, rule, 0)
    finally:
        os.close(opened)
