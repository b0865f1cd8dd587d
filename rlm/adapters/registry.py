"""Adapters by the names of task files, and the properties of an adapter that its callers have to know."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

NAMES = ("chat", "json", "outlines", "two-step")


@dataclass(frozen=True, slots=True)
class AdapterProfile:
    """The properties of an adapter, which carries them as its attribute `profile`."""

    records_calls: bool = False
    """Whether it records its calls itself and announces them to watchers."""

    free_text: bool = False
    """Whether the model answers in its own words. A thought and a code block are such words already."""


_DEFAULT = AdapterProfile()


def profile_of_adapter(adapter: Any) -> AdapterProfile:
    """Return the properties of an adapter; the default for one that carries none."""
    profile = getattr(adapter, "profile", None)
    return profile if isinstance(profile, AdapterProfile) else _DEFAULT


def adapter_named(name: str, extraction_lm: Any = None) -> Any:
    """Return a new adapter; `extraction_lm` is for the second step of `two-step`. Raises `ValueError`."""
    if name == "outlines":
        from .outlines_adapter import OutlinesAdapter

        return OutlinesAdapter()
    if name == "two-step":
        from .two_step.adapter import TwoStepAdapter

        return TwoStepAdapter(extraction_lm)
    if name not in NAMES:
        raise ValueError(f"no adapter is called {name!r}; choose one of {', '.join(NAMES)}")
    from dspy.adapters.chat_adapter import ChatAdapter
    from dspy.adapters.json_adapter import JSONAdapter

    return ChatAdapter() if name == "chat" else JSONAdapter()
