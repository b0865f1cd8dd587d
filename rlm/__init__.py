"""A runtime for recursive language models."""

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .budgets import FallbackTrigger
    from .interpreter import SandboxInterpreter
    from .predict import Predict, RunFailed
    from .results import Extracted, Failed, Submitted
    from .signatures import Signature

__version__ = "0.1.0"

__all__ = [
    "Extracted",
    "Failed",
    "FallbackTrigger",
    "Predict",
    "RunFailed",
    "SandboxInterpreter",
    "Signature",
    "Submitted",
    "__version__",
]

# Where each public name lives. `import dspy` takes seconds, so nothing is imported before its name is used.
_HOME = {
    "Extracted": "results",
    "Failed": "results",
    "FallbackTrigger": "budgets",
    "Predict": "predict",
    "RunFailed": "predict",
    "SandboxInterpreter": "interpreter",
    "Signature": "signatures",
    "Submitted": "results",
}


def __getattr__(name: str) -> Any:
    if name in _HOME:
        return getattr(importlib.import_module(f".{_HOME[name]}", __name__), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
