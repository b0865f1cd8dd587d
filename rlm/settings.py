"""Process-wide settings: `rlm.configure(...)`. Plain values; no model is imported here."""

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
    """The settings in effect."""

    two_step_extraction_lm: Any = None
    """The model that extracts typed values from the text of the main model."""

    two_step_extraction_adapter: Any = None
    """The dspy adapter of the extraction model; None is dspy's JSONAdapter."""

    two_step_extraction_request_defaults: Mapping[str, Any] = field(
        default_factory=lambda: MappingProxyType({"temperature": 0})
    )
    """Options of each request to the extraction model."""


_NAMES = frozenset(field.name for field in dataclasses.fields(Settings))
_lock = threading.Lock()
_configured = Settings()
_overrides: contextvars.ContextVar[Mapping[str, Any]] = contextvars.ContextVar(
    "rlm_settings", default=MappingProxyType({})
)


def configure(**values: Any) -> None:
    """Set settings for the whole process, all threads included. Others keep their values."""
    global _configured
    _check(values)
    with _lock:
        _configured = dataclasses.replace(_configured, **values)


@contextlib.contextmanager
def context(**values: Any) -> Iterator[None]:
    """Set settings within a block: for one run, one task."""
    _check(values)
    token = _overrides.set({**_overrides.get(), **values})
    try:
        yield
    finally:
        _overrides.reset(token)


def current() -> Settings:
    """Return the settings in effect here: those of the innermost block come first."""
    return dataclasses.replace(_configured, **_overrides.get())


def reset() -> None:
    """Restore the defaults."""
    global _configured
    with _lock:
        _configured = Settings()


def _check(values: Mapping[str, Any]) -> None:
    unknown = sorted(set(values) - _NAMES)
    if unknown:
        raise TypeError(f"there is no setting {', '.join(unknown)}; the settings are {', '.join(sorted(_NAMES))}")
