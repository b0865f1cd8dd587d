"""Language models: calls with retries, rate limits and a cache; models of this machine, commands, and scripts."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .command import command_lm
    from .local.lm import OutlinesLM

__all__ = ["OutlinesLM", "command_lm"]


def __getattr__(name: str) -> Any:
    # dspy and Outlines take seconds to import, so nothing here does until it is asked for.
    if name == "OutlinesLM":
        from .local.lm import OutlinesLM

        return OutlinesLM
    if name == "command_lm":
        from .command import command_lm

        return command_lm
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
