"""Starts each kernel as a process of its own, where forking from a prepared one is not to be had: macOS.

Slower to start than a fork (everything is imported again), so the pool matters more. `sandbox-exec` puts the profile of
`seatbelt.py` on before Python begins.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Mapping
from concurrent.futures import Future
from typing import Any

from . import scratch as scratch_directories
from .errors import KernelStartError
from .isolation import seatbelt
from .isolation.confinement import Confinement, default_read_only
from .launch import Exit, KernelProcess, Setup, environment, module_path
from .limits import Limits

_BOOT = "import json, sys; sys.path[:] = json.loads(sys.argv.pop()); from sandbox.direct import main; main()"


class DirectKernel(KernelProcess):
    """A kernel that leads a process group: what it started ends with it."""

    def kill(self) -> None:
        """End the process and those it started."""
        if self.alive and self.pid is not None:
            try:
                os.killpg(self.pid, signal.SIGKILL)
            except (ProcessLookupError, PermissionError):
                super().kill()


class DirectLauncher:
    """The same door as `Zygote`, without a process behind it."""

    alive = True

    def __init__(self) -> None:
        self._read_only = default_read_only()
        scratch_directories.sweep()

    def spawn(
        self,
        setup: Setup,
        config: Mapping[str, Any],
        listeners: Mapping[str, socket.socket],
        calls: socket.socket | None,
    ) -> KernelProcess:
        """Start a kernel that serves these listening sockets."""
        place = scratch_directories.make()
        place.make_out(None)
        scratch = place.path
        errors, errors_end = os.pipe()
        descriptors = [listener.fileno() for listener in listeners.values()]
        descriptors += [calls.fileno()] if calls is not None else []
        descriptors.append(errors_end)
        read_only = (*self._read_only, *(mount.source for mount in setup.mounts))
        confinement = Confinement(setup.layers, setup.limits, read_only, scratch)
        order = {
            "confinement": confinement.to_json(),
            "config": dict(config),
            "channels": list(listeners),
            "calls": calls is not None,
            "descriptors": descriptors,
        }
        argv = [sys.executable, "-I", "-B", "-c", _BOOT, json.dumps(order), module_path()]
        if setup.tier == "seatbelt":
            argv = seatbelt.command(argv, read_only, scratch)
        try:
            process = subprocess.Popen(
                argv,
                pass_fds=descriptors,
                env=environment(),
                cwd=scratch,
                stdin=subprocess.DEVNULL,
                stdout=errors_end,
                stderr=errors_end,
                start_new_session=True,
            )
        except OSError as error:
            os.close(errors)
            place.remove()
            raise KernelStartError(f"the kernel did not start: {error}") from error
        finally:
            os.close(errors_end)
        exit_news: Future[Exit] = Future()
        threading.Thread(
            target=_wait, args=(process, place, setup.limits, exit_news), daemon=True, name="rlm-kernel-exit"
        ).start()
        return DirectKernel(process.pid, scratch, errors, exit_news)

    def close(self) -> None:
        """Nothing to end: kernels belong to those who hold them."""


def _wait(
    process: subprocess.Popen[bytes], place: scratch_directories.Scratch, limits: Limits, exit_news: Future[Exit]
) -> None:
    too_much = None
    while process.poll() is None:
        if too_much is None and (too_much := scratch_directories.exceeds(place.path, limits)):
            os.killpg(process.pid, signal.SIGKILL)
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(0.1)
    place.remove()
    exit_news.set_result(Exit(process.returncode, too_much=too_much))


def main() -> None:
    """In the new process: `sys.argv` holds the order."""
    from .kernel import snapshot
    from .zygote import become_kernel

    order = json.loads(sys.argv[1])
    snapshot.prime()
    become_kernel(Confinement.from_json(order["confinement"]), order, order["descriptors"])
