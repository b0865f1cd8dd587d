"""Runs Python code that nobody has read: in a kernel of its own, confined by the operating system.

    from sandbox import Session

    with Session(inputs={"text": long_text}, functions={"ask": ask}) as session:
        result = session.run("print(len(text)); ask(text[:100])")

This package knows nothing of language models.
"""

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .async_session import AsyncSession
    from .collect import WrittenFile
    from .data import Blob, Text
    from .errors import (
        CellTimeLimit,
        FileLimit,
        HostCallLimit,
        InputError,
        IsolationUnavailable,
        KernelDied,
        KernelStartError,
        LimitExceeded,
        MemoryLimit,
        OutputLimit,
        ProcessLimit,
        ProtocolViolation,
        SandboxError,
        SessionClosed,
        SessionTimeLimit,
    )
    from .host_calls import StopCell, describe, described, quick, with_types
    from .limits import Limits
    from .mounts import File, Folder
    from .pool import Pool, default_pool
    from .results import CellError, CellResult, Output, Variable
    from .session import Session

# Where each public name lives. Modules are imported when a name is first used: the fork server and the kernel import
# this package too, and should not carry the host's half in their memory.
_HOMES = {
    "async_session": ("AsyncSession",),
    "host_calls": ("StopCell", "describe", "described", "quick", "with_types"),
    "collect": ("WrittenFile",),
    "data": ("Blob", "Text"),
    "errors": (
        "CellTimeLimit",
        "FileLimit",
        "HostCallLimit",
        "InputError",
        "IsolationUnavailable",
        "KernelDied",
        "KernelStartError",
        "LimitExceeded",
        "MemoryLimit",
        "OutputLimit",
        "ProcessLimit",
        "ProtocolViolation",
        "SandboxError",
        "SessionClosed",
        "SessionTimeLimit",
    ),
    "limits": ("Limits",),
    "mounts": ("File", "Folder"),
    "pool": ("Pool", "default_pool"),
    "results": ("CellError", "CellResult", "Output", "Variable"),
    "session": ("Session",),
}
_HOME = {name: module for module, names in _HOMES.items() for name in names}

__all__ = [
    "AsyncSession",
    "Blob",
    "CellError",
    "CellResult",
    "CellTimeLimit",
    "File",
    "FileLimit",
    "Folder",
    "HostCallLimit",
    "InputError",
    "IsolationUnavailable",
    "KernelDied",
    "KernelStartError",
    "LimitExceeded",
    "Limits",
    "MemoryLimit",
    "Output",
    "OutputLimit",
    "Pool",
    "ProcessLimit",
    "ProtocolViolation",
    "SandboxError",
    "Session",
    "SessionClosed",
    "SessionTimeLimit",
    "StopCell",
    "Text",
    "Variable",
    "WrittenFile",
    "default_pool",
    "describe",
    "described",
    "quick",
    "with_types",
]


def __getattr__(name: str) -> Any:
    if name in _HOME:
        return getattr(importlib.import_module(f".{_HOME[name]}", __name__), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return __all__
