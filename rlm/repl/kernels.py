"""Where the kernel of a run comes from: a kernel of its own, or one that it shares with the runs before it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from sandbox import AsyncSession, CellResult, Variable

from .host_calls import CallLog
from .replay import RecordedCall


@dataclass(frozen=True, slots=True)
class EarlierCell:
    """A cell of an earlier run over the same kernel: variables of a run may come from it."""

    code: str
    success: bool
    calls: tuple[RecordedCall, ...] = ()


class KernelSource(Protocol):
    """Opens the sandbox session of a run, and gets it back when the run is done with it."""

    @property
    def variables(self) -> Mapping[str, Variable]:
        """The variables that are there before the first cell, the inputs left out."""

    @property
    def read(self) -> frozenset[str]:
        """The inputs that code of earlier runs has read."""

    @property
    def shown(self) -> frozenset[str]:
        """The inputs that the prompt shows whole, though they are long: what is asked."""

    @property
    def inputs(self) -> Mapping[str, Any]:
        """The inputs that code of earlier runs had, and that the run need not have."""

    @property
    def earlier(self) -> Sequence[EarlierCell]:
        """The cells of earlier runs, in order."""

    @property
    def context(self) -> str | None:
        """A section of the prompt about what was there before the run."""

    async def open(self, options: Mapping[str, Any], calls: CallLog) -> tuple[AsyncSession, tuple[str, ...]]:
        """Return a session that was opened with these options, or has them now, and hints about it for the model."""

    def add_cell(self, code: str, result: CellResult) -> None:
        """Take note of a cell that has ended, and whose kernel lives."""

    async def release(self, session: AsyncSession) -> None:
        """Take the session back. No host call of the run is served any more."""


class OwnKernels:
    """A new kernel for each run, which ends with it."""

    variables: Mapping[str, Variable] = {}
    read: frozenset[str] = frozenset()
    shown: frozenset[str] = frozenset()
    inputs: Mapping[str, Any] = {}
    earlier: Sequence[EarlierCell] = ()
    context: str | None = None

    async def open(self, options: Mapping[str, Any], calls: CallLog) -> tuple[AsyncSession, tuple[str, ...]]:
        """Open a session."""
        return await AsyncSession(**options).__aenter__(), ()

    def add_cell(self, code: str, result: CellResult) -> None:
        """Do nothing: nobody runs the cell again after the run."""

    async def release(self, session: AsyncSession) -> None:
        """End the kernel."""
        await session.close()
