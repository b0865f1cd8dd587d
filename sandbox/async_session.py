"""AsyncSession: a `Session` on an event loop, which watches the kernel's descriptors itself."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable, Iterable, Mapping
from types import TracebackType
from typing import Any

from . import data
from .collect import WrittenFile
from .errors import KernelDied
from .event_loop import drive
from .limits import Limits
from .policy import Mode
from .pool import Pool, default_pool
from .results import CellResult, Variable
from .session import Session
from .threads import start_thread, threaded
from .variables import variables_in


class AsyncSession:
    """The asynchronous face of `Session`. Asynchronous host functions run on the caller's event loop.

    >>> async with AsyncSession(inputs={"n": 20}) as session:
    ...     (await session.run("n * 2")).value
    40
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
    ) -> None:
        """As `Session`. The kernel is taken when the session is entered."""
        self._options: dict[str, Any] = {
            "inputs": inputs or {},
            "functions": functions,
            "limits": limits,
            "policy": policy,
            "isolation": isolation,
            "protected": tuple(protected),
            "helpers": helpers,
            "pool": pool,
            "kernel_name": kernel_name,
            "out": out,
        }
        self._session: Session | None = None
        self._turns = asyncio.Lock()

    async def __aenter__(self) -> AsyncSession:
        loop = asyncio.get_running_loop()
        self._session = await self._opened_here(loop) or await self._opened_in_thread(loop)
        return self

    async def _opened_here(self, loop: asyncio.AbstractEventLoop) -> Session | None:
        """Return the session, if there is a kernel that waits for it and nothing that would keep the loop busy."""
        options = self._options
        if options["kernel_name"] is not None or not data.is_small(options["inputs"]):
            return None
        kernel = (options["pool"] or default_pool()).take_waiting(options["isolation"], options["limits"])
        if kernel is None:
            return None
        try:
            session = Session(**options, loop=loop, _kernel=kernel)
        except BaseException:
            kernel.close()
            raise
        try:
            exchange = session._begin_load()
            session._end_load(exchange.answer(await drive(exchange, session._link)))
            return session
        except KernelDied:
            session.close()
            return None
        except BaseException:
            session.close()
            raise

    async def _opened_in_thread(self, loop: asyncio.AbstractEventLoop) -> Session:
        opening = start_thread(lambda: Session(**self._options, loop=loop))
        try:
            return await asyncio.wrap_future(opening)
        except asyncio.CancelledError:
            # The thread cannot be stopped; what it opens is closed as soon as it is open.
            opening.add_done_callback(lambda done: done.result().close() if not done.exception() else None)
            raise

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await self.close()

    @property
    def session(self) -> Session:
        """The session underneath."""
        if self._session is None:
            raise RuntimeError("use `async with AsyncSession(...) as session:`")
        return self._session

    @property
    def alive(self) -> bool:
        """Whether another cell can run."""
        return self._session is not None and self._session.alive

    @property
    def pid(self) -> int | None:
        """The kernel's process id on this machine, if it runs here."""
        return self.session.pid

    async def run(
        self, code: str, *, timeout: float | None = None, variables: bool = False, json: bool = False
    ) -> CellResult:
        """As `Session.run`. Cancelling the task that waits here ends the session, and what it has in flight."""
        session = self.session
        try:
            if session._link.comm is not None:  # a kernel of another make: what it takes to watch it may block
                return await threaded(lambda: session.run(code, timeout=timeout, variables=variables, json=json))
            async with self._turn(session):
                session._ensure_alive()
                exchange = session._begin(code, timeout, variables, json)
                if isinstance(exchange, CellResult):
                    return exchange
                return session._end(exchange, await drive(exchange, session._link))
        except asyncio.CancelledError:
            await self.close()
            raise

    async def variables(self, *, preview_chars: int = 200, value_bytes: int = 10_000) -> dict[str, Variable]:
        """As `Session.variables`."""
        session = self.session
        if session._link.comm is not None:
            return await threaded(lambda: session.variables(preview_chars=preview_chars, value_bytes=value_bytes))
        async with self._turn(session):
            session._ensure_alive()
            exchange = session._begin_look(preview_chars, value_bytes)
            return variables_in(exchange.answer(await drive(exchange, session._link)))

    async def collect(self, *, max_bytes: int | None = None) -> tuple[WrittenFile, ...]:
        """As `Session.collect`."""
        session = self.session
        return await threaded(lambda: session.collect(max_bytes=max_bytes))

    def interrupt(self) -> None:
        """Stop the cell that is running. Its variables stay."""
        self.session.interrupt()

    async def close(self) -> None:
        """End the kernel, cancel host calls under way."""
        session = self._session
        if session is None:
            return
        if session._one_at_a_time.locked() or session._link.comm is not None:
            # It has to wait for the cell that it ends, which needs this event loop.
            await asyncio.shield(threaded(session.close))
        else:
            session.close()

    @contextlib.asynccontextmanager
    async def _turn(self, session: Session) -> AsyncIterator[None]:
        """One thing at a time, also where a thread uses the session underneath."""
        async with self._turns:
            lock = session._one_at_a_time
            if not lock.acquire(blocking=False):
                taking = start_thread(lock.acquire)
                try:
                    await asyncio.wrap_future(taking)
                except asyncio.CancelledError:
                    taking.add_done_callback(lambda done: lock.release())
                    raise
            try:
                yield
            finally:
                lock.release()
