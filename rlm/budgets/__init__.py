"""Budgets: limits, the reasons for a fallback, and the ledger that counts what a tree of runs uses."""

from .budget import (
    ExecutionState,
    FallbackReason,
    FallbackTrigger,
    MaxConsecutiveErrors,
    MaxCost,
    MaxIterations,
    MaxLLMCalls,
    MaxTokens,
    Timeout,
)
from .ledger import BudgetExceeded, Ledger, Remaining, Usage

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
