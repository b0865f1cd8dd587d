"""AsyncSession: a `Session` whose cells do not stall the event loop: each runs in a thread of its own."""

from __future__ import annotations

import asyncio
import queue
import threading
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import Future
from types import TracebackType
from typing import Any, TypeVar

from .limits import Limits
from .policy import Mode
from .pool import Pool
from .results import CellResult, Variable
from .session import Session

T = TypeVar("T")


class AsyncSession:
    """The asynchronous face of `Session`. Asynchronous host functions run on the caller's event loop.

    >>> async with AsyncSession(inputs={"n": 20}) as session:
    ...     (await session.run("n * 2")).value
    '40'
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
    ) -> None:
        """As `Session`. The kernel is taken when the session is entered."""
        self._open: Callable[[asyncio.AbstractEventLoop], Session] = lambda loop: Session(
            inputs,
            functions,
            limits=limits,
            policy=policy,
            isolation=isolation,
            protected=protected,
            helpers=helpers,
            pool=pool,
            kernel_name=kernel_name,
            loop=loop,
        )
        self._session: Session | None = None
        self._worker = _Worker()

    async def __aenter__(self) -> AsyncSession:
        loop = asyncio.get_running_loop()
        opening: Future[Session] = self._worker.do(lambda: self._open(loop))
        try:
            self._session = await asyncio.wrap_future(opening)
        except asyncio.CancelledError:
            # The thread cannot be stopped; what it opens is closed as soon as it is open.
            opening.add_done_callback(lambda done: done.result().close() if not done.exception() else None)
            raise
        return self

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

    async def run(self, code: str, *, timeout: float | None = None) -> CellResult:
        """Run a cell. Cancelling the task that waits here ends the session, and what it has in flight."""
        session = self.session
        try:
            return await asyncio.wrap_future(self._worker.do(lambda: session.run(code, timeout=timeout)))
        except asyncio.CancelledError:
            await self.close()
            raise

    async def variables(self, *, preview_chars: int = 200, value_bytes: int = 10_000) -> dict[str, Variable]:
        """As `Session.variables`."""
        session = self.session
        return await asyncio.wrap_future(
            self._worker.do(lambda: session.variables(preview_chars=preview_chars, value_bytes=value_bytes))
        )

    def interrupt(self) -> None:
        """Stop the cell that is running. Its variables stay."""
        self.session.interrupt()

    async def close(self) -> None:
        """End the kernel, cancel host calls under way."""
        if self._session is not None:
            self._worker.stop()
            # In a thread of its own: the worker may be in the middle of a cell, which this ends.
            closing = _Worker()
            await asyncio.shield(asyncio.wrap_future(closing.do(self._session.close)))
            closing.stop()


class _Worker:
    """A thread that does one thing after another: the cells of one session. It starts with the first."""

    def __init__(self) -> None:
        self._orders: queue.SimpleQueue[Callable[[], None] | None] = queue.SimpleQueue()
        self._started = False

    def do(self, work: Callable[[], T]) -> Future[T]:
        """Do this next; what comes of it is in the future."""
        future: Future[T] = Future()

        def order() -> None:
            if future.set_running_or_notify_cancel():
                try:
                    future.set_result(work())
                except BaseException as error:
                    future.set_exception(error)

        self._orders.put(order)
        if not self._started:
            self._started = True
            threading.Thread(target=self._serve, daemon=True, name="rlm-cells").start()
        return future

    def stop(self) -> None:
        """Let the thread end when it has done what it has; one that is asked for later starts anew."""
        self._orders.put(None)
        self._started = False

    def _serve(self) -> None:
        while (order := self._orders.get()) is not None:
            order()
