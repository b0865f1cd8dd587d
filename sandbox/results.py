"""What a session gives back: plain frozen values. Everything in them came out of a kernel: it is data, not truth."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Literal

from .errors import KernelDied, LimitExceeded, ProtocolViolation


@dataclass(frozen=True, slots=True)
class Output:
    """A piece of what a cell printed."""

    stream: Literal["stdout", "stderr"]
    text: str


@dataclass(frozen=True, slots=True)
class CellError:
    """Why a cell failed, in the cell's own lines."""

    name: str
    message: str
    traceback: str
    line: int | None = None

    def __str__(self) -> str:
        return f"{self.name}: {self.message}" if self.message else self.name


@dataclass(frozen=True, slots=True)
class CellResult:
    """Everything that is known about one cell after it ended."""

    outputs: tuple[Output, ...] = ()
    """What was printed, in order, also when the cell failed."""

    value: Any = None
    """The value of the last expression as JSON, where `has_value`: small and plain, as in `Variable`."""

    has_value: bool = False

    value_repr: str | None = None
    """The `repr` of the last expression, if the cell ended with one that is not None."""

    data: dict[str, Any] = field(default_factory=dict)
    """The last expression by MIME type, as in a notebook."""

    error: CellError | None = None
    limit: LimitExceeded | None = None
    """The limit that was reached, if any; `limit.survived` says whether the session goes on."""

    death: KernelDied | ProtocolViolation | None = None
    """Why the kernel is gone, if it went during this cell for another reason than a limit."""

    warnings: tuple[str, ...] = ()
    """What the policy had to say in `warn` mode."""

    seconds: float = 0.0
    """How long the cell took, waiting for the host included."""

    busy_seconds: float = 0.0
    """How long the cell took, waiting for the host not included: what `cell_seconds` limits."""

    calls: int = 0
    """Host calls that the cell made."""

    dropped_bytes: int = 0
    """Output beyond `output_bytes`."""

    stopped: bool = False
    """A host function ended the cell (`StopCell`)."""

    exited: bool = False
    """The cell ended itself with `sys.exit()`."""

    wrote: bool = False
    """Whether there is something in the out folder of the session: `Session.collect()` has it."""

    variables: dict[str, Variable] | None = None
    """The session's variables after the cell, where they were asked for and the kernel could still tell."""

    @property
    def ok(self) -> bool:
        """The cell ran to its end, or was ended by the host, and no error was left."""
        return self.error is None

    @property
    def text(self) -> str:
        """Everything printed, both streams in order."""
        return "".join(output.text for output in self.outputs)

    @property
    def stdout(self) -> str:
        """What was printed to standard output."""
        return "".join(output.text for output in self.outputs if output.stream == "stdout")

    @property
    def stderr(self) -> str:
        """What was printed to standard error."""
        return "".join(output.text for output in self.outputs if output.stream == "stderr")


@dataclass(frozen=True, slots=True)
class Variable:
    """One variable of a session as its kernel describes it, without having run any of the variable's code."""

    name: str
    type: str
    size: int | tuple[int, ...] | None
    preview: str
    value: Any = None
    """The value as JSON, where `has_value`: small and plain."""

    has_value: bool = False

    changed: bool = field(default=False, compare=False)
    """Whether the cell that brought it along has changed what it holds, though nothing else here may show it."""
