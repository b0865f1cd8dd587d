"""The retry loop: ask, parse, validate, and ask again with feedback, for a bounded number of attempts.

It works with any asynchronous function from a prompt to a text. The prompt of each attempt begins with the whole prompt
of the one before, so that prompt caches hit. There is no delay between attempts: nothing has to recover.
"""

from __future__ import annotations

import inspect
import json
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal, TypeVar, cast

from ..json_values import locate, pointer
from ..signatures import Problem
from ..signatures.validation import runaway_problems
from . import feedback
from .errors import MaxRetriesExceeded, ParseError, PatchError
from .parsing.find_answer import parse
from .schema import Schema

DEFAULT_ATTEMPTS = 3

T = TypeVar("T")
Rejection = str | Sequence[Problem | str] | None
Callback = Callable[[Any], Rejection | Awaitable[Rejection]]
Failure = Literal["", "parse", "patch", "schema", "callback"]


@dataclass(frozen=True, slots=True)
class Reply:
    """The answer of a model, with more than its text."""

    text: str
    truncated: bool = False
    tokens_in: int | None = None
    tokens_out: int | None = None


AgentFn = Callable[[str], Awaitable[str | Reply]]


@dataclass(frozen=True, slots=True)
class ExtractionMetrics:
    """What an extraction used, successful or not. Tokens are estimated if the model does not report them."""

    attempts: int = 0
    seconds: float = 0.0
    tokens_in: int = 0
    tokens_out: int = 0
    parse_failures: int = 0
    schema_failures: int = 0
    callback_failures: int = 0
    truncations: int = 0
    patches_applied: int = 0


@dataclass(frozen=True, slots=True)
class Attempt:
    """One attempt: the answer, its value or failure, and the feedback to the model."""

    number: int
    raw_output: str
    failure: Failure = ""
    message: str = ""
    value: Any = None
    problems: tuple[Problem, ...] = ()
    truncated: bool = False
    patched: bool = False
    feedback: str = ""


