"""Who the kernel is: a user of its own, without capabilities and without a way to get any.

Covers:
- files and processes of root and of other users, by the ordinary permissions
- everything that needs a capability, now and after any `execve` (set-uid programs and file capabilities give nothing)
- being traced or having its memory read by other processes of the same user; core dumps

Does not cover:
- what every user may read or do on the machine
- an ordinary user's own files and processes when no other user can be taken on: the kernel then is that user

One capability may be left: CAP_DAC_READ_SEARCH, where the interpreter lies in a directory that only root can enter
(such as /root) and there is no private root. It opens no file that Landlock has not listed, and `open_by_handle_at` is
not on the seccomp list; but with it files in the listed paths can be read whatever their mode, and the names, sizes and
times of files in closed directories can be seen.
"""

from __future__ import annotations

import ctypes
import os
import signal
import struct
from collections.abc import Iterable

from sandbox.isolation import libc

_PR_SET_PDEATHSIG, _PR_SET_DUMPABLE, _PR_SET_KEEPCAPS = 1, 4, 8
_PR_SET_CHILD_SUBREAPER = 36
_PR_CAPBSET_DROP, _PR_SET_NO_NEW_PRIVS, _PR_CAP_AMBIENT = 24, 38, 47
_PR_CAP_AMBIENT_CLEAR_ALL = 4
_CAPABILITY_VERSION_3 = 0x20080522

CAP_DAC_READ_SEARCH = 2
_CAP_SETPCAP = 8


def die_with_parent() -> None:
    """Have the system kill this process when its parent ends. A change of user undoes it: call this after `confine`."""
    libc.call("die with the parent", "prctl", _PR_SET_PDEATHSIG, int(signal.SIGKILL), 0, 0, 0)


def adopt_orphans() -> None:
    """Become the parent of descendants whose own parent has ended, so that they can be waited for."""
    libc.call("adopt orphans", "prctl", _PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


def no_new_privileges() -> None:
    """No `execve` gives more rights than this process has, for good."""
    libc.call("no new privileges", "prctl", _PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)


def set_dumpable(dumpable: bool) -> None:
    """Whether others of the same user may trace this process, read its memory and its /proc files."""
    libc.call("dumpable", "prctl", _PR_SET_DUMPABLE, int(dumpable), 0, 0, 0)


def become(uid: int) -> None:
    """Become this user and a group of the same number, in no other group. Capabilities stay permitted for now."""
    libc.call("user: keep capabilities", "prctl", _PR_SET_KEEPCAPS, 1, 0, 0, 0)
    try:
        os.setgroups([])
        os.setresgid(uid, uid, uid)
        os.setresuid(uid, uid, uid)
    except OSError as error:
        raise OSError(error.errno, f"user: become {uid}: {error.strerror}") from error


def unreachable(paths: Iterable[str]) -> tuple[str, ...]:
    """Return which of the paths this process cannot open to read, only because of permissions."""
    found = []
    for path in paths:
        try:
            os.close(os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK))
        except PermissionError:
            found.append(path)
        except OSError:
            continue
    return tuple(found)


def drop_capabilities(keep: frozenset[int] = frozenset()) -> None:
    """Give up every capability but those in `keep`, in every set there is."""
    libc.call("capabilities: ambient", "prctl", _PR_CAP_AMBIENT, _PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0)
    _drop_bounding_set()
    mask = sum(1 << capability for capability in keep)
    _set_capabilities(effective=mask, permitted=mask)


def _drop_bounding_set() -> None:
    held = _permitted()
    if not held >> _CAP_SETPCAP & 1:
        # An ordinary user may not touch the bounding set. Nothing permitted and no_new_privs make it meaningless.
        return
    # After a change of user the capability is permitted but not in effect.
    _set_capabilities(effective=held, permitted=held)
    for capability in range(64):
        try:
            libc.call("capabilities: bounding set", "prctl", _PR_CAPBSET_DROP, capability, 0, 0, 0)
        except OSError:
            if capability == 0:
                raise
            return  # past the last one that this system knows


def _permitted() -> int:
    header = ctypes.create_string_buffer(struct.pack("=Ii", _CAPABILITY_VERSION_3, 0), 8)
    data = ctypes.create_string_buffer(24)
    libc.call("capabilities: read", "capget", header, data)
    words = struct.unpack("=6I", data.raw)
    return int(words[1]) | int(words[4]) << 32


def _set_capabilities(*, effective: int, permitted: int) -> None:
    header = ctypes.create_string_buffer(struct.pack("=Ii", _CAPABILITY_VERSION_3, 0), 8)
    low = (effective & 0xFFFFFFFF, permitted & 0xFFFFFFFF, 0)
    high = (effective >> 32, permitted >> 32, 0)
    data = ctypes.create_string_buffer(struct.pack("=6I", *low, *high), 24)
    libc.call("capabilities: set", "capset", header, data)
