"""Every way the sandbox can fail, in one place.

    SandboxError
    ├── IsolationUnavailable     this machine offers no boundary, and none was waived
    ├── KernelStartError         a kernel did not come up
    ├── SessionClosed            the session was closed, or its kernel is gone
    ├── KernelDied               the kernel process ended by itself in the middle of a cell
    ├── ProtocolViolation        the kernel sent something that no honest kernel sends; it was killed
    ├── InputError               an input cannot be given to a kernel
    └── LimitExceeded            a limit was reached; `survived` says whether the session goes on
        ├── CellTimeLimit
        ├── SessionTimeLimit
        ├── MemoryLimit
        ├── OutputLimit
        ├── FileLimit
        ├── ProcessLimit
        └── HostCallLimit

A cell's own exceptions are not here: they are data, a `CellError` in its `CellResult`. Limits are values too: a
`CellResult` carries the one that was reached.
"""

from __future__ import annotations

from typing import Any


class SandboxError(Exception):
    """Base of everything that this package raises on purpose."""

    def __reduce__(self) -> tuple[Any, ...]:
        # The default calls the class with `args`, which are often not the parameters of its `__init__`.
        return _restore, (type(self), self.args, self.__dict__)


def _restore(kind: type[SandboxError], args: tuple[Any, ...], attributes: dict[str, Any]) -> SandboxError:
    error = kind.__new__(kind, *args)
    error.__dict__.update(attributes)
    return error


class IsolationUnavailable(SandboxError):
    """No isolation mechanism works here and the caller did not ask for `isolation="none"` by name."""


class KernelStartError(SandboxError):
    """A kernel did not start; the message carries what it said."""


class SessionClosed(SandboxError):
    """The session has no kernel any more; open another one."""


class KernelDied(SandboxError):
    """The kernel process ended while it ran a cell."""


class ProtocolViolation(SandboxError):
    """The kernel sent a malformed, forged or oversized message. It has been killed."""


class InputError(SandboxError):
    """An input is not JSON, text or bytes, or its name is not one that code can use."""


class LimitExceeded(SandboxError):
    """A limit was reached. `survived` says whether the session can go on."""

    def __init__(self, message: str, *, survived: bool) -> None:
        super().__init__(message)
        self.survived = survived


class CellTimeLimit(LimitExceeded):
    """A cell ran longer than `Limits.cell_seconds`."""


class SessionTimeLimit(LimitExceeded):
    """The session is older than `Limits.session_seconds`."""


class MemoryLimit(LimitExceeded):
    """The session asked for more than `Limits.memory_bytes`."""


class OutputLimit(LimitExceeded):
    """A cell printed more than `Limits.output_bytes`; what came later was dropped."""


class FileLimit(LimitExceeded):
    """The scratch directory is full: `Limits.file_bytes` or `Limits.file_count`."""


class ProcessLimit(LimitExceeded):
    """The session has `Limits.processes` processes and threads already."""


class HostCallLimit(LimitExceeded):
    """The session has made `Limits.host_calls` calls to the host."""