class ExtractionOrchestrator:
    """Asks a model until its answer has a value that a schema accepts. Immutable; the fluent methods return a copy.

    `callback` is called with every value that the schema accepts. It returns None to accept the value, or what is
    wrong: a sentence or problems; it may also raise `ValueError`.
    """

    def __init__(
        self,
        schema: Schema | Mapping[str, Any] | bool,
        *,
        max_attempts: int = DEFAULT_ATTEMPTS,
        callback: Callback | None = None,
    ) -> None:
        if max_attempts < 1:
            raise ValueError(f"max_attempts must be at least 1, not {max_attempts}")
        self.schema = Schema.of(schema)
        self._max_attempts = max_attempts
        self._callback = callback

    @classmethod
    def for_type(cls, kind: Any) -> ExtractionOrchestrator:
        """Return an orchestrator for a type that pydantic knows, with its JSON schema."""
        from pydantic import TypeAdapter

        return cls(TypeAdapter(kind).json_schema())

    def max_attempts(self, attempts: int) -> ExtractionOrchestrator:
        """Return a copy with another number of attempts."""
        return ExtractionOrchestrator(self.schema, max_attempts=attempts, callback=self._callback)

    def checked_by(self, callback: Callback | None) -> ExtractionOrchestrator:
        """Return a copy with another callback."""
        return ExtractionOrchestrator(self.schema, max_attempts=self._max_attempts, callback=callback)

    async def extract(
        self, agent_fn: AgentFn, prompt: str, *, on_attempt: Callable[[Attempt, str], None] | None = None
    ) -> tuple[Any, ExtractionMetrics]:
        """Return the first acceptable value, and what it took. Raise `MaxRetriesExceeded` after the last attempt.

        Exceptions of `agent_fn` pass. `on_attempt` is called with each attempt, accepted or not, and its prompt.
        """
        started, metrics = time.monotonic(), ExtractionMetrics()
        history: list[Attempt] = []
        base: Attempt | None = None  # the last value that was parsed and refused: a patch applies to it
        shown, question = self.schema.text in prompt, prompt
        for number in range(1, self._max_attempts + 1):
            answer = await agent_fn(prompt)
            if not isinstance(answer, str | Reply):
                raise TypeError(f"agent_fn must return a str or a Reply, not {type(answer).__name__}")
            reply = answer if isinstance(answer, Reply) else Reply(answer)
            attempt = await self._judge(number, reply, base, question)
            if on_attempt is not None:
                on_attempt(attempt, prompt)
            metrics = replace(_count(metrics, prompt, reply, attempt), seconds=time.monotonic() - started)
            if not attempt.failure:
                return attempt.value, metrics
            if attempt.failure in ("schema", "callback") and self.schema.takes_type_of(attempt.value):
                base = attempt
            if number < self._max_attempts:
                attempt = replace(attempt, feedback=self._feedback(attempt, base, whole_schema=not shown))
                prompt, shown = prompt + attempt.feedback, True
            history.append(attempt)
        raise MaxRetriesExceeded(
            history=tuple(history), raw_output=history[-1].raw_output, best_invalid=_best(history), metrics=metrics
        )

    async def extract_typed(self, kind: type[T], agent_fn: AgentFn, prompt: str) -> tuple[T, ExtractionMetrics]:
        """Do the same as `extract`, with the value as a `kind`; refusals of the type's validators are retried, too."""
        from pydantic import TypeAdapter, ValidationError

        adapter = TypeAdapter(kind)
        typed: list[T] = []

        async def check(value: Any) -> Rejection:
            try:
                typed[:] = [adapter.validate_json(json.dumps(value))]
            except ValidationError as error:
                return [_from_pydantic(cast(Mapping[str, Any], fault), value) for fault in error.errors()]
            return await _call(self._callback, value)

        _, metrics = await self.checked_by(check).extract(agent_fn, prompt)
        return typed[0], metrics

    async def _judge(self, number: int, reply: Reply, base: Attempt | None, question: str) -> Attempt:
        """Parse and validate an answer. A long number that is in the question was copied from it."""
        attempt = Attempt(number, reply.text, truncated=reply.truncated)
        try:
            value, patched = self._read(reply, base)
        except PatchError as error:
            message = "the patch does not apply, so the value is as it was before"
            remaining = base.problems if base else ()
            return replace(attempt, failure="patch", message=message, problems=(error.problem, *remaining))
        except ParseError as error:
            return replace(
                attempt,
                failure="schema" if error.problems and error.kind == "invalid" else "parse",
                message=error.message,
                value=error.best,
                problems=error.problems,
                truncated=error.kind == "truncated",
            )
        attempt = replace(attempt, value=value, patched=patched)
        if problems := self.schema.problems(value):
            message = "after the patch the value still does not fit the schema"
            return replace(attempt, failure="schema", message=message, problems=problems)
        if problems := runaway_problems(value, known=question):
            message = "the digits of a number repeat up to its end"
            return replace(attempt, failure="schema", message=message, problems=problems)
        rejection = await _call(self._callback, value)
        if not rejection:
            return attempt
        reasons = [rejection] if isinstance(rejection, str) else rejection
        problems = tuple(reason if isinstance(reason, Problem) else Problem("", message=reason) for reason in reasons)
        message = "the value fits the schema but was rejected by a further check"
        return replace(attempt, failure="callback", message=message, problems=problems)

    def _read(self, reply: Reply, base: Attempt | None) -> tuple[Any, bool]:
        """Return the value of an answer, and whether the answer is a patch of the last one."""
        try:
            value = parse(reply.text, self.schema, truncated=reply.truncated)
        except ParseError as error:
            from .parsing import json_patch

            whole = error.best is not None and not json_patch.is_patch(error.best)
            patch = None if base is None or whole or error.kind == "truncated" else json_patch.find(reply.text)
            if patch is None:
                raise
        else:
            # A list of operations can be a valid value; after a patch was asked for, it is a patch.
            if base is None or not isinstance(value, list):
                return value, False
            from .parsing import json_patch

            if not json_patch.is_patch(value):
                return value, False
            patch = value
        assert base is not None
        return json_patch.apply(base.value, patch), True

    def _feedback(self, attempt: Attempt, base: Attempt | None, *, whole_schema: bool) -> str:
        """Return what to append to the prompt. A patch is asked for only of a value that the feedback shows."""
        shown = base if attempt is base or attempt.failure == "patch" else None
        return feedback.retry(
            self.schema,
            submission=attempt.raw_output if shown is None else feedback.as_text(shown.value),
            problems=attempt.problems,
            fault=attempt.message,
            attempt=attempt.number,
            max_attempts=self._max_attempts,
            whole_schema=whole_schema,
            patchable=shown is not None and isinstance(shown.value, dict | list),
            truncated=attempt.truncated,
        )


async def _call(callback: Callback | None, value: Any) -> Rejection:
    if callback is None:
        return None
    try:
        answer = callback(value)
        rejection = await answer if inspect.isawaitable(answer) else answer
    except ValueError as error:
        return str(error) or type(error).__name__
    if isinstance(rejection, bool):  # ambiguous
        raise TypeError(f"a callback must return None to accept a value, or what is wrong with it; not {rejection}")
    return rejection


def _count(metrics: ExtractionMetrics, prompt: str, reply: Reply, attempt: Attempt) -> ExtractionMetrics:
    return replace(
        metrics,
        attempts=attempt.number,
        tokens_in=metrics.tokens_in + (_estimate(prompt) if reply.tokens_in is None else reply.tokens_in),
        tokens_out=metrics.tokens_out + (_estimate(reply.text) if reply.tokens_out is None else reply.tokens_out),
        parse_failures=metrics.parse_failures + (attempt.failure in ("parse", "patch")),
        schema_failures=metrics.schema_failures + (attempt.failure == "schema"),
        callback_failures=metrics.callback_failures + (attempt.failure == "callback"),
        truncations=metrics.truncations + attempt.truncated,
        patches_applied=metrics.patches_applied + attempt.patched,
    )


def _estimate(text: str) -> int:
    """Return an estimate: four characters a token."""
    return (len(text) + 3) // 4


def _best(history: Sequence[Attempt]) -> Any | None:
    """Return the best value: one that only the callback refused, else with the fewest problems, then the latest."""
    parsed = [attempt for attempt in history if attempt.value is not None]
    if not parsed:
        return None
    return min(parsed, key=lambda a: (a.failure != "callback", a.truncated, len(a.problems), -a.number)).value


def _from_pydantic(fault: Mapping[str, Any], value: Any) -> Problem:
    return Problem(pointer(locate(value, fault["loc"])[0]), message=str(fault["msg"]))
