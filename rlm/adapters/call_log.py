"""Model calls made by adapters: each is made here or inside `recording`, and reported to those who count or trace.

dspy's adapters return parsed values and nothing else. The cost of a call, and whether its answer was cut off, is in
dspy's history, so every call inside a block is recorded from there, whatever other threads do meanwhile. Where dspy's
history is switched off (`disable_history`) nothing is known of a call, and nothing is reported.
"""

from __future__ import annotations

import contextlib
import contextvars
import itertools
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from ..dspy_bridge import RecordedCall, collect_calls
from ..models.client import Answer, ModelError, ask
from ..models.errors import describe, read_fault
from ..models.middleware import with_middleware
from ..models.profile import name_of, profile_of, protect_keys
from ..models.requests import config_for, request_for
from .registry import profile_of_adapter


@dataclass(frozen=True, slots=True)
class ModelCall:
    """One model call, made by an adapter."""

    step: str
    """Its purpose: tier1, tier2, tier3, retry, answer (the main model's own words) or extraction."""

    model: str
    messages: tuple[Mapping[str, Any], ...]
    text: str
    truncated: bool
    tokens_in: int
    tokens_out: int
    cost_usd: float | None
    seconds: float
    cached: bool = False
    """Whether the answer came from a cache."""

    others: tuple[str, ...] = ()
    """Further answers, where several were requested."""

    @property
    def tier(self) -> int:
        """The tier that the call belongs to. Retries count as tier 3, calls without a tier as tier 1."""
        return int(self.step[4:]) if self.step.startswith("tier") else 3 if self.step == "retry" else 1


Before = Callable[[str, Any], None]
"""Called with the step and the model before a call. What it raises prevents the call: a budget that is used up."""

After = Callable[[ModelCall], None]
"""Called with each answered call, also when the answer is of no use."""


@dataclass(frozen=True, slots=True)
class _Watcher:
    before: Before | None
    after: After | None


_watchers: contextvars.ContextVar[tuple[_Watcher, ...]] = contextvars.ContextVar("rlm_adapter_watchers", default=())
_reported: contextvars.ContextVar[set[str] | None] = contextvars.ContextVar("rlm_adapter_reported", default=None)


@contextlib.contextmanager
def watch_calls(after: After | None = None, *, before: Before | None = None) -> Iterator[None]:
    """Watch every call that adapters of this package make inside the block; each is reported once."""
    token = _watchers.set((*_watchers.get(), _Watcher(before, after)))
    try:
        yield
    finally:
        _watchers.reset(token)


def announce(step: str, lm: Any) -> None:
    """Let watchers prevent a call, and protect the keys of the model."""
    protect_keys(lm)
    for watcher in _watchers.get():
        if watcher.before is not None:
            watcher.before(step, lm)


def report(call: ModelCall) -> None:
    """Report an answered call to watchers."""
    for watcher in _watchers.get():
        if watcher.after is not None:
            watcher.after(call)


@dataclass(slots=True)
class Recording:
    """The calls made in a block, in order; complete when the block has ended."""

    calls: list[ModelCall] = field(default_factory=list)
    seconds: float = 0.0

    @property
    def truncated(self) -> bool:
        """Whether the last answer was cut off at its token limit."""
        return bool(self.calls) and self.calls[-1].truncated

    @property
    def text(self) -> str:
        """The last answer."""
        return self.calls[-1].text if self.calls else ""

    @property
    def texts(self) -> tuple[str, ...]:
        """All answers of the last call."""
        return (self.calls[-1].text, *self.calls[-1].others) if self.calls else ()

    @property
    def tokens_in(self) -> int:
        """Prompt tokens of all calls."""
        return sum(call.tokens_in for call in self.calls)

    @property
    def tokens_out(self) -> int:
        """Answer tokens of all calls."""
        return sum(call.tokens_out for call in self.calls)

    @property
    def cost_usd(self) -> float | None:
        """The cost of the calls with a known price; None where no price is known."""
        known = [call.cost_usd for call in self.calls if call.cost_usd is not None]
        return sum(known) if known else None

    def by_tier(self) -> dict[int, Recording]:
        """Return the calls of each tier, in the order in which tiers were tried."""
        tiers: dict[int, Recording] = {}
        for call in self.calls:
            tiers.setdefault(call.tier, Recording()).extend(Recording([call], call.seconds))
        return tiers

    def extend(self, other: Recording) -> None:
        """Add the calls of another recording."""
        self.calls += other.calls
        self.seconds += other.seconds


