"""Language models: calls with retries, rate limits and a cache; local models; models that answer from a script."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .local.lm import OutlinesLM

__all__ = ["OutlinesLM"]


def __getattr__(name: str) -> Any:
    # dspy and Outlines take seconds to import, so nothing here does until it is asked for.
    if name == "OutlinesLM":
        from .local.lm import OutlinesLM

        return OutlinesLM
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
