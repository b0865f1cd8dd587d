"""A runtime for recursive language models."""

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .adapters import OutlinesAdapter, TwoStepAdapter
    from .budgets import FallbackTrigger
    from .interpreter import SandboxInterpreter
    from .predict import Predict, RunFailed
    from .results import Extracted, Failed, Submitted
    from .settings import configure
    from .signatures import Signature

__version__ = "0.1.0"

__all__ = [
    "Extracted",
    "Failed",
    "FallbackTrigger",
    "OutlinesAdapter",
    "Predict",
    "RunFailed",
    "SandboxInterpreter",
    "Signature",
    "Submitted",
    "TwoStepAdapter",
    "__version__",
    "configure",
]

# Where each public name lives. `import dspy` takes seconds, so nothing is imported before its name is used.
_HOME = {
    "Extracted": "results",
    "Failed": "results",
    "FallbackTrigger": "budgets",
    "OutlinesAdapter": "adapters",
    "Predict": "predict",
    "RunFailed": "predict",
    "SandboxInterpreter": "interpreter",
    "Signature": "signatures",
    "Submitted": "results",
    "TwoStepAdapter": "adapters",
    "configure": "settings",
}
_PACKAGES = ("adapters", "calibration", "extraction", "models", "plans", "settings", "telemetry", "traces")


def __getattr__(name: str) -> Any:
    if name in _HOME:
        return getattr(importlib.import_module(f".{_HOME[name]}", __name__), name)
    if name in _PACKAGES:
        return importlib.import_module(f".{name}", __name__)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
