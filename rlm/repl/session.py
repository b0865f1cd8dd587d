"""The session of one run: a sandbox session that is rebuilt from the record when its kernel dies."""

from __future__ import annotations

import asyncio
import contextlib
import functools
import time
from collections.abc import Callable, Mapping
from importlib.resources import files
from typing import Any

import sandbox
from sandbox import AsyncSession, CellResult, Variable

from ..history import VariableChanges
from ..mounts.output import OUT
from ..shapes import kernel_source
from ..signatures.code_values import code_value
from .config import RunConfig
from .host_calls import CallLog, CallReplay
from .replay import RecordedCall, RecordedIteration

MAX_REVIVALS = 3
MAX_WRITTEN = 64 << 20
"""The most bytes of files that a run keeps of what its code wrote."""

AGAIN = "The kernel had ended and was started anew; the cells before were run again, so their variables are there."
NOT_AGAIN = (
    "The kernel had ended and was started anew. Of the cells before, one did not run as it had before ({why}), so what "
    "it and later ones had set may be missing: look, and set it anew."
)
_LEAST_S = 0.05


class SetupFailed(sandbox.SandboxError):
    """The code that runs before the first cell failed; the message has its error."""


_SEEN_S = 3.0
"""How long reading the variables at the end may take. The kernel itself stops after two seconds."""


@functools.cache
def helper_source() -> str:
    """Return the source of the helper functions, for the kernel and for the prompt."""
    source = files(__package__).joinpath("kernel_helpers.py").read_text(encoding="utf-8")
    return source.replace('_SHAPES_SOURCE = ""', f"_SHAPES_SOURCE = {kernel_source()!r}", 1)


def output_of(result: CellResult) -> tuple[str, int]:
    """Return the output of a cell (printed text, last value, error, limit) and the length of its first two parts."""
    parts = [result.text.rstrip("\n")] if result.text else []
    if result.value_repr is not None:
        parts.append(result.value_repr)
    printed_chars = len("\n".join(parts))
    if result.error is not None:
        parts.append(result.error.traceback.rstrip("\n"))
    if result.limit is not None and str(result.limit) not in "\n".join(parts):
        parts.append(f"[{result.limit}]")
    return "\n".join(parts), printed_chars


