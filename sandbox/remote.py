"""Sessions on kernels that another Jupyter provisioner started: with no descriptor to share, or on another machine.

Covers: the same cells, results, inputs, variables and host calls, over Jupyter messages alone. A host call leaves the
kernel as a `comm_msg` on iopub and its answer comes back as one on the control channel, which a kernel serves while a
cell runs.

Does not cover: isolation, memory, files and processes. They are whatever the kernel's own provisioner gives it. Time,
output and host calls are limited from here. A cell that must stop gets a KeyboardInterrupt, which it can catch; if it
does, the kernel is ended.
"""

from __future__ import annotations

import ast
import contextlib
import importlib.resources
import json
import threading
import time
from collections import deque
from typing import Any

from jupyter_client.manager import KernelManager

from . import frames, policy, policy_words
from .channels import Channels
from .errors import KernelStartError
from .host_calls import HostCalls
from .launch import Exit
from .limits import Limits
from .link import Link
from .polling import is_ready
from .results import CellError, CellResult
from .tagged import untagged
from .wire import COMM, Message

_START_SECONDS = 60.0
_MAX_MESSAGE = 64 << 20
_MAX_DECODED = 256 << 20
# What is sent to a kernel that has no `sandbox` package of its own, in the order in which it is imported.
_AGENT = (
    "reflection", "previews", "positions", "matches", "views", "type_previews", "array_previews", "snapshot_delta",
    "snapshot", "inputs", "agent",
)  # fmt: skip


class CommCarrier:
    """Host calls as Jupyter messages."""

    def __init__(self, channels: Channels, calls: HostCalls, link: Link) -> None:
        self._channels = channels
        self._calls = calls
        self._link = link
        self._lock = threading.Lock()
        self._answers: deque[dict[str, Any]] = deque()

    def take(self, message: Message) -> bool:
        """Return whether the message is a host call; if it is, it is under way."""
        data = message.content.get("data")
        if message.kind != "comm_msg" or message.content.get("comm_id") != COMM or not isinstance(data, dict):
            return False
        if not isinstance(data.get("call"), dict):
            return False
        self._calls.request(untagged(data["call"]), message.cost, self)
        return True

    def answer(self, frame: bytes) -> None:
        """Keep an answer for the loop, which alone may use the channels."""
        self._answers.append(frames.body_of(frame))
        self._link.poke()

    def flush(self) -> None:
        """Send the answers that are kept."""
        with contextlib.suppress(IndexError):
            while True:
                body = self._answers.popleft()
                self._channels.send("control", "comm_msg", {"comm_id": COMM, "data": {"answer": body}})


class RemoteKernel:
    """A kernel behind a Jupyter `KernelManager`."""

    pid: int | None = None
    pidfd: int | None = None
    errors = -1
    scratch: str | None = None

    def __init__(self, manager: KernelManager, mode: policy.Mode, functions: frozenset[str]) -> None:
        self._manager = manager
        self._mode = mode
        self._functions = functions
        self._bound: set[str] = set()
        self._looked = 0.0
        self._alive = True

    @classmethod
    def start(cls, name: str, calls: HostCalls, limits: Limits, mode: policy.Mode) -> Link:
        """Start the kernel of that name through its own provisioner, and connect to it."""
        manager = KernelManager(kernel_name=name)
        try:
            manager.start_kernel()
        except Exception as error:
            raise KernelStartError(f"the Jupyter kernel {name!r} did not start: {error}") from error
        kernel = cls(manager, mode, frozenset(calls.functions))
        try:
            channels = _reach(kernel, manager)
            _await_hello(channels, kernel)
            link = Link(kernel, channels, calls, limits, review=kernel.review)
            link.comm = CommCarrier(channels, calls, link)
            _teach(channels)
        except BaseException:
            kernel.kill()
            raise
        return link

    @property
    def alive(self) -> bool:
        """Whether it still runs, as its provisioner says; asked at most twice a second."""
        now = time.monotonic()
        if self._alive and now - self._looked > 0.5:
            self._looked = now
            self._alive = bool(self._manager.is_alive())
        return self._alive

    def review(self, code: str) -> CellResult | None:
        """Return what the policy says: the kernel has none of its own. None when the cell may run."""
        if self._mode == "off":
            return None
        try:
            tree = ast.parse(code)
        except (SyntaxError, ValueError, RecursionError, MemoryError):
            return None  # the kernel says it better, with the cell's name and line
        refusals = policy.review(tree, self._functions, self._bound)
        if not refusals or self._mode == "warn":
            names = {
                node.id for node in ast.walk(tree) if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)
            }
            self._bound |= names & policy_words.BUILTINS.keys()
            return None
        message = policy.explain(refusals, code)
        return CellResult(error=CellError("Refused", message, f"Refused: {message}", refusals[0].line))

    def cpu_seconds(self) -> float:
        """Return 0: nobody here knows."""
        return 0.0

    def stop_cell(self) -> None:
        """Interrupt the cell."""
        self._manager.interrupt_kernel()

    def hold(self, size: int) -> None:
        """Its memory is its provisioner's affair."""

    def kill(self) -> None:
        """End the kernel."""
        if self._alive:
            self._alive = False
            self._manager.shutdown_kernel(now=True)

    def wait(self, seconds: float) -> Exit | None:
        """Nobody here knows how it ended."""
        return None

    def close(self) -> None:
        """End the kernel and its connection file."""
        self.kill()
        self._manager.cleanup_resources()


