"""A runtime for recursive language models."""

import importlib
import os
from typing import TYPE_CHECKING, Any

from . import errors

if TYPE_CHECKING:
    from .adapters import OutlinesAdapter, TwoStepAdapter
    from .batch import BatchSummary, open_batch, run_batch
    from .budgets import FallbackTrigger
    from .chat.chat import Chat
    from .chat.settings import SessionSettings
    from .errors import *  # noqa: F403
    from .evals import evaluate
    from .interpreter import SandboxInterpreter
    from .mcp.servers import McpServers
    from .mcp.settings import McpServer
    from .mounts import File, Folder
    from .predict import Predict, SandboxSettings
    from .predict import Predict as RLM
    from .reading import MapPlan
    from .results import Evidence, Extracted, Failed, FailureCause, Submitted
    from .run import Run
    from .runner import arun_task, run_task
    from .settings import configure
    from .shapes import describe
    from .signatures import Signature
    from .signatures.cited import Cited
    from .tasks import load as load_task

# The package `rlms` installs a package `rlm`, too, in the same folder: whichever comes later overwrites the other.
if os.path.exists(os.path.join(os.path.dirname(__file__), "core", "rlm.py")):
    raise ImportError(
        "the packages rlm-kernel and rlms are installed in one environment, and both provide `rlm`, in the same folder."
        " Install one in an environment of its own: pip uninstall rlms; pip install --force-reinstall rlm-kernel"
    )

__version__ = "0.2.0"

__all__ = [
    "RLM",
    "BatchSummary",
    "Chat",
    "Cited",
    "Evidence",
    "Extracted",
    "Failed",
    "FailureCause",
    "FallbackTrigger",
    "File",
    "Folder",
    "MapPlan",
    "McpServer",
    "McpServers",
    "OutlinesAdapter",
    "Predict",
    "Run",
    "SandboxInterpreter",
    "SandboxSettings",
    "SessionSettings",
    "Signature",
    "Submitted",
    "TwoStepAdapter",
    "__version__",
    "arun_task",
    "configure",
    "describe",
    "evaluate",
    "load_task",
    "open_batch",
    "run_batch",
    "run_task",
]
__all__ += errors.__all__

# Where each public name lives. `import dspy` takes seconds, so nothing is imported before its name is used.
_MODULES = {
    "RLM": "predict:Predict",
    "BatchSummary": "batch.summary",
    "Chat": "chat.chat",
    "Cited": "signatures.cited",
    "Evidence": "results",
    "Extracted": "results",
    "Failed": "results",
    "FailureCause": "results",
    "FallbackTrigger": "budgets",
    "File": "mounts",
    "Folder": "mounts",
    "MapPlan": "reading",
    "McpServer": "mcp.settings",
    "McpServers": "mcp.servers",
    "OutlinesAdapter": "adapters",
    "Predict": "predict",
    "Run": "run",
    "SandboxInterpreter": "interpreter",
    "SandboxSettings": "predict",
    "SessionSettings": "chat.settings",
    "Signature": "signatures",
    "Submitted": "results",
    "TwoStepAdapter": "adapters",
    "arun_task": "runner",
    "configure": "settings",
    "describe": "shapes",
    "evaluate": "evals.run",
    "load_ipython_extension": "notebook_magic",
    "load_task": "tasks:load",
    "open_batch": "batch.run",
    "run_batch": "batch.run",
    "run_task": "runner",
}
_PACKAGES = (
    "adapters",
    "batch",
    "calibration",
    "evals",
    "events",
    "extraction",
    "feedback",
    "mcp",
    "models",
    "plans",
    "reading",
    "settings",
    "shapes",
    "telemetry",
    "traces",
)


def __getattr__(name: str) -> Any:
    if name in _MODULES:
        module, _, attribute = _MODULES[name].partition(":")
        return getattr(importlib.import_module(f".{module}", __name__), attribute or name)
    if name in errors.__all__:
        return getattr(errors, name)
    if name in _PACKAGES:
        return importlib.import_module(f".{name}", __name__)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
