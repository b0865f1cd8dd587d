"""Runs a function of a test in a process of its own, as another user and under layers of isolation if asked to.

What a layer does cannot be undone, so no test may put one on itself; and pytest has threads, so it may not fork either.
The function's source goes to a fresh interpreter: it must import what it needs and take and return plain JSON. This
file is also the program that runs there; it imports early what a user who cannot reach the interpreter needs later.
"""

from __future__ import annotations

import asyncio  # noqa: F401
import ctypes
import errno
import inspect
import json
import multiprocessing  # noqa: F401
import os
import socket  # noqa: F401
import subprocess
import sys
import tempfile
import textwrap
import threading  # noqa: F401
import traceback
import types
from collections.abc import Callable
from pathlib import Path
from typing import Any

ORDINARY = 42_424
"""An ordinary user for tests that run as root."""

SESSION = 50_007
"""The user that a session becomes when tests run as root."""


class ChildFailed(AssertionError):
    """The function raised, or its process did not end well."""


def run(
    function: Callable[..., Any],
    *args: Any,
    layers: frozenset[str] | None = None,
    limits: dict[str, Any] | None = None,
    ordinary: bool = False,
    scratch: str | None = None,
    read_only: list[str] | None = None,
    descriptors: tuple[int, ...] = (),
) -> Any:
    """What the function returns. Under `layers` it runs as a kernel would; `ordinary` gives up root first."""
    root = os.geteuid() == 0
    with tempfile.TemporaryDirectory(prefix="rlm-test-") as directory:
        if root:
            owner = ORDINARY if ordinary else SESSION
            os.chown(directory, owner, owner)
        order = {
            "source": textwrap.dedent(inspect.getsource(function)),
            "name": function.__name__,
            "args": args,
            "layers": None if layers is None else sorted(layers),
            "limits": limits or {},
            "ordinary": ordinary and root,
            "scratch": scratch or directory,
            "read_only": read_only,
        }
        done = subprocess.run(
            [sys.executable, "-I", __file__],
            input=json.dumps(order),
            capture_output=True,
            text=True,
            timeout=100,
            check=False,
            pass_fds=descriptors,
        )
    if done.returncode != 0 or not done.stdout:
        raise ChildFailed(f"status {done.returncode}\n{done.stdout}\n{done.stderr}")
    return json.loads(done.stdout.splitlines()[-1])


def attempt(action: Callable[[], Any]) -> str:
    """`ok`, or the name of the error number, or of the exception."""
    try:
        action()
    except OSError as error:
        return errno.errorcode.get(error.errno or 0, str(error))
    except BaseException as error:
        return type(error).__name__
    return "ok"


def syscall(number: int, *args: int) -> int:
    """A system call by its number."""
    library = ctypes.CDLL(None, use_errno=True)
    result = int(library.syscall(ctypes.c_long(number), *(ctypes.c_long(value) for value in args)))
    if result == -1:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
    return result


def _main() -> None:
    order = json.loads(sys.stdin.read())
    package = types.ModuleType("sandbox")
    package.__path__ = [str(Path(__file__).parents[3] / "sandbox")]
    sys.modules["sandbox"] = package  # without its __init__, which imports much
    from sandbox.isolation import cgroups, confinement, selftest  # noqa: F401
    from sandbox.limits import Limits

    read_only = order["read_only"] or list(confinement.default_read_only())
    if order["ordinary"]:
        os.setgroups([])
        os.setresgid(ORDINARY, ORDINARY, ORDINARY)
        os.setresuid(ORDINARY, ORDINARY, ORDINARY)
        # In earnest an ordinary user can reach the interpreter that runs.
        read_only = [path for path in read_only if os.access(path, os.R_OK)]
    private = order["layers"] is not None and "namespaces" in order["layers"]
    scratch = "/box" if private else order["scratch"]
    namespace: dict[str, Any] = {"attempt": attempt, "syscall": syscall, "scratch": scratch}
    namespace |= {"SESSION": SESSION, "ORDINARY": ORDINARY}
    exec(compile(order["source"], order["name"], "exec"), namespace)
    function = namespace[order["name"]]
    if order["layers"] is None:
        _answer(function(*order["args"]))
        return
    plan = confinement.Confinement(
        layers=frozenset(order["layers"]),
        limits=Limits(**order["limits"]),
        read_only=tuple(read_only),
        scratch=scratch,
        uid=SESSION if os.geteuid() == 0 else None,
    )
    confinement.separate(plan)
    pid = os.fork()
    if pid == 0:
        try:
            confinement.confine(plan)
            _answer(function(*order["args"]))
            os._exit(0)
        except BaseException:
            traceback.print_exc()
            sys.stderr.flush()
        finally:
            os._exit(1)
    status = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    sys.exit(status if status >= 0 else 128 - status)


def _answer(result: Any) -> None:
    sys.stdout.write(json.dumps(result) + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    _main()
