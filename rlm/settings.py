"""What is configured once for the process: `rlm.configure(...)`. Plain values; nothing here imports a model."""

from __future__ import annotations

import contextlib
import contextvars
import dataclasses
import threading
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any


@dataclass(frozen=True, slots=True)
class Settings:
    """The settings that hold now."""

    two_step_extraction_lm: Any = None
    """The model that makes typed values out of the main model's words."""

    two_step_extraction_adapter: Any = None
    """The dspy adapter of that model; None is dspy's JSONAdapter."""

    two_step_extraction_request_defaults: Mapping[str, Any] = field(
        default_factory=lambda: MappingProxyType({"temperature": 0})
    )
    """What each request to that model is made with."""


_NAMES = frozenset(one.name for one in dataclasses.fields(Settings))
_lock = threading.Lock()
_configured = Settings()
_here: contextvars.ContextVar[Mapping[str, Any]] = contextvars.ContextVar("rlm_settings", default=MappingProxyType({}))


def configure(**values: Any) -> None:
    """Set something for the whole process, all threads included. What is not named stays as it is."""
    global _configured
    _check(values)
    with _lock:
        _configured = dataclasses.replace(_configured, **values)


@contextlib.contextmanager
def context(**values: Any) -> Iterator[None]:
    """Set something for what is called inside the block, and for nothing else: one run, one task."""
    _check(values)
    token = _here.set({**_here.get(), **values})
    try:
        yield
    finally:
        _here.reset(token)


def current() -> Settings:
    """The settings that hold here: the block's before the process's."""
    return dataclasses.replace(_configured, **_here.get())


def reset() -> None:
    """Forget everything that was configured."""
    global _configured
    with _lock:
        _configured = Settings()


def _check(values: Mapping[str, Any]) -> None:
    unknown = sorted(set(values) - _NAMES)
    if unknown:
        raise TypeError(f"there is no setting {', '.join(unknown)}; there are: {', '.join(sorted(_NAMES))}")
