"""Typed answers: the order of attempts for every answer of a type, and `ask_typed`, which asks one question directly.

`llm_query(..., type=...)` calls `ask_typed`, which is made for thousands of calls. `OutlinesAdapter` asks through dspy,
and follows the same order in its third tier.
"""

from __future__ import annotations

import functools
import json
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any, Generic, Literal, TypeVar, get_args

from ..extraction import ExtractionError, ParseError, Reply
from ..extraction.retry import DEFAULT_ATTEMPTS
from ..models.client import Answer
from ..models.profile import name_of, profile_of
from .call_log import Recording, call_adapter, call_constrained, call_model
from .metrics import TierMetrics, metrics_of
from .output_spec import Target, describe_type, target_of
from .repair_loop import repair
from .structured_output import Way, by_server
from .tiers import constraint_of

T = TypeVar("T")
CUT_OFF = "the answer was cut off at the limit of its length; raise max_tokens"


class TypedQuestion(ABC, Generic[T]):
    """A question with an answer of a fixed type, and the order in which ways to get it are tried.

    A model that can be constrained is; one that then repeats itself to its token limit is asked once more, with shorter
    lists and texts. Any other model is asked for structured output, and in words where its server has none.
    """

    lm: Any
    target: Target
    record: Recording
    """The calls made so far."""

    @property
    def emitted(self) -> bool:
        """Whether a part of an answer has been streamed to a listener, so that it cannot be taken back."""
        return False

    @abstractmethod
    async def constrained(self, room: int | None) -> T:
        """Ask a model that can be constrained; with `room`, for an answer of about so many characters."""

    @abstractmethod
    async def structured(self, way: Way) -> T:
        """Ask for the structured output of a server."""

    @abstractmethod
    async def repaired(self, refused: Reply | None) -> T:
        """Run the retry loop, which begins with the refused answer if there is one."""

    @abstractmethod
    async def after_constrained(self, error: Exception) -> T:
        """Return another answer for a constrained one that was refused, or raise the error."""

    async def answer(self, refused: Reply | None = None) -> T:
        """Return the answer. `refused` is one that an earlier tier has refused."""
        if not profile_of(self.lm).constrains:
            schema = json.dumps(self.target.object_schema, sort_keys=True, default=str)
            return await by_server(
                self.lm,
                self.structured,
                self.repaired,
                self.record,
                schema=schema,
                refused=refused,
                emitted=lambda: self.emitted,
            )
        from dspy.utils.exceptions import AdapterParseError

        from ..models.local.errors import ConstraintViolated, UnsupportedConstraint

        refusals = (AdapterParseError, ParseError, ConstraintViolated)
        try:
            return await self.constrained(None)
        except UnsupportedConstraint:
            return await self.repaired(None)
        except refusals as error:
            if self.emitted:
                raise
            if not (self.record.truncated and _loops(self.record.text)):
                return await self.after_constrained(error)
        try:
            return await self.constrained(self._room())
        except refusals as error:
            return await self.after_constrained(error)

    @property
    def options(self) -> Mapping[str, Any]:
        """The options of this question for the model."""
        return {}

    def _room(self) -> int:
        """Return how many characters fit into the token limit: few tokens of JSON are shorter than two."""
        from ..models.local.outlines_api import DEFAULT_MAX_TOKENS

        return 2 * ({**self.lm.kwargs, **self.options}.get("max_tokens") or DEFAULT_MAX_TOKENS)


