"""Seatbelt: the macOS sandbox, through `sandbox-exec`. Nothing is allowed but what the profile names.

Covers:
- reading outside the listed paths and the system's libraries; writing outside the scratch directory
- the network and every socket that has a path; other processes; most services of the system
- starting programs other than the interpreter

Does not cover:
- memory: macOS does not enforce RLIMIT_AS. Files together and processes together have no limit either.
- the names, sizes and times of files on the way to what is listed
- the future: Apple calls sandbox-exec deprecated, though its own programs and others rest on it

This module has not been run on a Mac by its authors: they have none. The tests check the profile by its parts, and
`probe` believes in it only after it has seen it refuse something on the machine at hand.
"""

from __future__ import annotations

import os
from collections.abc import Iterable

SANDBOX_EXEC = "/usr/bin/sandbox-exec"

# What the loader and the C library of any program read.
_SYSTEM = (
    "/usr/lib",
    "/usr/share/zoneinfo",
    "/usr/share/locale",
    "/System/Library",
    "/System/Cryptexes",
    "/System/Volumes/Preboot/Cryptexes",
    "/Library/Apple",
    "/private/var/db/timezone",
    "/private/var/db/dyld",
)
_READ_WRITE_DEVICES = ("/dev/null", "/dev/zero")
_READ_DEVICES = ("/dev/random", "/dev/urandom")
# Asked for by the C library and by numpy; none says anything about the user.
_SYSCTLS = (
    "hw.activecpu",
    "hw.byteorder",
    "hw.cachelinesize",
    "hw.cputype",
    "hw.cpusubtype",
    "hw.l1dcachesize",
    "hw.l2cachesize",
    "hw.logicalcpu",
    "hw.logicalcpu_max",
    "hw.machine",
    "hw.memsize",
    "hw.ncpu",
    "hw.pagesize",
    "hw.pagesize_compat",
    "hw.physicalcpu",
    "hw.physicalcpu_max",
    "kern.argmax",
    "kern.osproductversion",
    "kern.osrelease",
    "kern.ostype",
    "kern.osversion",
    "kern.secure_kernel",
    "kern.usrstack64",
    "kern.version",
    "sysctl.proc_cputype",
    "vm.loadavg",
)
_SYSCTL_PREFIXES = ("hw.optional.", "hw.perflevel", "machdep.cpu.")


def profile(executable: str, read_only: Iterable[str], scratch: str) -> str:
    """Return the profile for one kernel. Its paths are resolved: real names are compared (/var is /private/var)."""
    program = os.path.realpath(executable)
    readable = sorted({os.path.realpath(path) for path in read_only})
    box = os.path.realpath(scratch)
    passed = sorted({parent for path in (program, box, *readable) for parent in _parents(path)})
    rules = [
        "(version 1)",
        "(deny default)",
        # The name it was started by may be a link to the real one; both are tried.
        _allow("process-exec", [_literal(path) for path in sorted({program, os.path.abspath(executable)})]),
        "(allow process-fork)",
        "(allow signal (target same-sandbox))",
        "(allow process-info* (target same-sandbox))",
        _allow("sysctl-read", [f'(sysctl-name "{name}")' for name in _SYSCTLS]),
        _allow("sysctl-read", [f'(sysctl-name-prefix "{name}")' for name in _SYSCTL_PREFIXES]),
        _allow("file-read* file-map-executable", [_subpath(path) for path in (*_SYSTEM, *readable)]),
        # The loader lists the root directory itself; that shows the names of its directories and no more.
        _allow("file-read*", [_literal(path) for path in ("/", *_READ_DEVICES, *_READ_WRITE_DEVICES)]),
        _allow("file-write-data", [_literal(path) for path in _READ_WRITE_DEVICES]),
        _allow("file-read* file-write*", [_subpath(box)]),
        # To walk down to a path each directory above it is looked at, and so are the links that macOS has at its root.
        _allow("file-read-metadata", [_literal(path) for path in ("/etc", "/tmp", "/var", *passed)]),
        # Files that were written cannot be turned into programs or devices of any kind.
        "(deny file-write-setugid)",
        "(deny network*)",
    ]
    return "\n".join(rules) + "\n"


def command(argv: list[str], read_only: Iterable[str], scratch: str) -> list[str]:
    """Return the command that runs `argv` under the profile; `argv[0]` is a path."""
    if not argv or not argv[0].startswith("/"):
        raise ValueError("seatbelt: the program must be given by its absolute path")
    return [SANDBOX_EXEC, "-p", profile(argv[0], read_only, scratch), *argv]


def _allow(operations: str, filters: list[str]) -> str:
    return f"(allow {operations}\n    " + "\n    ".join(filters) + ")"


def _subpath(path: str) -> str:
    return f"(subpath {_quoted(path)})"


def _literal(path: str) -> str:
    return f"(literal {_quoted(path)})"


def _quoted(path: str) -> str:
    # A profile is a program: a path must not be able to end its string and go on in the language.
    if any(ord(character) < 32 for character in path):
        raise ValueError(f"seatbelt: a path with a control character cannot be listed: {path!r}")
    return '"' + path.replace("\\", "\\\\").replace('"', '\\"') + '"'


def _parents(path: str) -> list[str]:
    found = ["/"]
    while (path := os.path.dirname(path)) != "/":
        found.append(path)
    return found
