"""Adapters: how a typed question is put to a model, and how its words become typed values again."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .calls import ModelCall, watch_calls
    from .metrics import TierMetrics
    from .outlines import OutlinesAdapter
    from .two_step import TwoStep, TwoStepAdapter, TwoStepError
    from .typed import TypedAnswer, ask_typed

__all__ = [
    "ModelCall",
    "OutlinesAdapter",
    "TierMetrics",
    "TwoStep",
    "TwoStepAdapter",
    "TwoStepError",
    "TypedAnswer",
    "ask_typed",
    "watch_calls",
]

# dspy takes seconds to import, so nothing is imported before its name is used.
_HOME = {
    "ModelCall": "calls",
    "OutlinesAdapter": "outlines",
    "TierMetrics": "metrics",
    "TwoStep": "two_step",
    "TwoStepAdapter": "two_step",
    "TwoStepError": "two_step",
    "TypedAnswer": "typed",
    "ask_typed": "typed",
    "watch_calls": "calls",
}


def __getattr__(name: str) -> Any:
    if name in _HOME:
        return getattr(importlib.import_module(f".{_HOME[name]}", __name__), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
