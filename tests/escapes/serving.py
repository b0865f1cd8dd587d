"""A host that a test can watch from outside: a process that opens sessions and runs cells as it is told.

It is a program (`python serving.py`), one line of JSON in, one out. The test stays outside, so that a host that hangs,
swells, crashes or leaks is seen, and so that the host can be root or an ordinary user. It imports `sandbox` only.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import sys
import threading
import time
import traceback
from typing import Any

import sandbox
import sandbox.exchange
import sandbox.session

# A kernel that does not answer or does not stop is given up on sooner than in earnest; see also `Box.grace`.
sandbox.session._VARIABLES_SECONDS = 1.0
sandbox.exchange.GRACE_SECONDS = 0.7


def _given(files: dict[str, str]) -> dict[str, sandbox.File]:
    return {name: (sandbox.Folder if os.path.isdir(path) else sandbox.File)(path) for name, path in files.items()}


class Host:
    """Sessions by number, and what their cells asked the host to do."""

    def __init__(self) -> None:
        self._pool = sandbox.Pool(size=1)
        self._sessions: dict[int, sandbox.Session] = {}
        self._noted: dict[int, list[Any]] = {}
        self._shared: dict[str, sandbox.Text] = {}
        self._free = threading.Event()

    def open(
        self,
        isolation: str | list[str],
        limits: dict[str, Any],
        functions: list[str],
        inputs: dict[str, Any],
        shared: dict[str, str],
        files: dict[str, str] | None = None,
    ) -> dict[str, Any]:
        """Open a session. `shared` inputs are large texts that all sessions of this host share; `files` are paths."""
        number = len(self._noted)
        noted = self._noted[number] = []
        for name, text in shared.items():
            self._shared.setdefault(name, sandbox.Text(text, lazy=True))
        offered = {
            "note": lambda *args, **kwargs: noted.append([args, kwargs]),
            "echo": lambda value: value,
            "block": lambda *args: self._free.wait(20),
            "length": lambda value: len(value),
            "stop": self._stop,
            "pause": lambda seconds: time.sleep(min(seconds, 10)),
        }
        session = self._sessions[number] = sandbox.Session(
            inputs={**inputs, **{name: self._shared[name] for name in shared}, **_given(files or {})},
            functions={name: offered[name] for name in functions},
            limits=sandbox.Limits(**limits),
            policy="off",
            isolation=isolation if isinstance(isolation, str) else frozenset(isolation),
            pool=self._pool,
        )
        return {"number": number, "pid": session.pid, "scratch": session._link.kernel.scratch}

    def run(self, number: int, code: str, timeout: float | None, grace: float) -> dict[str, Any]:
        """Run a cell; everything that the caller of a session would see. `grace` is for its kernel to stop."""
        sandbox.exchange.GRACE_SECONDS = grace
        session = self._sessions[number]
        _finish_notes(session)
        before = len(self._noted[number])
        began, delayed = time.monotonic(), _run_delay()
        result = session.run(code, timeout=timeout)
        took = {"took": time.monotonic() - began, "delayed": _run_delay() - delayed}
        return {
            **took,
            "text": result.text,
            "value": result.value_repr,
            "data": json.dumps(result.data),
            "error": result.error.name if result.error else None,
            "message": result.error.message if result.error else "",
            "traceback": result.error.traceback if result.error else "",
            "limit": type(result.limit).__name__ if result.limit else None,
            "survived": result.limit.survived if result.limit else None,
            "death": type(result.death).__name__ if result.death else None,
            "died_of": str(result.death or result.limit or ""),
            "warnings": result.warnings,
            "dropped": result.dropped_bytes,
            "stopped": result.stopped,
            "made": result.calls,
            "noted": self._noted[number][before:],
            "alive": session.alive,
        }

    def collect(self, number: int) -> dict[str, tuple[int | None, str]]:
        """Collect what the code wrote: by name the size, where it was taken, and how it begins."""
        taken = self._sessions[number].collect()
        return {
            file.name: (None if file.content is None else file.size, (file.content or b"")[:500].decode("latin-1"))
            for file in taken
        }

    def run_on_loop(self, isolation: str, limits: dict[str, Any], code: list[str], timeout: float) -> dict[str, Any]:
        """Run cells in an `AsyncSession` beside a clock; the longest turn of the event loop, in processor time."""
        sandbox.exchange.GRACE_SECONDS = 0.7
        return asyncio.run(self._run_on_loop(isolation, limits, code, timeout))

    async def _run_on_loop(
        self, isolation: str, limits: dict[str, Any], code: list[str], timeout: float
    ) -> dict[str, Any]:
        turns: list[float] = []

        async def tick() -> None:
            while True:
                before = time.thread_time()
                await asyncio.sleep(0.001)
                turns.append(time.thread_time() - before)

        async def echo(value: Any) -> Any:
            return value

        ticking = asyncio.create_task(tick())
        session = sandbox.AsyncSession(
            functions={"echo": echo, "quick": sandbox.quick(lambda *args: len(args))},
            limits=sandbox.Limits(**limits),
            policy="off",
            isolation=isolation,
            pool=self._pool,
        )
        async with session:
            for one in code[:-1]:
                await session.run(one)
            turns.clear()
            began, delayed, used = time.monotonic(), _run_delay(), time.thread_time()
            result = await session.run(code[-1], timeout=timeout)
            took = time.monotonic() - began
            ended = {
                "took": took,
                "delayed": _run_delay() - delayed,
                "used": time.thread_time() - used,
                "longest": max(turns, default=took),
                "limit": type(result.limit).__name__ if result.limit else None,
                "death": type(result.death).__name__ if result.death else None,
                "error": str(result.error),
            }
        ticking.cancel()
        return ended

    def set_input(self, number: int, size: int) -> float:
        """Give a session another input; how long that took."""
        began = time.monotonic()
        with contextlib.suppress(sandbox.SandboxError):
            self._sessions[number].set(more="x" * size)
        return time.monotonic() - began

    def forget(self) -> None:
        """Let go of what can be let go, so that what is still held can be measured."""
        import gc

        gc.collect()

    def variables(self, number: int) -> dict[str, Any]:
        """The session's variables, by name."""
        found = self._sessions[number].variables()
        return {name: {"preview": one.preview, "type": one.type, "value": one.value} for name, one in found.items()}

    def close(self, number: int) -> None:
        """Close a session."""
        self._sessions.pop(number).close()

    def shared(self, name: str) -> str:
        """What a shared text holds now."""
        return self._shared[name].read().decode()

    def zygote(self) -> int:
        """The fork server's process id."""
        assert self._pool._zygote is not None
        return self._pool._zygote.pid

    def threads(self) -> int:
        """How many threads the host has."""
        return threading.active_count()

    def open_in_thread(self, **options: Any) -> dict[str, Any]:
        """Open a session in a thread that ends."""
        found: list[dict[str, Any]] = []
        thread = threading.Thread(target=lambda: found.append(self.open(**options)))
        thread.start()
        thread.join()
        return found[0]

    def release(self) -> None:
        """Let host functions that block return."""
        self._free.set()

    def wait_ready(self, isolation: str) -> bool:
        """Wait until the pool holds an unused kernel."""
        return self._pool.wait_full(isolation)

    def close_pool(self) -> None:
        """End everything."""
        self._free.set()
        self._pool.close()

    @staticmethod
    def probe() -> dict[str, bool]:
        """Which layers work for this user."""
        from sandbox.isolation.probe import probe

        return {finding.layer: finding.works for finding in probe().findings}

    @staticmethod
    def _stop() -> None:
        raise sandbox.StopCell