class ReplSession:
    """Runs cells, records them with their calls, and has the variables as they were last seen."""

    def __init__(
        self,
        inputs: Mapping[str, Any],
        functions: Mapping[str, Callable[..., Any]],
        calls: CallLog,
        config: RunConfig,
    ) -> None:
        self._log = calls
        values = {name: code_value(value) for name, (value, _) in config.values.items()}
        inputs = {**inputs, **config.sealed, **values}
        self._options: dict[str, Any] = {
            "inputs": inputs,
            "functions": {name: calls.wrap(name, function) for name, function in functions.items()},
            "limits": config.limits,
            "isolation": config.isolation,
            "policy": config.policy,
            "protected": tuple(inputs),
            "helpers": helper_source(),
            "pool": config.pool,
            "kernel_name": config.kernel_name,
            **({"out": OUT} if config.signature.writes_files else {}),
        }
        self._given = frozenset(inputs) | ({OUT} if config.signature.writes_files else set())
        self._kernels = config.kernels
        self._setup_code = config.setup_code
        self._session: AsyncSession | None = None
        self._opening: asyncio.Future[tuple[AsyncSession, tuple[str, ...]]] | None = None
        self._hints: tuple[str, ...] = ()
        self._cells: list[tuple[str, tuple[RecordedCall, ...], bool]] = []
        self._revivals = 0
        self._wrote = False
        self.written: tuple[sandbox.WrittenFile, ...] = ()
        """The files that code wrote, as they were collected last."""

        self.variables: dict[str, Variable] = dict(config.kernels.variables)
        self.changes = VariableChanges()

    async def __aenter__(self) -> ReplSession:
        """Begin to open the session. The model can be asked meanwhile; the first cell waits for it."""
        self._opening = asyncio.ensure_future(self._kernels.open(self._options, self._log))
        await asyncio.sleep(0)  # take a kernel from the pool and send its inputs right now
        return self

    async def __aexit__(self, *error: object) -> None:
        await self.close()

    async def close(self) -> None:
        """Give the kernel back and cancel its host calls. The variables as they were last seen stay."""
        if self._session is None and self._opening is not None:
            self._opening.cancel()
            await asyncio.wait([self._opening])
            if not self._opening.cancelled() and self._opening.exception() is None:
                self._session, _ = self._opening.result()
        if self._session is not None:
            await self.collect()
            await self._kernels.release(self._session)
            await self._log.wait_for_cancelled()  # their events come before the end of the run

    async def collect(self) -> tuple[sandbox.WrittenFile, ...]:
        """Return the files that code has written to its out folder so far."""
        if self._wrote and self._session is not None and self._session.alive:
            with contextlib.suppress(sandbox.SandboxError):
                self.written = await self._session.collect(max_bytes=MAX_WRITTEN)
        return self.written

    async def _opened(self) -> AsyncSession:
        if self._session is None:
            assert self._opening is not None
            self._session, self._hints = await self._opening
            await self._set_up(self._session)
        return self._session

    async def _set_up(self, session: AsyncSession) -> None:
        """Run the code that comes before the first cell. Raise `SetupFailed` if it fails."""
        if not self._setup_code:
            return
        result = await session.run(self._setup_code)
        if result.error is not None:
            raise SetupFailed(f"setup_code failed: {result.error}")

    async def run(
        self, code: str, timeout: float, iteration: int, past: RecordedIteration | None = None
    ) -> tuple[CellResult, tuple[str, ...]]:
        """Run a cell. Return its result, and hints about the kernel. Its host calls are in the call log.

        With `past`, the cell is replayed: host calls that were answered then get the same answers.
        """
        until = time.monotonic() + timeout
        session, hints = await self._live_session(until)
        again = None if past is None else CallReplay(past.calls, live=past.output is None)
        self._log.begin_cell(iteration, again)
        result = await session.run(code, timeout=max(_LEAST_S, until - time.monotonic()), variables=True)
        self._wrote = self._wrote or result.wrote
        if session.alive:
            self._cells.append((code, tuple(self._log.recorded), result.ok))
            self._kernels.add_cell(code, result)
            self._update_variables(result.variables)
        else:
            self.changes = VariableChanges()
            hints += (
                "The kernel ended with this cell. The next cell gets a new one, where all earlier cells ran again.",
            )
        return result, hints

    async def last_variables(self) -> dict[str, Variable]:
        """Return the variables as they are now, with longer values than after a cell; or as they were last seen."""
        if (session := await self._opened()).alive:
            # A thread that a cell left behind may keep the kernel busy: then the last known variables serve.
            with contextlib.suppress(sandbox.SandboxError, TimeoutError):
                async with asyncio.timeout(_SEEN_S):
                    self.variables = {**self.variables, **await session.variables()}
        return self.variables

    def _update_variables(self, now: dict[str, Variable] | None) -> None:
        """Compare the variables with those before the cell."""
        if now is None:
            return  # keep the variables as they were last seen
        before = self.variables
        self.changes = VariableChanges(
            added=tuple(name for name in now if name not in before and name not in self._given),
            changed=tuple(
                name
                for name, variable in now.items()
                if name in before and (variable.changed or variable != before[name])
            ),
            removed=tuple(name for name in before if name not in now),
        )
        self.variables = now

    async def _live_session(self, until: float) -> tuple[AsyncSession, tuple[str, ...]]:
        """Return the session, or a new one in place of a dead one, and hints about that.

        In a new session the recorded cells run again with their recorded answers: no model is asked. That takes time of
        the run.
        """
        session = await self._opened()
        hints, self._hints = self._hints, ()
        if session.alive:
            return session, hints
        if self._revivals >= MAX_REVIVALS:
            raise sandbox.SessionClosed(f"the kernel died {MAX_REVIVALS + 1} times")
        self._revivals += 1
        await session.close()
        self._session, hints = await self._kernels.open(self._options, self._log)
        session = self._session
        await self._set_up(session)
        for code, calls, ended_well in self._cells:
            self._log.begin_cell(self._log.iteration, CallReplay(calls))
            result = await session.run(code, timeout=max(_LEAST_S, until - time.monotonic()))
            if ended_well and not result.ok:
                why = result.error.traceback.rstrip().rpartition("\n")[2] if result.error is not None else result.limit
                return session, (*hints, NOT_AGAIN.format(why=why))
        return session, (*hints, AGAIN)
