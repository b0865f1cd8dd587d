"""Adapters: prompts for typed questions, and parsers for the answers."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .call_log import ModelCall, watch_calls
    from .metrics import TierMetrics
    from .outlines_adapter import OutlinesAdapter
    from .two_step.adapter import TwoStep, TwoStepAdapter, TwoStepError, TwoStepParseError
    from .typed_query import TypedAnswer, ask_typed

__all__ = [
    "ModelCall",
    "OutlinesAdapter",
    "TierMetrics",
    "TwoStep",
    "TwoStepAdapter",
    "TwoStepError",
    "TwoStepParseError",
    "TypedAnswer",
    "ask_typed",
    "watch_calls",
]

# dspy takes seconds to import, so nothing is imported before its name is used.
_MODULES = {
    "ModelCall": "call_log",
    "OutlinesAdapter": "outlines_adapter",
    "TierMetrics": "metrics",
    "TwoStep": "two_step.adapter",
    "TwoStepAdapter": "two_step.adapter",
    "TwoStepError": "two_step.errors",
    "TwoStepParseError": "two_step.errors",
    "TypedAnswer": "typed_query",
    "ask_typed": "typed_query",
    "watch_calls": "call_log",
}


def __getattr__(name: str) -> Any:
    if name in _MODULES:
        return getattr(importlib.import_module(f".{_MODULES[name]}", __name__), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
