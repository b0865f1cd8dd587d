"""The local executor: worker processes on this machine, each with an event loop that runs several items at once."""

from __future__ import annotations

import contextlib
import os
import selectors
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from ..errors import ExecutorError
from ..item import Item, Outcome
from ..worker import messages
from .base import DEFAULT_AT_ONCE, WorkerConfig
from .scheduler import START_TIMEOUT_S, Exited, LeasedItems, Message, RateLimited, Ready, Scheduler

_CHUNK = 1 << 18
_STOP_S = 20.0
_EXIT_S = 1.0


class ProcessExecutor(Scheduler["WorkerProcess"]):
    """Runs items in processes of this machine. See `Executor`."""

    def __init__(
        self,
        config: WorkerConfig | None = None,
        *,
        workers: int | None = None,
        at_once: int = DEFAULT_AT_ONCE,
        log: Path | None = None,
    ) -> None:
        """Start `workers` processes (default: one per processor), each running `at_once` items.

        The output of the processes goes to `log`.
        """
        super().__init__(workers or processor_count(), at_once)
        self._config = config or WorkerConfig()
        self._log = log
        self._selector = selectors.PollSelector()  # needs no descriptor of its own

    @property
    def pids(self) -> list[int]:
        """The process ids of the workers."""
        return [worker.process.pid for worker in self.workers]

    def _start(self) -> WorkerProcess:
        try:
            if self._log is not None:
                self._log.parent.mkdir(parents=True, exist_ok=True)
            worker = WorkerProcess(self._config, self._at_once, self._log)
        except OSError as error:
            raise ExecutorError(f"a worker process cannot be started ({error})") from error
        self._selector.register(worker.socket, selectors.EVENT_READ, worker)
        return worker

    def _receive(self, timeout: float) -> Iterator[tuple[WorkerProcess, Message]]:
        for worker in self.workers:
            events = selectors.EVENT_READ | (selectors.EVENT_WRITE if worker.has_unsent else 0)
            self._selector.modify(worker.socket, events, worker)
        for key, events in self._selector.select(timeout):
            worker = key.data
            if events & selectors.EVENT_WRITE:
                worker.write()
            if events & selectors.EVENT_READ:
                yield from ((worker, message) for message in worker.receive())

    def _kill(self, worker: WorkerProcess) -> None:
        self._selector.unregister(worker.socket)
        worker.kill()

    def _stop(self, workers: Sequence[WorkerProcess]) -> None:
        for worker in workers:
            self._selector.unregister(worker.socket)
            worker.socket.close()  # the worker abandons its items, writes its traces and ends
        deadline = time.monotonic() + _STOP_S
        for worker in workers:
            with contextlib.suppress(subprocess.TimeoutExpired):
                worker.process.wait(max(0.0, deadline - time.monotonic()))
            worker.kill()

    def _start_error(self, reason: str | None) -> ExecutorError:
        output = f"; their output is in {self._log}" if self._log is not None else ""
        if reason is None:
            return ExecutorError(f"no worker process was ready within {START_TIMEOUT_S:.0f} seconds{output}")
        return ExecutorError(f"worker processes do not start: {reason}{output}")


class WorkerProcess:
    """A process that runs items, several at once. No method but `kill` and `exit_reason` waits for it."""

    def __init__(self, config: WorkerConfig, at_once: int, log: Path | None) -> None:
        self.items = LeasedItems(at_once)
        self.ready = False
        self.started = time.monotonic()
        self._received = messages.FrameReader()
        self._unsent = bytearray(messages.pack({"config": config.to_dict(), "at_once": at_once}))
        self.socket, remote = socket.socketpair()
        self.socket.setblocking(False)
        with remote, open(log or os.devnull, "ab") as output:
            self.process = subprocess.Popen(
                # -P: files in the current directory must not shadow modules.
                [sys.executable, "-P", "-m", "rlm.batch.worker.main", str(remote.fileno())],
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                pass_fds=[remote.fileno()],
                start_new_session=True,  # Ctrl-C reaches only the driver, which decides what to do
            )
        self.name = f"{socket.gethostname()}:{self.process.pid}"

    @property
    def has_unsent(self) -> bool:
        """Whether there are bytes to send."""
        return bool(self._unsent)

    def send(self, item: Item) -> None:
        """Send an item."""
        self._unsent += messages.pack({"item": item.to_dict()})
        self.write()

    def write(self) -> None:
        """Send as many bytes as the socket takes. Reading from it finds out whether the worker is gone."""
        with contextlib.suppress(BlockingIOError, ConnectionError):
            while self._unsent:
                del self._unsent[: self.socket.send(self._unsent[:_CHUNK])]

    def receive(self) -> Iterator[Message]:
        """Yield the messages that have arrived; the last one is `Exited` when there will be no more."""
        while True:
            try:
                received = self.socket.recv(_CHUNK)
            except BlockingIOError:
                return
            except ConnectionError:
                received = b""
            if not received:
                yield Exited(self.exit_reason())
                return
            yield from map(_message, self._received.feed(received))
            if len(received) < _CHUNK:
                return  # nothing more has arrived

    def exit_reason(self) -> str:
        """Return how a process ended that has closed its connection."""
        with contextlib.suppress(subprocess.TimeoutExpired):
            self.process.wait(_EXIT_S)  # the connection is closed a moment before the process has ended
        status = self.process.poll()
        if status is None:
            return "it closed its connection"
        if status >= 0:
            return f"it exited with status {status}"
        try:
            return f"it was killed by {signal.Signals(-status).name}"
        except ValueError:
            return f"it was killed by signal {-status}"

    def kill(self) -> None:
        """Kill the process, if it has not ended."""
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()
        self.socket.close()


def processor_count() -> int:
    """Return how many processors this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _message(data: dict[str, Any]) -> Message:
    if "outcome" in data:
        return Outcome.from_dict(data["outcome"])
    return RateLimited(data["rate_limited"]) if "rate_limited" in data else Ready()
