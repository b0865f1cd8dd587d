"""Kernels that nobody has used yet, kept ready. A session takes one; it never comes back."""

from __future__ import annotations

import atexit
import contextlib
import os
import socket
import threading
import time
from collections import deque
from dataclasses import replace
from types import TracebackType

from .channels import Channels
from .direct import DirectLauncher
from .errors import KernelStartError, ProtocolViolation, SandboxError
from .launch import KernelProcess, Setup, Zygote
from .limits import Limits
from .mounts import Mount, refuse_devices
from .polling import is_ready
from .zmtp import HungUp

_CHANNELS = ("shell", "iopub")
_READY_SECONDS = 30.0
_SETUPS_KEPT = 4
_CALM_SECONDS = 0.05
MESSAGE_BYTES = 4 << 20
"""What a message may hold beside output: above all a snapshot of the variables."""


class WarmKernel:
    """A kernel that has said hello and has run nothing."""

    def __init__(
        self,
        process: KernelProcess,
        channels: Channels,
        calls: socket.socket,
        limits: Limits,
        *,
        has_private_root: bool = False,
    ) -> None:
        self.process = process
        self.channels = channels
        self.calls = calls
        self.limits = limits
        self.has_private_root = has_private_root

    def close(self) -> None:
        """Throw it away."""
        self.process.close()
        self.channels.close()
        self.calls.close()


class Pool:
    """Keeps `size` kernels ready for each setup in use, and makes new ones in the background.

    Making one takes a processor for some time, and the session that took a kernel wants it, too. So the last one of its
    kind is replaced at once, the others when nobody has taken any for a moment.
    """

    def __init__(self, size: int = 2, *, preload: tuple[str, ...] = (), packages: str | None = None) -> None:
        """`packages` is a folder that kernels import from before all others: see `packages.install`."""
        self._size = size
        self._packages = packages
        self._preload = preload
        self._lock = threading.Lock()
        self._starting = threading.Lock()
        self._ready: dict[Setup, deque[WarmKernel]] = {}
        self._zygote: Zygote | None = None
        self._closed = False
        self._taken_at = float("-inf")
        self._changed = threading.Event()
        self._filler: threading.Thread | None = None

    def __enter__(self) -> Pool:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    def take(
        self,
        isolation: str | frozenset[str] = "auto",
        limits: Limits | None = None,
        mounts: tuple[Mount, ...] = (),
    ) -> WarmKernel:
        """Return a kernel that nobody has used: one that waits, or a new one. One with files is always new."""
        setup = Setup.choose(isolation, limits or Limits())
        if mounts:
            if "namespaces" not in setup.layers:
                refuse_devices(mounts)
            return self._start_one(replace(setup, mounts=mounts))
        return self._take(setup) or self._start_one(setup)

    def take_waiting(self, isolation: str | frozenset[str] = "auto", limits: Limits | None = None) -> WarmKernel | None:
        """Return a kernel that waits, if there is one: never takes long."""
        return self._take(Setup.choose(isolation, limits or Limits())) if self._ready else None

    def _take(self, setup: Setup) -> WarmKernel | None:
        while True:
            with self._lock:
                if self._closed:
                    raise SandboxError("the pool is closed")
                waiting = self._ready.pop(setup, deque())
                self._ready[setup] = waiting  # the setup used last stands last
                kernel = waiting.pop() if waiting else None  # the newest: what it uses may still be in the caches
                self._taken_at = time.monotonic()
            self._wake_filler()
            if kernel is None or kernel.process.alive:
                return kernel
            kernel.close()

    def wait_full(
        self, isolation: str | frozenset[str] = "auto", limits: Limits | None = None, seconds: float = 60.0
    ) -> bool:
        """Wait until the pool holds as many kernels of that kind as it keeps."""
        setup = Setup.choose(isolation, limits or Limits())
        with self._lock:
            self._ready.setdefault(setup, deque())
        self._wake_filler()
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            with self._lock:
                if len(self._ready.get(setup, ())) >= self._size:
                    return True
            time.sleep(0.002)
        return False

    def launcher(self, setup: Setup) -> Zygote | DirectLauncher:
        """Return what starts kernels of that setup: the fork server, anew if the last one died, or none on macOS."""
        with self._starting:
            if setup.tier == "seatbelt":
                return DirectLauncher()
            if self._zygote is None or not self._zygote.alive:
                if self._zygote is not None:
                    self._zygote.close()
                self._zygote = Zygote(self._preload, self._packages)
            return self._zygote

    def close(self) -> None:
        """End the kernels that wait, and the fork server. Sessions that are open lose their kernels."""
        with self._lock:
            self._closed = True
            waiting = [kernel for kernels in self._ready.values() for kernel in kernels]
            self._ready.clear()
        self._changed.set()
        if self._filler is not None:
            self._filler.join(10)
        for kernel in waiting:
            kernel.close()
        if self._zygote is not None:
            self._zygote.close()

    def _start_one(self, setup: Setup) -> WarmKernel:
        pairs = {name: socket.socketpair() for name in (*_CHANNELS, "calls")}
        ours = {name: pair[0] for name, pair in pairs.items()}
        theirs = {name: pair[1] for name, pair in pairs.items()}
        # No key: a socket pair has two ends and no name, so nobody else's messages can come this way.
        config = {"key": "", "output_bytes": setup.limits.output_bytes, "memory_bytes": setup.limits.memory_bytes}
        try:
            launcher = self.launcher(setup)
            process = launcher.spawn(setup, config, {name: theirs[name] for name in _CHANNELS}, theirs["calls"])
            for end in theirs.values():
                end.close()  # the kernel has them; if it dies, whoever waits for it hears so at once
            room = 6 * setup.limits.output_bytes + MESSAGE_BYTES  # JSON may write a character as six
            try:
                channels = Channels(
                    {name: ours[name] for name in _CHANNELS},
                    b"",
                    max_message_bytes=room,
                    max_decoded_bytes=4 * room,  # a character of a wide text takes four bytes
                )
                private = "namespaces" in setup.layers
                kernel = WarmKernel(process, channels, ours["calls"], setup.limits, has_private_root=private)
                _await_hello(kernel)
            except (KernelStartError, ProtocolViolation, HungUp) as error:
                raise _did_not_start(process, error) from None
            return kernel
        except BaseException:
            for end in (*ours.values(), *theirs.values()):
                end.close()
            raise

    def _wake_filler(self) -> None:
        if self._filler is None and self._size > 0:
            with self._lock:
                if self._filler is None and not self._closed:
                    self._filler = threading.Thread(target=self._fill, daemon=True, name="rlm-pool")
                    self._filler.start()
        self._changed.set()

    def _fill(self) -> None:
        while not self._closed:
            setup, pause = self._next_setup()
            if setup is None:
                self._changed.wait(pause)
                self._changed.clear()
                continue
            try:
                kernel = self._start_one(setup)
            except SandboxError:
                self._changed.wait()  # whoever needs a kernel next starts one itself, and hears why it fails
                self._changed.clear()
                continue
            with self._lock:
                if not self._closed and setup in self._ready:
                    self._ready[setup].append(kernel)
                    continue
            kernel.close()

    def _next_setup(self) -> tuple[Setup | None, float | None]:
        """A setup that needs a kernel now, or how long until one does; those not used for long are let go."""
        surplus: list[WarmKernel] = []
        with self._lock:
            while len(self._ready) > _SETUPS_KEPT:
                surplus += self._ready.pop(next(iter(self._ready)))
            for kernels in self._ready.values():
                dead = [kernel for kernel in kernels if not kernel.process.alive]
                for kernel in dead:
                    kernels.remove(kernel)
                surplus += dead
            lacking = [setup for setup, kernels in self._ready.items() if len(kernels) < self._size]
            empty = [setup for setup in lacking if not self._ready[setup]]
            pause = self._taken_at + _CALM_SECONDS - time.monotonic()
        for kernel in surplus:
            kernel.close()
        if not lacking or self._closed:
            return None, None
        if empty or pause <= 0:
            return (empty or lacking)[-1], None
        return None, pause


