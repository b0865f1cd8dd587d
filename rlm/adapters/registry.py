"""Adapters by the names that a task file gives them."""

from __future__ import annotations

from typing import Any

NAMES = ("chat", "json", "outlines", "two-step")


def adapter_named(name: str, extraction_lm: Any = None) -> Any:
    """A new adapter; `extraction_lm` is for the second step of `two-step`. Raises `ValueError` for another name."""
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
