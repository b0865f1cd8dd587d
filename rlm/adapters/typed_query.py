"""One question, one typed value: what `llm_query(..., type=...)` asks with. Made for thousands of calls."""

from __future__ import annotations

import functools
import json
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any, Literal, get_args

from ..extraction import ExtractionError, ParseError, Reply
from ..models.client import Answer
from ..models.profile import profile_of
from .call_log import Recording
from .metrics import TierMetrics
from .output_spec import Target, describe_type, target_of
from .repair_loop import DEFAULT_ATTEMPTS, ask_again
from .requests import asked, by_adapter, constrained
from .structured_output import Way, by_server


@dataclass(frozen=True, slots=True)
class TypedAnswer:
    """A typed value, and what it took."""

    value: Any
    text: str
    """What the model wrote last."""

    tier: int
    """1: plain text or another adapter's way; 2: JSON at the first attempt; 3: held to the type, or asked again."""

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

    A model that can be held to the type is held to it; any other is asked for JSON, and asked again where it errs.
    `adapter` is a dspy adapter to go through: of an `OutlinesAdapter` only the metrics are used, for this is its last
    tier. A JSON schema is no Python type, so no other adapter is asked for one. What came of it is counted in the
    adapter's metrics and in `counts`. `options` are for the model.

    Raises `ModelError` where the model cannot be asked, and `ExtractionError` where it gives no such value.
    """
    record, metrics = Recording(), getattr(adapter, "metrics", None)
    if output_type is str:
        label, work = "text", _plain(lm, prompt, system, options, record)
    elif adapter is not None and not isinstance(metrics, TierMetrics) and not isinstance(output_type, Mapping):
        label, work = describe_type(output_type), _through(adapter, lm, prompt, output_type, system, options, record)
    else:
        question = _Question(lm, target_of(output_type), prompt, system, options, max_attempts, record)
        label, work = question.target.label, question.answer()
    try:
        value, tier = await work
    except ExtractionError:
        for one in (metrics, counts):
            _count(one, label, lm, 3, record, success=False)
        raise
    for one in (metrics, counts):
        _count(one, label, lm, tier, record, success=True)
    used = (record.tokens_in, record.tokens_out, record.cost_usd)
    return TypedAnswer(value, record.text, tier, *used, calls=len(record.calls))


@dataclass(frozen=True, slots=True)
class _Question:
    """One question: by the model itself, by its server, or in words."""

    lm: Any
    target: Target
    prompt: str
    system: str | None
    options: Mapping[str, Any]
    max_attempts: int
    record: Recording

    async def answer(self) -> tuple[Any, int]:
        """The value and the tier that gave it."""
        if profile_of(self.lm).constrains:
            return await self._by_itself()
        schema = json.dumps(self.target.object_schema, sort_keys=True, default=str)
        return await by_server(self.lm, self._by_way, self._in_words, self.record, about=schema)

    async def _by_itself(self) -> tuple[Any, int]:
        from ..models.local.errors import ConstraintViolated, UnsupportedConstraint

        bare = self.target.bare
        held = self.target.constraint if bare is None else bare.constraint

        async def ask(prompt: str) -> Answer:
            return await constrained("tier3", self.lm, prompt, held, self.system, self.options, self.record)

        try:
            text = (await ask(self.prompt if self._said else self._asked)).text
            _refuse_cut(self.record)
            return self.target.read(text), 3
        except UnsupportedConstraint:
            return await self._in_words(None)
        except (ParseError, ConstraintViolated):
            return await self._again(ask, Reply(self.record.text, self.record.truncated))

    async def _by_way(self, way: Way) -> tuple[Any, int]:
        held = {**self.options, **way.keywords(self.target.object_schema, {**self.lm.kwargs, **self.options})}
        answer = await asked("tier3", self.lm, self._asked, system=self.system, options=held, record=self.record)
        _refuse_cut(self.record)
        return self.target.read_object(answer.text), 3

    async def _in_words(self, refused: Reply | None) -> tuple[Any, int]:
        async def ask(prompt: str) -> Answer:
            step = "tier2" if prompt == self._asked else "retry"
            return await asked(step, self.lm, prompt, system=self.system, options=self.options, record=self.record)

        return await self._again(ask, refused)

    async def _again(self, ask: Callable[[str], Awaitable[Answer]], refused: Reply | None) -> tuple[Any, int]:
        async def reply(prompt: str) -> Reply:
            answer = await ask(prompt)
            return Reply(answer.text, answer.truncated, answer.tokens_in, answer.tokens_out)

        value, metrics = await ask_again(self.target, reply, self._asked, first=refused, max_attempts=self.max_attempts)
        return value, 2 if metrics.attempts == 1 and refused is None else 3

    @property
    def _said(self) -> bool:
        """Whether the prompt names all there is to write. Small models do worse when that is said once more."""
        names = self.target.schema.names or frozenset(map(str, get_args(self.target.constraint)))
        return bool(names) and all(name in self.prompt for name in names)

    @property
    def _asked(self) -> str:
        """What to write comes last, so that questions about one text share their beginning."""
        return f"{self.prompt}\n\nAnswer with {self.target.words}"


async def _plain(
    lm: Any, prompt: str, system: str | None, options: Mapping[str, Any], record: Recording
) -> tuple[str, int]:
    return (await asked("tier1", lm, prompt, system=system, options=options, record=record)).text, 1


async def _through(
    adapter: Any,
    lm: Any,
    prompt: str,
    output_type: Any,
    system: str | None,
    options: Mapping[str, Any],
    record: Recording,
) -> tuple[Any, int]:
    """By any dspy adapter, with a signature made for the question."""
    from dspy.utils.exceptions import AdapterParseError
    from pydantic import TypeAdapter, ValidationError

    kind: Any = Literal[tuple(output_type)] if isinstance(output_type, list | tuple) else output_type
    asked_for, given = _signature(kind, system), {"prompt": prompt}
    try:
        values = await by_adapter("tier1", adapter, lm, asked_for, given, options, record)
        return TypeAdapter(kind).validate_python(values["answer"]), 1
    except AdapterParseError as error:
        raise ParseError("invalid", str(error.message).strip()) from error
    except ValidationError as error:
        raise ParseError("invalid", "; ".join(str(one["msg"]) for one in error.errors())) from error


@functools.lru_cache(maxsize=512)
def _signature(kind: Any, system: str | None) -> Any:
    from dspy.signatures.field import InputField, OutputField
    from dspy.signatures.signature import make_signature

    fields = {"prompt": (str, InputField()), "answer": (kind, OutputField())}
    return make_signature(fields, system or "Answer the prompt.", "Question")


def _refuse_cut(record: Recording) -> None:
    if record.truncated:
        raise ParseError("truncated", "the answer was cut off at the limit of its length; raise max_tokens")


def _count(metrics: Any, label: str, lm: Any, tier: int, record: Recording, *, success: bool) -> None:
    if not isinstance(metrics, TierMetrics):
        return
    label, model = f"llm_query: {label}", str(getattr(lm, "model", lm))
    if record.calls and record.calls[0].step == "tier3":  # it was held from the start, which says nothing against it
        metrics.record_start(label, model, 3)
    tries = record.by_tier() or {tier: Recording(seconds=record.seconds)}
    for one, calls in tries.items():
        used: dict[str, Any] = {"seconds": calls.seconds, "tokens_in": calls.tokens_in, "tokens_out": calls.tokens_out}
        metrics.record(label, model, one, success=success and one == tier, **used)
    if not success:
        metrics.record_unanswered(label, model)
