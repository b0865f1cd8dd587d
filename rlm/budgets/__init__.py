"""Budgets: limits, why a run fell back, and the ledger that counts what a tree of runs uses."""

from .ledger import BudgetExceeded, Ledger, Remaining, Usage
from .reasons import (
    FallbackReason,
    MaxConsecutiveErrors,
    MaxCost,
    MaxIterations,
    MaxLLMCalls,
    MaxTokens,
    Timeout,
)
from .trigger import ExecutionState, FallbackTrigger

__all__ = [
    "BudgetExceeded",
    "ExecutionState",
    "FallbackReason",
    "FallbackTrigger",
    "Ledger",
    "MaxConsecutiveErrors",
    "MaxCost",
    "MaxIterations",
    "MaxLLMCalls",
    "MaxTokens",
    "Remaining",
    "Timeout",
    "Usage",
]