@contextlib.contextmanager
def recording(step: str, lm: Any, into: Recording | None = None, by: Any = None) -> Iterator[Recording]:
    """Record the calls made inside the block as `step`, and add them to `into`. Watchers may prevent it beforehand.

    `by` is the adapter that is called inside: one that records its calls itself also announces them itself.
    """
    from ..models.local.types import seconds_queued

    if not profile_of_adapter(by).records_calls:
        announce(step, lm)
    entries: list[dict[str, Any]] = []
    record, began = Recording(), time.monotonic()
    outer = _reported.get()
    reported = set() if outer is None else outer
    token = _reported.set(reported)
    try:
        with collect_calls(entries):
            yield record
    finally:
        calls = [RecordedCall.of(entry) for entry in entries]
        queued = sum(seconds_queued(call.response) for call in calls)
        record.seconds = max(0.0, time.monotonic() - began - queued)
        _reported.reset(token)
        for recorded in calls:
            call = _model_call(step, lm, recorded, record.seconds / len(calls))
            record.calls.append(call)
            # Where adapters are nested, the inner one has reported this call under its own step.
            if recorded.id not in reported:
                reported.add(recorded.id)
                report(call)
        if into is not None:
            into.extend(record)


def _model_call(step: str, lm: Any, call: RecordedCall, seconds: float) -> ModelCall:
    text, *others = call.texts
    cost = call.cost_usd
    if not call.cached and call.model == name_of(lm):
        cost = profile_of(lm).cost(call.tokens_in, call.tokens_out, cost)
    return ModelCall(
        step=step,
        model=call.model,
        messages=call.messages,
        text=text,
        truncated=call.truncated,
        tokens_in=call.tokens_in,
        tokens_out=call.tokens_out,
        cost_usd=cost,
        seconds=seconds,
        cached=call.cached,
        others=tuple(others),
    )


# Calls that are recorded as they are made ------------------------------------------------------------------------


async def call_model(
    step: str, lm: Any, prompt: str, *, system: str | None, options: Mapping[str, Any], record: Recording
) -> Answer:
    """Ask a model once, with the retries of `rlm.models.client`. Raises `ModelError`."""
    announce(step, lm)
    began = time.monotonic()
    answer = await ask(lm, [("user", prompt)], system=system, **options)
    _record(step, lm, [("user", prompt)], system, answer, time.monotonic() - began, record)
    return answer


async def call_constrained(
    step: str,
    lm: Any,
    prompt: str | Sequence[tuple[str, str]],
    constraint: Any,
    system: str | None,
    options: Mapping[str, Any],
    record: Recording,
) -> Answer:
    """Ask a model that constrains its answer to `constraint`, a type.

    Raises `ModelError`, `ConstraintViolated` and `UnsupportedConstraint`.
    """
    from ..models.local.errors import ConstraintViolated, UnsupportedConstraint
    from ..models.local.types import seconds_queued

    announce(step, lm)
    began = time.monotonic()
    turns = [("user", prompt)] if isinstance(prompt, str) else list(prompt)
    request = request_for(lm.model, turns, system, config_for({**lm.kwargs, **options}))
    try:
        response = await lm.acall(request, _outlines_constraint=constraint)
    except (ConstraintViolated, UnsupportedConstraint):
        raise
    except Exception as error:
        fault = read_fault(error)
        raise ModelError(fault.kind, describe(fault, lm, 1)) from error
    usage, cut = response.usage, response.finish_reason == "length"
    answer = Answer(response.message.text or "", cut, usage.input_tokens or 0, usage.output_tokens or 0)
    seconds = max(0.0, time.monotonic() - began - seconds_queued(response))
    _record(step, lm, turns, system, answer, seconds, record)
    return answer


async def call_adapter(
    step: str,
    adapter: Any,
    lm: Any,
    signature: Any,
    inputs: dict[str, Any],
    options: Mapping[str, Any],
    record: Recording,
) -> dict[str, Any]:
    """Return the outputs of a signature from any dspy adapter. Raises `ModelError`, and the adapter's parse errors."""
    from dspy.utils.exceptions import LMError

    calls = itertools.count()

    def before() -> None:
        if next(calls):  # `recording` announces the first one
            announce(step, lm)

    limited = with_middleware(lm, None if profile_of_adapter(adapter).records_calls else before)
    try:
        with recording(step, lm, record, by=adapter):
            return dict((await adapter.acall(limited, dict(options), signature, [], inputs))[0])
    except LMError as error:
        fault = read_fault(error)
        raise ModelError(fault.kind, describe(fault, lm, 1)) from error


def _record(
    step: str,
    lm: Any,
    turns: Sequence[tuple[str, str]],
    system: str | None,
    answer: Answer,
    seconds: float,
    record: Recording,
) -> None:
    messages: tuple[Mapping[str, Any], ...] = tuple({"role": role, "content": text} for role, text in turns)
    if system is not None:
        messages = ({"role": "system", "content": system}, *messages)
    used = (answer.tokens_in, answer.tokens_out, answer.cost_usd, seconds, answer.cached)
    call = ModelCall(step, name_of(lm), messages, answer.text, answer.truncated, *used)
    record.extend(Recording([call], seconds))
    report(call)
