"""The exceptions of extraction.

    ExtractionError
    ├── SchemaError              the JSON schema itself cannot be used
    ├── ParseError               no acceptable value in a text; `kind` says why
    ├── PatchError               a JSON Patch does not apply to the value it was meant for
    ├── MaxRetriesExceeded       every attempt was refused; with everything that was tried
    └── TwoStepError             the second step of `rlm.adapters.TwoStepAdapter` failed; its tag says how
        └── TwoStepParseError    because of what the extraction model answered

What is wrong with a value is no exception, but a list of `Problem`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

from ..errors import RlmError

if TYPE_CHECKING:
    from ..signatures import Problem
    from .retry import Attempt, ExtractionMetrics

ParseKind = Literal["no_json", "truncated", "invalid"]


class ExtractionError(RlmError):
    """Base of the exceptions that this package raises on purpose."""


class SchemaError(ExtractionError):
    """The schema is not a JSON schema of draft 2020-12, or refers to something that is not in it."""


class ParseError(ExtractionError):
    """There is no value in the text that the schema accepts.

    `kind` is "no_json" (nothing looks like an answer), "truncated" (the answer stops before its end) or "invalid" (it
    cannot be parsed, or the schema refuses it). `problems` are those of `best`, the value that was parsed; it is empty
    if none was.
    """

    def __init__(
        self, kind: ParseKind, message: str, *, best: Any | None = None, problems: tuple[Problem, ...] = ()
    ) -> None:
        super().__init__(message)
        self.kind: ParseKind = kind
        self.message = message
        self.best = best
        self.problems = problems


class PatchError(ExtractionError):
    """An operation of a JSON Patch does not apply; `problem` has its path."""

    def __init__(self, problem: Problem) -> None:
        super().__init__(str(problem))
        self.problem = problem


class MaxRetriesExceeded(ExtractionError):
    """No attempt gave an acceptable value."""

    def __init__(
        self, *, history: tuple[Attempt, ...], raw_output: str, best_invalid: Any | None, metrics: ExtractionMetrics
    ) -> None:
        last = history[-1].message if history else "nothing was tried"
        super().__init__(f"no valid answer in {metrics.attempts} attempts; the last one failed: {last}")
        self.attempts = metrics.attempts
        self.history = history
        self.raw_output = raw_output
        self.best_invalid = best_invalid
        self.metrics = metrics
