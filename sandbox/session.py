"""Session: open it with inputs and host functions, run cells, read results and variables, close it."""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import os
import threading
import time
from collections.abc import Callable, Iterable, Mapping
from types import TracebackType
from typing import Any, Literal

from . import data
from .call_socket import CallSocket
from .collect import WrittenFile, collect
from .errors import (
    CellTimeLimit,
    InputError,
    KernelDied,
    LimitExceeded,
    SandboxError,
    SessionClosed,
    SessionTimeLimit,
)
from .exchange import Death, Exchange, ended_by
from .host_calls import MEMORY_FACTOR, HostCalls
from .idle_clock import idle_clock
from .limits import Limits
from .link import Link
from .policy import Mode
from .pool import Pool, WarmKernel, default_pool
from .results import CellResult, Variable
from .variables import variables_in

_LOAD_SECONDS = 120.0
_VARIABLES_SECONDS = 10.0
_COLLECT_SECONDS = 10.0
_IDLE_STEP_SECONDS = 0.05
_PROCESSORS = os.cpu_count() or 1
_ALONG = {"value_bytes": 1_000, "text_bytes": 10_000}
"""How long the values may be that a cell brings along: texts cost little."""


class Session:
    """A kernel of its own, and what it has been given. Cells run one at a time; variables stay between them.

    >>> with Session(inputs={"text": "one two"}, functions={"shout": str.upper}) as session:
    ...     session.run("shout(text)").value
    'ONE TWO'
    """

    def __init__(
        self,
        inputs: Mapping[str, Any] | None = None,
        functions: Mapping[str, Callable[..., Any]] | None = None,
        *,
        limits: Limits | None = None,
        policy: Mode = "enforce",
        isolation: str | frozenset[str] = "auto",
        protected: Iterable[str] = (),
        helpers: str = "",
        pool: Pool | None = None,
        kernel_name: str | None = None,
        out: str | None = None,
        loop: asyncio.AbstractEventLoop | None = None,
        _kernel: WarmKernel | None = None,
    ) -> None:
        """Open a session.

        `inputs` become variables, `functions` can be called from the code. `protected` names inputs that code may not
        rebind, as it may not rebind functions. `helpers` is source of yours that runs in the kernel: its functions are
        there for the code, beside data that never leaves the kernel. `isolation` is `auto`, or a tier by name; `none`
        must be asked for. `kernel_name` runs the session on another Jupyter kernel, through that kernel's own
        provisioner: isolation is then that provisioner's. `out` is the name of a variable that has the path of
        the folder for files that `collect` returns. `loop` is where asynchronous host functions run, if not on a
        loop of the session's. (`_kernel` has been taken already; `AsyncSession` then loads the inputs.)
        """
        self.limits = limits or Limits()
        self._policy = policy
        self._out = out
        by: Literal["descriptor", "buffer"] = "descriptor" if kernel_name is None else "buffer"
        self._helpers = data.pack_helpers(helpers, by=by)
        self._check(inputs or {}, functions or {}, tuple(protected), policy)
        self._calls = HostCalls(functions or {}, self.limits, loop)
        self._one_at_a_time = threading.Lock()
        self._closing = threading.Lock()
        self._began: float | None = None
        self._closed = False
        self._idle_cpu = 0.0
        self._ended: LimitExceeded | None = None
        """The limit for which the session was ended while no cell ran."""

        self._end_is_known = False
        self._protected = list(protected)
        self._parcel = data.pack(inputs or {}, by=by)
        self._mounts = self._parcel.mounts
        if _kernel is not None:
            self._link = self._linked(_kernel)
            return
        self._link = self._connect(isolation, pool, kernel_name)
        try:
            self._load()
        except KernelDied:
            # It died while it waited in the pool, or of the inputs; only the second can happen twice.
            self._link.close()
            self._link = self._connect(isolation, pool, kernel_name)
            self._load()
        except BaseException:
            self.close()
            raise

    def __enter__(self) -> Session:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    def __del__(self) -> None:
        if hasattr(self, "_link"):
            self.close()

    @property
    def alive(self) -> bool:
        """Whether another cell can run."""
        return not self._closed and self._link.kernel.alive

    @property
    def pid(self) -> int | None:
        """The kernel's process id on this machine, if it runs here."""
        return self._link.kernel.pid

    def run(
        self, code: str, *, timeout: float | None = None, variables: bool = False, json: bool = False
    ) -> CellResult:
        """Run a cell and wait for it.

        `timeout` stops it after that many seconds, waiting for the host included. `variables` brings what `variables()`
        would say along with the result, at little cost: values only up to a kilobyte each, unless they are texts. Its
        time counts as the cell's. `json` adds the value of the last expression as JSON text to the result's `data`,
        under `application/json`, where it has that form. A cell that fails, or reaches a limit, is a result;
        `SessionClosed` is raised when there is no kernel to run it.
        """
        with self._one_at_a_time:
            exchange = self._begin(code, timeout, variables, json)
            result = exchange if isinstance(exchange, CellResult) else self._end(exchange, exchange.wait())
        return self._with_variables(result) if variables and self._link.comm is not None else result

    def variables(self, *, preview_chars: int = 200, value_bytes: int = 10_000) -> dict[str, Variable]:
        """Return the session's variables, in the order in which they were made; functions and inputs included."""
        with self._one_at_a_time:
            exchange = self._begin_look(preview_chars, value_bytes)
            return variables_in(exchange.answer(exchange.wait()))

    def _begin(self, code: str, timeout: float | None, variables: bool, json: bool = False) -> Exchange | CellResult:
        """Send a cell to the kernel, unless the policy refuses it, or the session has come to its end."""
        if self._ended is not None and not self._end_is_known:
            self._end_is_known = True
            return CellResult(error=ended_by(self._ended), limit=self._ended)
        self._ensure_alive()
        if self._link.review is not None and (refused := self._link.review(code)) is not None:
            return refused
        now = time.monotonic()
        self._began = self._began or now
        left = self.limits.session_seconds - (now - self._began)
        exchange = Exchange(self._link, seconds=self.limits.cell_seconds, wall_seconds=timeout, session_seconds=left)
        exchange.execute(code, _ALONG if variables and self._link.comm is None else None, json=json)
        return exchange

    def _end(self, exchange: Exchange, death: Death | None) -> CellResult:
        """Return what is known about a cell, and have the clock between cells keep an eye on what it left behind."""
        result = exchange.result(death)
        if self._link.kernel.alive:
            self._idle_cpu = self._link.kernel.cpu_seconds()
            now = time.monotonic()
            idle_clock().watch(self, self._idle_due(now, self.limits.cell_seconds))
        return result

    def check_idle(self, now: float) -> float | None:
        """Called by the clock between cells: end the session if it is too old, or uses the processor too much."""
        if self._closed or not self._link.kernel.alive:
            return None
        if not self._one_at_a_time.acquire(blocking=False):
            return now
        try:
            assert self._began is not None
            if now >= self._began + self.limits.session_seconds:
                message = f"the session is older than {self.limits.session_seconds:g} s"
                self._ended = SessionTimeLimit(message, survived=False)
            left = self.limits.cell_seconds - (self._link.kernel.cpu_seconds() - self._idle_cpu)
            if left <= 0 and self._ended is None:
                message = f"threads or processes of earlier cells used more than {self.limits.cell_seconds:g} s of"
                self._ended = CellTimeLimit(f"{message} processor time while no cell ran", survived=False)
            if self._ended is None:
                return self._idle_due(now, left)
            self._link.kernel.kill()
            return None
        finally:
            self._one_at_a_time.release()

    def _idle_due(self, now: float, processor_seconds: float) -> float:
        """When it may be too old, or may have used this much processor time, on all processors there are."""
        assert self._began is not None
        used_up = now + max(_IDLE_STEP_SECONDS, processor_seconds / _PROCESSORS)
        return max(now + 0.001, min(used_up, self._began + self.limits.session_seconds))

    def _begin_look(self, preview_chars: int, value_bytes: int) -> Exchange:
        self._ensure_alive()
        exchange = Exchange(self._link, seconds=_VARIABLES_SECONDS)
        options = {"preview_chars": preview_chars, "value_bytes": value_bytes}
        exchange.ask({"op": "variables", "options": options})
        return exchange

    def _with_variables(self, result: CellResult) -> CellResult:
        """A kernel of another make does not send them along."""
        with contextlib.suppress(SandboxError):
            return dataclasses.replace(result, variables=self.variables())
        return result

    def collect(self, *, max_bytes: int | None = None) -> tuple[WrittenFile, ...]:
        """Return what the code wrote to its out folder, at most `max_bytes` in all. Default: `Limits.file_bytes`."""
        if self._link.comm is not None:
            return ()  # a kernel of another make has no such folder
        with self._one_at_a_time:
            self._ensure_alive()

            def ask(order: dict[str, Any]) -> dict[str, Any]:
                exchange = Exchange(self._link, seconds=_COLLECT_SECONDS)
                exchange.ask(order)
                return exchange.answer(exchange.wait())

            return collect(ask, self.limits.file_bytes if max_bytes is None else max_bytes)

    def set(self, **inputs: Any) -> None:
        """Give the session more inputs, or new values for those it has. They count as memory of the session."""
        self.update(inputs)

    def update(self, inputs: Mapping[str, Any], *, protected: Iterable[str] = ()) -> None:
        """As `set`, with inputs by name. Code may not rebind those that are `protected`, now or before."""
        for name in inputs:
            data.check_name(name)
        self._protected = [*{*self._protected, *protected}]
        names = [name for name in inputs if name in self._protected]
        parcel = data.pack(inputs, by="descriptor" if self._link.carrier is not None else "buffer")
        if not set(parcel.mounts) <= set(self._mounts):
            raise InputError("files and folders can only be given to a session when it is opened")
        with self._one_at_a_time:
            self._ensure_alive()
            exchange = self._begin_inputs(parcel, {"protected": names})
            self._end_inputs(exchange.answer(exchange.wait()))

    def set_functions(self, functions: Mapping[str, Callable[..., Any]]) -> None:
        """Offer these functions from now on, and no others. A name that is taken is the function's then."""
        self._check({}, functions, (), self._policy)
        with self._one_at_a_time:
            self._ensure_alive()
            self._calls.replace(functions)
            exchange = self._begin_inputs(data.Parcel([], []), {"functions": self._calls.describe()})
            self._end_inputs(exchange.answer(exchange.wait()))

    def interrupt(self) -> None:
        """Stop the cell that is running, from another thread. Its variables stay."""
        self._link.kernel.stop_cell()

    def close(self) -> None:
        """End the kernel, cancel host calls under way. A cell that is running ends with `SessionClosed`."""
        with self._closing:
            if self._closed:
                return
            self._calls.close()  # before anybody can see that the session is closed: then no call begins any more
            self._closed = True
        self._link.cancelled = True
        self._link.kernel.kill()
        self._link.poke()
        with self._one_at_a_time:  # the loop of a running cell has let go of the sockets
            self._link.close()

    def _connect(self, isolation: str | frozenset[str], pool: Pool | None, kernel_name: str | None) -> Link:
        if kernel_name is not None:
            if self._mounts:
                raise InputError(f"files cannot be given to the Jupyter kernel {kernel_name!r}; give their text")
            from .remote import RemoteKernel  # jupyter_client takes a third of a second to import

            return RemoteKernel.start(kernel_name, self._calls, self.limits, self._policy)
        given = {"mounts": self._mounts} if self._mounts else {}
        return self._linked((pool or default_pool()).take(isolation, self.limits, **given))

    def _linked(self, kernel: WarmKernel) -> Link:
        link = Link(kernel.process, kernel.channels, self._calls, self.limits)
        link.carrier = CallSocket(kernel.calls, self._calls, self.limits, link.poke)
        self._has_private_root = kernel.has_private_root
        return link

    def _load(self) -> None:
        exchange = self._begin_load()
        self._end_load(exchange.answer(exchange.wait()))

    def _begin_load(self) -> Exchange:
        """Send everything that the session starts with."""
        return self._begin_inputs(
            self._parcel,
            {
                "functions": self._calls.describe(),
                "protected": self._protected,
                "helpers": self._helpers,
                "policy": self._policy,
                "output_bytes": self.limits.output_bytes,
                "out": self._out,
                "call_bytes": self.limits.call_bytes,
                "call_memory": MEMORY_FACTOR * self.limits.call_bytes,
            },
        )

    def _end_load(self, answer: dict[str, Any]) -> None:
        self._end_inputs(answer)
        self._parcel = data.Parcel([], [])  # the kernel has it

    def _begin_inputs(self, parcel: data.Parcel, more: dict[str, Any]) -> Exchange:
        carrier = self._link.carrier
        count = len(parcel.large) if carrier is not None else 0
        self._link.kernel.hold(sum(block.size for block in parcel.large))
        order = {"op": "load", "inputs": parcel.inputs, "descriptors": count, "files": self._files(parcel), **more}
        buffers: list[bytes] = []
        if carrier is None:
            buffers = [block.read() for block in parcel.large]
        elif parcel.large:
            opened = [block.opened() for block in parcel.large]
            carrier.send_descriptors([source.descriptor for source in opened], opened)
        exchange = Exchange(self._link, seconds=_LOAD_SECONDS)
        exchange.ask(order, buffers)
        return exchange

    def _files(self, parcel: data.Parcel) -> list[list[Any]]:
        """Describe the files of a parcel for the kernel, by their numbers."""
        return [
            [mount.target if self._has_private_root else mount.source, file.name, file.size, file.is_folder]
            for file, mount in zip(parcel.files, parcel.mounts, strict=True)
        ]

    @staticmethod
    def _end_inputs(answer: dict[str, Any]) -> None:
        if "error" in answer:
            raise InputError(f"the kernel could not take its inputs: {str(answer['error'])[:500]}")

    def _ensure_alive(self) -> None:
        if self._closed:
            raise SessionClosed("the session is closed")
        if self._ended is not None:
            raise SessionClosed(f"the session was ended: {self._ended}; open another session")
        if not self._link.kernel.alive:
            how = self._link.kernel.wait(0.0)
            raise SessionClosed(f"the session's kernel is gone{f' ({how})' if how else ''}; open another session")

    @staticmethod
    def _check(
        inputs: Mapping[str, Any], functions: Mapping[str, Callable[..., Any]], protected: tuple[str, ...], policy: str
    ) -> None:
        for name in (*inputs, *functions):
            data.check_name(name)
        if both := sorted(set(inputs) & set(functions)):
            raise InputError(f"{', '.join(both)}: an input and a function cannot have the same name")
        if unknown := sorted(set(protected) - set(inputs)):
            raise InputError(f"{', '.join(unknown)}: protected, but not an input")
        for name, function in functions.items():
            if not callable(function):
                raise InputError(f"function {name!r} is a {type(function).__name__}, which cannot be called")
        if policy not in ("off", "warn", "enforce"):
            raise SandboxError(f"policy={policy!r}: choose off, warn or enforce")