def _finish_notes(session: sandbox.Session) -> None:
    """Wait for the calls of `note` that had begun when the last cell ended: they are not the next cell's."""
    end = time.monotonic() + 5
    while any(call.name == "note" for call in list(session._calls._running.values())) and time.monotonic() < end:
        time.sleep(0.001)


def _run_delay() -> float:
    """Seconds that threads of this process waited for a processor, and that the machine's own host took from it.

    All threads, not the one that asks alone: while one waits that holds the interpreter's lock, they all do.
    """
    delay = 0.0
    for thread in os.listdir("/proc/self/task"):
        with contextlib.suppress(OSError), open(f"/proc/self/task/{thread}/schedstat") as file:
            delay += int(file.read().split()[1]) / 1e9
    with open("/proc/stat") as file:
        stolen = file.readline().split()[8]
    return delay + int(stolen) / os.sysconf("SC_CLK_TCK")


def main() -> None:
    """Serve orders until standard input ends."""
    host = Host()
    for line in sys.stdin:
        order = json.loads(line)
        try:
            answer = {"answer": getattr(host, order.pop("op"))(**order)}
        except Exception as error:
            answer = {"raised": type(error).__name__, "message": str(error), "traceback": traceback.format_exc()}
        sys.stdout.write(json.dumps(answer) + "\n")
        sys.stdout.flush()
    host.close_pool()


if __name__ == "__main__":
    main()
