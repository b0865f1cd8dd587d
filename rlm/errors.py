"""Every exception of rlm, to be imported from here or from `rlm`.

    RlmError
    ├── SignatureError            a signature cannot be read
    ├── InvalidValue              values do not fit a signature; `problems` lists everything that is wrong
    │   ├── InvalidInputs         a run cannot start with these inputs
    │   └── InvalidOutputs        a run cannot end with these outputs
    ├── TaskError                 a task cannot be run as it is written; `problems` lists every mistake and its place
    ├── YamlError                 a text is not YAML; with line and column
    ├── RunFailed                 a run ended without outputs; `result` is the `Failed`
    ├── BudgetExceeded            a budget was used up outside of a run's loop; `reason` says which
    ├── ModelError                a model call failed; `kind` says why in one word
    ├── ScriptEnded               a scripted model has no reply left
    ├── LocalModelError           a local model cannot be loaded
    │   ├── MissingExtra          the packages of its backend are not installed
    │   ├── MissingModel          there is no model at the path
    │   ├── DoesNotFit            the weights need more memory than is free
    │   └── UnsupportedConstraint a type cannot be turned into a grammar
    ├── ConstraintViolated        a constrained answer is not what its constraint allows
    ├── WeightsError              files of a model cannot be used
    │   └── NotRunnable           no installed backend runs the model on this machine
    ├── LibraryError              a name in the list of local models is unknown, taken or not allowed
    ├── ExtractionError           a typed value cannot be read out of text
    │   ├── SchemaError           the JSON schema itself cannot be used
    │   ├── ParseError            no acceptable value in a text; `kind` says why
    │   ├── PatchError            a JSON Patch does not apply to the value it was meant for
    │   ├── MaxRetriesExceeded    every attempt was refused; with everything that was tried
    │   └── TwoStepError          the second step of `TwoStepAdapter` failed; `tag` says how
    │       └── TwoStepParseError because of what the extraction model answered: also dspy's `AdapterParseError`
    ├── SessionError              a session of several questions cannot do what it was asked for
    │   ├── SessionInUse          another process, or another object of this one, has it open
    │   └── UnknownSession        no session, or more than one, has an id with this prefix
    ├── NoPlans                   there is no plan to run
    ├── AlreadyAnswered           an operator has answered this escalation before
    ├── NotebookError             a cell that asks (`%%rlm`) cannot be understood, or a variable cannot be sent
    ├── TokenError                a token of `rlm serve` cannot be made, changed or read
    ├── ServerInUse               another `rlm serve` uses the same folder
    ├── JsonLogError              a JSON log cannot be read or written
    ├── UnknownRun                no run, or more than one, has an id with this prefix
    ├── InputNotRecorded          the trace has no more than a description of an input
    ├── NoteRefused               a note or label of a run cannot be written
    ├── MapTooLarge               a map would pass a limit of the run; refused before its first call
    ├── NewerVersion              a trace database was written by a later version of rlm
    ├── PlotsMissing              altair is not installed
    ├── TelemetryMissing          OpenTelemetry is not installed
    ├── McpError                  something went wrong with an MCP server
    │   ├── McpServerError        a server cannot be started or reached, or has ended
    │   ├── McpToolError          a tool reported an error, or its answer is too large
    │   └── NotApproved           a call that may change something was not approved
    ├── ApprovalAlreadyAnswered   somebody has answered this question about calls before
    ├── BatchError                a batch cannot start or continue
    │   ├── BatchInUse            another process runs it
    │   ├── ForeignResultsFile    the results file holds something else
    │   ├── DuplicateNames        two items have the same name
    │   ├── NotWritable           results or ledger cannot be written
    │   │   └── DiskFull          there is no space for them
    │   ├── MachineUnfit          a machine lacks what every item needs
    │   └── ExecutorError         the workers cannot be started
    ├── EvalLogError              an evaluation log cannot be read or continued
    │   └── LogWriteError         it cannot be written, as on a full disk
    ├── SuiteFileError            a file of samples is invalid
    ├── CorpusMissing             a folder does not have the texts that a suite needs
    ├── UnknownProgram            a model called `cli/...` names no known program
    ├── EvaluationStopped         no sample of an evaluation can be run here
    ├── CalibratorError           a file is no calibrator
    ├── OptimizeError             a search for better instructions cannot be made with these settings
    ├── LearnedFileError          a file that `learned:` of a task names cannot be used
    ├── TooFewSamples             there are too few samples to fit or to decide on
    └── NoThreshold               no threshold keeps the error within the limit

Exceptions of the sandbox are in `sandbox.errors`. Every exception can be pickled, and so crosses processes.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .adapters.two_step.errors import TwoStepError, TwoStepParseError
    from .batch.errors import (
        BatchError,
        BatchInUse,
        DiskFull,
        ExecutorError,
        ForeignResultsFile,
        MachineUnfit,
        NotWritable,
    )
    from .batch.ledger import DuplicateNames
    from .budgets.ledger import BudgetExceeded
    from .calibration.io import CalibratorError
    from .calibration.select import TooFewSamples
    from .calibration.threshold import NoThreshold
    from .chat.errors import SessionError, SessionInUse, UnknownSession
    from .evals.log import EvalLogError, LogWriteError
    from .evals.runner import EvaluationStopped
    from .evals.suites.corpora import CorpusMissing
    from .evals.suites.custom import SuiteFileError
    from .extraction.errors import ExtractionError, MaxRetriesExceeded, ParseError, PatchError, SchemaError
    from .mcp.approvals import ApprovalAlreadyAnswered
    from .mcp.errors import McpError, McpServerError, McpToolError, NotApproved
    from .models.client import ModelError
    from .models.command.programs import UnknownProgram
    from .models.local.backend_choice import NotRunnable
    from .models.local.errors import (
        ConstraintViolated,
        DoesNotFit,
        LocalModelError,
        MissingExtra,
        MissingModel,
        UnsupportedConstraint,
    )
    from .models.local.gguf.errors import WeightsError
    from .models.local.registry import LibraryError
    from .models.scripted import ScriptEnded
    from .notebook_magic import NotebookError
    from .optimize.search import OptimizeError
    from .plans.json_log import JsonLogError
    from .plans.operator import AlreadyAnswered
    from .plans.proposals import NoPlans
    from .predict import RunFailed
    from .reading.items import MapTooLarge
    from .repl.learned import LearnedFileError
    from .serve.store import ServerInUse
    from .serve.tokens import TokenError
    from .signatures.parser import SignatureError
    from .signatures.validation import InvalidInputs, InvalidOutputs, InvalidValue
    from .tasks.errors import TaskError
    from .telemetry import TelemetryMissing
    from .traces.encoding import InputNotRecorded
    from .traces.notebook_view.plots import PlotsMissing
    from .traces.notes import NoteRefused
    from .traces.run import UnknownRun
    from .traces.schema import NewerVersion
    from .yaml12 import YamlError

__all__ = [
    "AlreadyAnswered",
    "ApprovalAlreadyAnswered",
    "BatchError",
    "BatchInUse",
    "BudgetExceeded",
    "CalibratorError",
    "ConstraintViolated",
    "CorpusMissing",
    "DiskFull",
    "DoesNotFit",
    "DuplicateNames",
    "EvalLogError",
    "EvaluationStopped",
    "ExecutorError",
    "ExtractionError",
    "ForeignResultsFile",
    "InputNotRecorded",
    "InvalidInputs",
    "InvalidOutputs",
    "InvalidValue",
    "JsonLogError",
    "LearnedFileError",
    "LibraryError",
    "LocalModelError",
    "LogWriteError",
    "MachineUnfit",
    "MapTooLarge",
    "MaxRetriesExceeded",
    "McpError",
    "McpServerError",
    "McpToolError",
    "MissingExtra",
    "MissingModel",
    "ModelError",
    "NewerVersion",
    "NoPlans",
    "NoThreshold",
    "NotApproved",
    "NotRunnable",
    "NotWritable",
    "NoteRefused",
    "NotebookError",
    "OptimizeError",
    "ParseError",
    "PatchError",
    "PlotsMissing",
    "RlmError",
    "RunFailed",
    "SchemaError",
    "ScriptEnded",
    "ServerInUse",
    "SessionError",
    "SessionInUse",
    "SignatureError",
    "SuiteFileError",
    "TaskError",
    "TelemetryMissing",
    "TokenError",
    "TooFewSamples",
    "TwoStepError",
    "TwoStepParseError",
    "UnknownProgram",
    "UnknownRun",
    "UnknownSession",
    "UnsupportedConstraint",
    "WeightsError",
    "YamlError",
]

# Where each is defined. A module is imported when a name is used: `import dspy` takes seconds.
_HOME = {
    "AlreadyAnswered": "plans.operator",
    "ApprovalAlreadyAnswered": "mcp.approvals",
    "BatchError": "batch.errors",
    "BatchInUse": "batch.errors",
    "BudgetExceeded": "budgets.ledger",
    "CalibratorError": "calibration.io",
    "ConstraintViolated": "models.local.errors",
    "DiskFull": "batch.errors",
    "DoesNotFit": "models.local.errors",
    "DuplicateNames": "batch.ledger",
    "EvalLogError": "evals.log",
    "EvaluationStopped": "evals.runner",
    "ExecutorError": "batch.errors",
    "ExtractionError": "extraction.errors",
    "ForeignResultsFile": "batch.errors",
    "InputNotRecorded": "traces.encoding",
    "InvalidInputs": "signatures.validation",
    "InvalidOutputs": "signatures.validation",
    "InvalidValue": "signatures.validation",
    "JsonLogError": "plans.json_log",
    "LearnedFileError": "repl.learned",
    "LibraryError": "models.local.registry",
    "LocalModelError": "models.local.errors",
    "LogWriteError": "evals.log",
    "MachineUnfit": "batch.errors",
    "MapTooLarge": "reading.items",
    "MaxRetriesExceeded": "extraction.errors",
    "McpError": "mcp.errors",
    "McpServerError": "mcp.errors",
    "McpToolError": "mcp.errors",
    "MissingExtra": "models.local.errors",
    "MissingModel": "models.local.errors",
    "ModelError": "models.client",
    "NewerVersion": "traces.schema",
    "NoPlans": "plans.proposals",
    "NoThreshold": "calibration.threshold",
    "NotApproved": "mcp.errors",
    "NotRunnable": "models.local.backend_choice",
    "NotWritable": "batch.errors",
    "NoteRefused": "traces.notes",
    "NotebookError": "notebook_magic",
    "OptimizeError": "optimize.search",
    "ParseError": "extraction.errors",
    "PatchError": "extraction.errors",
    "PlotsMissing": "traces.notebook_view.plots",
    "RunFailed": "predict",
    "SchemaError": "extraction.errors",
    "ScriptEnded": "models.scripted",
    "ServerInUse": "serve.store",
    "SessionError": "chat.errors",
    "SessionInUse": "chat.errors",
    "SignatureError": "signatures.parser",
    "SuiteFileError": "evals.suites.custom",
    "CorpusMissing": "evals.suites.corpora",
    "UnknownProgram": "models.command.programs",
    "TaskError": "tasks.errors",
    "TelemetryMissing": "telemetry",
    "TokenError": "serve.tokens",
    "TooFewSamples": "calibration.select",
    "TwoStepError": "adapters.two_step.errors",
    "TwoStepParseError": "adapters.two_step.errors",
    "UnknownRun": "traces.run",
    "UnknownSession": "chat.errors",
    "UnsupportedConstraint": "models.local.errors",
    "WeightsError": "models.local.gguf.errors",
    "YamlError": "yaml12",
}


class RlmError(Exception):
    """Base of every exception that rlm raises on purpose."""

    def __reduce__(self) -> tuple[Any, ...]:
        # The default calls the class with `args`, which are often not the parameters of its `__init__`.
        return _restore, (type(self), self.args, self.__dict__)


def _restore(kind: type[RlmError], args: tuple[Any, ...], attributes: dict[str, Any]) -> RlmError:
    error = kind.__new__(kind, *args)
    error.__dict__.update(attributes)
    return error


def __getattr__(name: str) -> Any:
    if name in _HOME:
        return getattr(importlib.import_module(f".{_HOME[name]}", __package__), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)