def _loops(text: str) -> bool:
    """Return whether a text ends with one piece, four times or more."""
    return any(text.endswith(text[-size:] * 4) for size in range(1, len(text) // 4 + 1))


@dataclass(frozen=True, slots=True)
class TypedAnswer:
    """A typed value, and what it took."""

    value: Any
    text: str
    """The last answer of the model."""

    tier: int
    """1: plain text, or another adapter; 2: JSON at the first attempt; 3: constrained, or asked again."""

    tokens_in: int = 0
    tokens_out: int = 0
    cost_usd: float | None = None
    calls: int = 1


async def ask_typed(
    lm: Any,
    prompt: str,
    output_type: Any,
    *,
    system: str | None = None,
    adapter: Any = None,
    counts: TierMetrics | None = None,
    max_attempts: int = DEFAULT_ATTEMPTS,
    **options: Any,
) -> TypedAnswer:
    """Ask for a value of a Python type, of a JSON schema (a dict) or out of some choices (a list).

    A model that can be constrained to the type is; any other is asked for JSON, and asked again where it fails.
    `adapter` is a dspy adapter to ask through: of an `OutlinesAdapter` only the metrics are used, for this is its third
    tier. A JSON schema is not a Python type, so no other adapter is used for it. The attempts are counted in the
    adapter's metrics and in `counts`. `options` are for the model.

    Raises `ModelError` where the model cannot be called, and `ExtractionError` where it gives no such value.
    """
    record, metrics = Recording(), metrics_of(adapter)
    if output_type is str:
        label, work = "text", _text(lm, prompt, system, options, record)
    elif adapter is not None and metrics is None and not isinstance(output_type, Mapping):
        label, work = describe_type(output_type), _by_adapter(adapter, lm, prompt, output_type, system, options, record)
    else:
        question = _Question(lm, target_of(output_type), prompt, system, options, max_attempts, record)
        label, work = question.target.label, question.answer()
    try:
        value, tier = await work
    except ExtractionError:
        for counted in (metrics, counts):
            _count(counted, label, lm, 3, record, success=False)
        raise
    for counted in (metrics, counts):
        _count(counted, label, lm, tier, record, success=True)
    used = (record.tokens_in, record.tokens_out, record.cost_usd)
    return TypedAnswer(value, record.text, tier, *used, calls=len(record.calls))


class _Question(TypedQuestion[tuple[Any, int]]):
    """A prompt, answered with a value and the tier that gave it."""

    def __init__(
        self,
        lm: Any,
        target: Target,
        prompt: str,
        system: str | None,
        options: Mapping[str, Any],
        max_attempts: int,
        record: Recording,
    ) -> None:
        self.lm = lm
        self.target = target
        self.record = record
        self._prompt = prompt
        self._system = system
        self._options = options
        self._max_attempts = max_attempts

    @property
    def options(self) -> Mapping[str, Any]:
        """The options of this question for the model."""
        return self._options

    async def constrained(self, room: int | None) -> tuple[Any, int]:
        """Ask a model that can be constrained."""
        prompt = self._prompt if self._names_all_choices else self._full_prompt
        answer = await self._ask_constrained(prompt, room)
        self._refuse_cut()
        return self.target.read(answer.text), 3

    async def structured(self, way: Way) -> tuple[Any, int]:
        """Ask for the structured output of a server."""
        schema = way.keywords(self.target.object_schema, {**self.lm.kwargs, **self._options})
        answer = await self._ask("tier3", self._full_prompt, {**self._options, **schema})
        self._refuse_cut()
        return self.target.read_object(answer.text), 3

    async def repaired(self, refused: Reply | None) -> tuple[Any, int]:
        """Ask in words, and again with feedback."""

        async def ask(prompt: str) -> Answer:
            return await self._ask("tier2" if prompt == self._full_prompt else "retry", prompt, self._options)

        return await self._repair(ask, refused)

    async def after_constrained(self, error: Exception) -> tuple[Any, int]:
        """Ask again with feedback, under the same constraint."""
        from ..models.local.errors import ConstraintViolated

        async def ask(prompt: str) -> Answer:
            try:
                return await self._ask_constrained(prompt, None)
            except ConstraintViolated:
                return Answer("")

        return await self._repair(ask, Reply(self.record.text, self.record.truncated))

    async def _ask_constrained(self, prompt: str, room: int | None) -> Answer:
        bare = self.target.bare
        constraint = bare.constraint if bare is not None else constraint_of(self.target, room)
        return await call_constrained("tier3", self.lm, prompt, constraint, self._system, self._options, self.record)

    async def _ask(self, step: str, prompt: str, options: Mapping[str, Any]) -> Answer:
        return await call_model(step, self.lm, prompt, system=self._system, options=options, record=self.record)

    async def _repair(self, ask: Callable[[str], Awaitable[Answer]], refused: Reply | None) -> tuple[Any, int]:
        async def reply(prompt: str) -> Reply:
            answer = await ask(prompt)
            return Reply(answer.text, answer.truncated, answer.tokens_in, answer.tokens_out)

        prompt, attempts = self._full_prompt, self._max_attempts
        value, metrics = await repair(self.target, reply, prompt, first=refused, max_attempts=attempts)
        return value, 2 if metrics.attempts == 1 and refused is None else 3

    def _refuse_cut(self) -> None:
        if self.record.truncated:
            raise ParseError("truncated", CUT_OFF)

    @property
    def _names_all_choices(self) -> bool:
        """Whether the prompt names all that can be written. Small models do worse when that is said once more."""
        names = self.target.schema.names or frozenset(map(str, get_args(self.target.constraint)))
        return bool(names) and all(name in self._prompt for name in names)

    @property
    def _full_prompt(self) -> str:
        """The prompt, then what to write, so that questions about one text share their beginning."""
        return f"{self._prompt}\n\nAnswer with {self.target.instructions}"


async def _text(
    lm: Any, prompt: str, system: str | None, options: Mapping[str, Any], record: Recording
) -> tuple[str, int]:
    return (await call_model("tier1", lm, prompt, system=system, options=options, record=record)).text, 1


async def _by_adapter(
    adapter: Any,
    lm: Any,
    prompt: str,
    output_type: Any,
    system: str | None,
    options: Mapping[str, Any],
    record: Recording,
) -> tuple[Any, int]:
    """Ask through any dspy adapter, with a signature for the question."""
    from dspy.utils.exceptions import AdapterParseError
    from pydantic import TypeAdapter, ValidationError

    annotation: Any = Literal[tuple(output_type)] if isinstance(output_type, list | tuple) else output_type
    signature, inputs = _signature(annotation, system), {"prompt": prompt}
    try:
        values = await call_adapter("tier1", adapter, lm, signature, inputs, options, record)
        return TypeAdapter(annotation).validate_python(values["answer"]), 1
    except AdapterParseError as error:
        raise ParseError("invalid", str(error.message).strip()) from error
    except ValidationError as error:
        raise ParseError("invalid", "; ".join(str(detail["msg"]) for detail in error.errors())) from error


@functools.lru_cache(maxsize=512)
def _signature(annotation: Any, system: str | None) -> Any:
    from dspy.signatures.field import InputField, OutputField
    from dspy.signatures.signature import make_signature

    fields = {"prompt": (str, InputField()), "answer": (annotation, OutputField())}
    return make_signature(fields, system or "Answer the prompt.", "Question")


def _count(metrics: TierMetrics | None, label: str, lm: Any, tier: int, record: Recording, *, success: bool) -> None:
    if metrics is None:
        return
    label, model = f"llm_query: {label}", name_of(lm)
    if record.calls and record.calls[0].step == "tier3":  # it began there, so tiers 1 and 2 have not failed
        metrics.record_start(label, model, 3)
    tries = record.by_tier() or {tier: Recording(seconds=record.seconds)}
    for tried, calls in tries.items():
        used: dict[str, Any] = {"seconds": calls.seconds, "tokens_in": calls.tokens_in, "tokens_out": calls.tokens_out}
        metrics.record(label, model, tried, success=success and tried == tier, **used)
    if not success:
        metrics.record_unanswered(label, model)