def _endpoints(manager: KernelManager) -> dict[str, str]:
    info = dict(manager.get_connection_info())
    joiner = ":" if info["transport"] == "tcp" else "-"
    return {
        name: f"{info['transport']}://{info['ip']}{joiner}{info[f'{name}_port']}"
        for name in ("shell", "control", "iopub")
    }


def _reach(kernel: RemoteKernel, manager: KernelManager) -> Channels:
    """Connect as soon as the kernel listens."""
    end = time.monotonic() + _START_SECONDS
    while True:
        try:
            return Channels.to(
                _endpoints(manager),
                manager.session.key,
                max_message_bytes=_MAX_MESSAGE,
                max_decoded_bytes=_MAX_DECODED,
            )
        except KernelStartError:
            if time.monotonic() > end or not kernel.alive:
                raise
            time.sleep(0.05)


def _await_hello(channels: Channels, kernel: RemoteKernel) -> None:
    """Ask until an answer comes on both channels: only then is our subscription in place."""
    end = time.monotonic() + _START_SECONDS
    answered = heard = False
    while not (answered and heard):
        if time.monotonic() > end or not kernel.alive:
            raise KernelStartError("the Jupyter kernel did not answer")
        asked = channels.send("shell", "kernel_info_request", {})
        retry_at = time.monotonic() + 0.5
        while time.monotonic() < retry_at and not (answered and heard):
            is_ready(channels["iopub" if answered else "shell"], 0.1)
            while (received := channels.receive("shell")) is not None:
                answered |= received[0].kind == "kernel_info_reply"
            while (received := channels.receive("iopub")) is not None:
                heard |= received[0].parent_id == asked


def _teach(channels: Channels) -> None:
    """Give a kernel that knows nothing of us what it needs: the agent, as source."""
    package = importlib.resources.files("sandbox.kernel")
    sources = {name: package.joinpath(f"{name}.py").read_text() for name in _AGENT}
    code = package.joinpath("agent_boot.py").read_text() + f"\nboot({json.dumps(sources)})\n"
    asked = channels.send("shell", "execute_request", {"code": code, "silent": True, "store_history": False})
    end = time.monotonic() + _START_SECONDS
    while time.monotonic() < end:
        channels["shell"].flush()
        is_ready(channels["shell"], 0.5)
        while (received := channels.receive("shell")) is not None:
            message = received[0]
            if message.kind == "execute_reply" and message.parent_id == asked:
                if message.content.get("status") != "ok":
                    said = f"{message.content.get('ename')}: {message.content.get('evalue')}"
                    raise KernelStartError(f"the Jupyter kernel cannot serve a session: {said[:500]}")
                return
    raise KernelStartError("the Jupyter kernel did not take its instructions")
