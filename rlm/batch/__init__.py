"""Batches: many tasks, run by processes or a Ray cluster, with a ledger so that the same call continues a batch.

    summary = rlm.run_batch("task.yaml", "rows.csv", workers=4)

`run.py` is the interface; `driver.py` connects the source of items (`source.py`) with an executor (`executors/`), the
ledger and the results file. `docs/scale.md` describes `rlm batch` and what it guarantees.
"""

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .errors import BatchError
    from .item import Item, Outcome
    from .run import BatchRun, open_batch, run_batch
    from .summary import BatchSummary

__all__ = ["BatchError", "BatchRun", "BatchSummary", "Item", "Outcome", "open_batch", "run_batch"]

_MODULES = {
    "BatchError": "errors",
    "BatchRun": "run",
    "BatchSummary": "summary",
    "Item": "item",
    "Outcome": "item",
    "open_batch": "run",
    "run_batch": "run",
}


def __getattr__(name: str) -> Any:
    # Workers import parts of this package; what they do not need is not imported.
    if name in _MODULES:
        return getattr(importlib.import_module(f".{_MODULES[name]}", __name__), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
