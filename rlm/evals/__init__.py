"""Evaluations: suites of tasks with known answers, run against models, scored, logged and compared.

    log = rlm.evaluate("needle", models={"main": "openai/gpt-5-mini"}, lengths=[16_000], count=5)

`run.py` is the interface; `config.py` describes an evaluation, `runner.py` runs its samples, `log.py` reads what they
came to. `docs/evals.md` describes `rlm eval`.
"""

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .compare import Comparison, compare_logs
    from .config import EvalSettings, Evaluation
    from .log import EvalLog, EvalLogError, LogEntry, find_log, read_log
    from .run import evaluate, open_evaluation
    from .runner import EvaluationStopped
    from .sample import Sample
    from .suites import SUITES
    from .summary import EvalSummary, summarize

__all__ = [
    "SUITES",
    "Comparison",
    "EvalLog",
    "EvalLogError",
    "EvalSettings",
    "EvalSummary",
    "Evaluation",
    "EvaluationStopped",
    "LogEntry",
    "Sample",
    "compare_logs",
    "evaluate",
    "find_log",
    "open_evaluation",
    "read_log",
    "summarize",
]

_MODULES = {
    "SUITES": "suites",
    "Comparison": "compare",
    "compare_logs": "compare",
    "EvalLog": "log",
    "EvalLogError": "log",
    "EvalSettings": "config",
    "EvalSummary": "summary",
    "Evaluation": "config",
    "EvaluationStopped": "runner",
    "LogEntry": "log",
    "Sample": "sample",
    "evaluate": "run",
    "find_log": "log",
    "open_evaluation": "run",
    "read_log": "log",
    "summarize": "summary",
}


def __getattr__(name: str) -> Any:
    if name in _MODULES:
        return getattr(importlib.import_module(f".{_MODULES[name]}", __name__), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
