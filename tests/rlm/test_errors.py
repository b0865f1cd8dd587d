"""All exceptions of both packages: they cross processes, and `rlm.errors` names every public one."""

from __future__ import annotations

import copy
import importlib
import inspect
import pickle
import pkgutil
import re
import subprocess
import sys
from functools import cache
from pathlib import Path
from typing import Any

import pytest

import rlm
import sandbox
from rlm import errors
from rlm.budgets import MaxIterations
from rlm.extraction.retry import Attempt, ExtractionMetrics
from rlm.history import REPLHistoryEntry
from rlm.results import Failed
from rlm.signatures import Problem
from rlm.tasks.errors import TaskProblem

# These end inside of the package that raises them, or are what a host function raises in a cell.
INTERNAL = {
    *(
        "ApprovalRefused",
        "AttemptsFailed",
        "BlobNotFound",
        "CheckProblem",
        "CommandFailure",
        "DepthExceeded",
        "EmptyDatabase",
        "EnvironmentProblem",
        "ImportProblem",
    ),
    *("InvalidCompletion", "InvalidResponse", "InvalidSubmission", "NoCandidate", "NoResponse", "NoTarget"),
    "Flooded",
    *(
        "SetupFailed",
        "NotRecorded",
        "OutOfTime",
        "Refused",
        "RequestRefused",
        "SearchStopped",
        "SlotAfterDeadline",
        "StalledReader",
    ),
    *("NotReadable", "UnknownQuestion", "Unreadable", "UnreadableInput"),
}
# Not importable without packages that are optional.
OPTIONAL = ("llama_cpp", "mlx", "opentelemetry", "ray", "torch", "transformers", "xllamacpp")

PROBLEM = Problem("/a", "a string", "1 (an integer)")
ARGUMENTS: dict[str, tuple[tuple[Any, ...], dict[str, Any]]] = {
    "AttemptsFailed": (("rate", "busy", 2.5, 1.0, None), {}),
    "BudgetExceeded": ((MaxIterations(3, 3),), {}),
    "CheckProblem": (("bad", 4), {}),
    "CommandFailure": (("timeout", "no answer"), {}),
    "DuplicateNames": ((1, 2, "a"), {}),
    "InvalidInputs": (("inputs", [PROBLEM]), {}),
    "InvalidOutputs": (("outputs", [PROBLEM]), {}),
    "InvalidValue": (("values", [PROBLEM]), {}),
    "JsonLogError": ((Path("log.json"), "is broken"), {}),
    "MaxRetriesExceeded": (
        (),
        {
            "history": (Attempt(1, "answer", "truncated", "cut"),),
            "raw_output": "answer",
            "best_invalid": {"a": 1},
            "metrics": ExtractionMetrics(attempts=1),
        },
    ),
    "MissingExtra": (("mlx", "no mlx"), {}),
    "ModelError": (("rate", "busy", 2.5), {}),
    "NotRunnable": (("missing", "no backend", "mlx"), {}),
    "SlotAfterDeadline": ((3,), {}),
    "ParseError": (("invalid", "no"), {"best": {"a": 1}, "problems": (PROBLEM,)}),
    "PatchError": ((PROBLEM,), {}),
    "RequestRefused": ((404, "There is no such run.", "not_found"), {"param": "id"}),
    "RunFailed": ((Failed("no answer", {"a": 1}, (REPLHistoryEntry(1, "why", "code", "out", True),)),), {}),
    "SignatureError": (("bad", "a -> b", 3), {}),
    "TaskError": (([TaskProblem("task.yaml:1:2", "bad", (1, 2))],), {}),
    "TwoStepError": (("extraction_lm_not_configured", "why"), {}),
    "TwoStepParseError": (("extraction_parse_failed", "why"), {"lm_response": "hm"}),
    "Unreadable": ((3, "why"), {"unfinished": True}),
    "YamlError": (("bad", 1, 2), {}),
    "_DoesNotApply": (("no", "from"), {}),
}


@cache
def exceptions() -> dict[str, type[BaseException]]:
    """All exception classes of rlm and sandbox, by module and name."""
    found: dict[str, type[BaseException]] = {}
    for package in (rlm, sandbox):
        for module in pkgutil.walk_packages(package.__path__, f"{package.__name__}."):
            if module.name.endswith("__main__"):
                continue
            try:
                members = vars(importlib.import_module(module.name))
            except ImportError as error:
                if not str(error.name).startswith(OPTIONAL):
                    raise
                continue
            found |= {
                f"{kind.__module__}.{kind.__qualname__}": kind
                for kind in members.values()
                if inspect.isclass(kind) and issubclass(kind, BaseException) and kind.__module__ == module.name
            }
    return found


def make(kind: type[BaseException]) -> BaseException:
    """An instance of an exception class, with details where it has some."""
    own = next(one for one in kind.__mro__ if "__init__" in vars(one))
    if kind.__name__ in ARGUMENTS:
        positional, keywords = ARGUMENTS[kind.__name__]
        return kind(*positional, **keywords)
    if issubclass(kind, sandbox.errors.LimitExceeded):
        return kind("reached", survived=True)  # type: ignore[call-arg]
    assert own.__module__.split(".")[0] not in ("rlm", "sandbox") or own.__name__ == "LocalModelError", (
        f"{kind.__name__} has its own __init__: add its arguments to ARGUMENTS"
    )
    return kind("what happened")


def state(error: BaseException) -> tuple[Any, ...]:
    """What can be seen of an exception."""
    return type(error), str(error), error.args, {name: repr(value) for name, value in vars(error).items()}


def test_there_are_exceptions_to_look_at() -> None:
    assert len(exceptions()) > 60
    assert {kind.__name__ for kind in exceptions().values()} >= {*ARGUMENTS}


def test_every_exception_can_be_pickled_and_copied() -> None:
    for name, kind in exceptions().items():
        error = make(kind)
        error.add_note("where it was")
        assert state(pickle.loads(pickle.dumps(error))) == state(error), name
        assert state(copy.copy(error)) == state(error), name


def test_every_public_exception_is_in_one_module_and_in_the_package() -> None:
    public = {
        kind.__name__: kind
        for name, kind in exceptions().items()
        if name.startswith("rlm.") and not kind.__name__.startswith("_") and kind.__name__ not in INTERNAL
    }
    assert sorted(errors.__all__) == sorted(public)
    for name, kind in public.items():
        assert getattr(errors, name) is kind
        assert getattr(rlm, name) is kind
        assert name in rlm.__all__
        assert issubclass(kind, errors.RlmError)
    assert {kind.__name__ for kind in exceptions().values()} >= INTERNAL


def test_the_tree_in_the_docstring_is_the_tree_of_the_classes() -> None:
    assert errors.__doc__ is not None
    drawn, path = {}, ["RlmError"]
    for line in errors.__doc__.splitlines():
        if found := re.match(r"    ([│ ]*)[├└]── (\w+)", line):
            depth = len(found[1]) // 4 + 1
            path[depth:] = [found[2]]
            drawn[found[2]] = path[depth - 1]
    assert sorted([*drawn, "RlmError"]) == sorted(errors.__all__)
    assert {name: base.__name__ for name in drawn for base in getattr(errors, name).__bases__[:1]} == drawn


@pytest.mark.parametrize("statement", ["import rlm.errors", "import rlm; rlm.TaskError; rlm.errors.InvalidInputs"])
def test_naming_an_exception_does_not_import_dspy(statement: str) -> None:
    code = f"import sys; {statement}; sys.exit('dspy' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
