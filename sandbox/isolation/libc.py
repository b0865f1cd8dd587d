"""The one door to the C library: a system call that fails becomes an OSError that names the step it was part of."""

from __future__ import annotations

import ctypes
import os
from typing import Any

_LIBC = ctypes.CDLL(None, use_errno=True)


def call(step: str, function: str, *arguments: Any) -> int:
    """Call a C function that returns -1 and sets errno when it fails."""
    # Numbers go in as longs: a variadic function such as prctl or syscall reads whole registers.
    values = [ctypes.c_long(value) if isinstance(value, int) else value for value in arguments]
    result = int(getattr(_LIBC, function)(*values))
    if result < 0:
        number = ctypes.get_errno()
        raise OSError(number, f"{step}: {os.strerror(number)}")
    return result


def syscall(step: str, number: int, *arguments: Any) -> int:
    """Make a system call that the C library has no function for."""
    return call(step, "syscall", number, *arguments)


def has(function: str) -> bool:
    """Return whether this C library has the function: musl and macOS lack some that glibc has."""
    return hasattr(_LIBC, function)