def _await_hello(kernel: WarmKernel) -> None:
    """Wait until the kernel answers and has seen our subscription, so that nothing it publishes is lost."""
    channels, end = kernel.channels, time.monotonic() + _READY_SECONDS
    asked = channels.send("shell", "kernel_info_request", {})
    answered = welcomed = False
    while not (answered and welcomed):
        if time.monotonic() > end or not kernel.process.alive:
            kernel.channels.close()
            raise KernelStartError("no answer")
        is_ready(channels["shell" if not answered else "iopub"], 0.02)
        while (received := channels.receive("shell")) is not None:
            answered |= received[0].kind == "kernel_info_reply" and received[0].parent_id == asked
        while (received := channels.receive("iopub")) is not None:
            welcomed |= received[0].kind == "iopub_welcome"


def _did_not_start(process: KernelProcess, error: Exception) -> KernelStartError:
    ended = process.wait(0.2)  # by itself, or has it only not answered?
    said = process.said()
    process.close()
    return KernelStartError(f"the kernel did not start: {ended or error}\n{said}".strip())


_default: Pool | None = None
_default_owner = 0
_default_lock = threading.Lock()


def default_pool() -> Pool:
    """Return the pool of this process, made when it is first asked for."""
    global _default, _default_owner
    with _default_lock:
        if _default is None or _default_owner != os.getpid():
            # A forked child must not share the parent's kernels; the parent's pool is the parent's to close.
            _default, _default_owner = Pool(), os.getpid()
        return _default


@atexit.register
def _close_default() -> None:
    if _default is not None and _default_owner == os.getpid():
        with contextlib.suppress(Exception):
            _default.close()
