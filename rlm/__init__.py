"""A runtime for recursive language models."""

import importlib
from typing import TYPE_CHECKING, Any

from . import errors

if TYPE_CHECKING:
    from .adapters import OutlinesAdapter, TwoStepAdapter
    from .batch import BatchSummary, open_batch, run_batch
    from .budgets import FallbackTrigger
    from .errors import *  # noqa: F403
    from .interpreter import SandboxInterpreter
    from .predict import Predict
    from .results import Extracted, Failed, Submitted
    from .settings import configure
    from .signatures import Signature

__version__ = "0.1.0"

__all__ = [
    "BatchSummary",
    "Extracted",
    "Failed",
    "FallbackTrigger",
    "OutlinesAdapter",
    "Predict",
    "SandboxInterpreter",
    "Signature",
    "Submitted",
    "TwoStepAdapter",
    "__version__",
    "configure",
    "open_batch",
    "run_batch",
]
__all__ += errors.__all__

# Where each public name lives. `import dspy` takes seconds, so nothing is imported before its name is used.
_HOME = {
    "BatchSummary": "batch.summary",
    "open_batch": "batch.run",
    "run_batch": "batch.run",
    "Extracted": "results",
    "Failed": "results",
    "FallbackTrigger": "budgets",
    "OutlinesAdapter": "adapters",
    "Predict": "predict",
    "SandboxInterpreter": "interpreter",
    "Signature": "signatures",
    "Submitted": "results",
    "TwoStepAdapter": "adapters",
    "configure": "settings",
}
_PACKAGES = ("adapters", "batch", "calibration", "extraction", "models", "plans", "settings", "telemetry", "traces")


def __getattr__(name: str) -> Any:
    if name in _HOME:
        return getattr(importlib.import_module(f".{_HOME[name]}", __name__), name)
    if name in errors.__all__:
        return getattr(errors, name)
    if name in _PACKAGES:
        return importlib.import_module(f".{name}", __name__)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
