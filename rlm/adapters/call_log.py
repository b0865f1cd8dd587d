"""The calls that an adapter makes: what each one used and said, told to whoever counts or traces them.

dspy's adapters return parsed values and nothing else. What a call cost, and whether its answer was cut off, stands in
dspy's history: every call made inside a block is recorded here from there, whatever other threads ask meanwhile. Where
dspy's history is switched off (`disable_history`), nothing is known of a call, and nothing is told.
"""

from __future__ import annotations

import contextlib
import contextvars
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from ..models.dspy_history import truncated


@dataclass(frozen=True, slots=True)
class ModelCall:
    """One call of a model, made by an adapter."""

    step: str
    """What it was for: tier1, tier2, tier3, retry, answer (the main model's own words) or extraction."""

    model: str
    messages: tuple[Mapping[str, Any], ...]
    text: str
    truncated: bool
    tokens_in: int
    tokens_out: int
    cost_usd: float | None
    seconds: float
    cached: bool = False
    """Whether the answer was on disk."""

    others: tuple[str, ...] = ()
    """Further answers, where several were asked for."""


Before = Callable[[str, Any], None]
"""Told the step and the model before a call is made. What it raises refuses the call: a budget that is used up."""

After = Callable[[ModelCall], None]
"""Told each call once it was answered, also when the answer is of no use."""


@dataclass(frozen=True, slots=True)
class _Watch:
    before: Before | None
    after: After | None


_watches: contextvars.ContextVar[tuple[_Watch, ...]] = contextvars.ContextVar("rlm_adapter_watches", default=())
_told: contextvars.ContextVar[set[str] | None] = contextvars.ContextVar("rlm_adapter_told", default=None)


@contextlib.contextmanager
def watch_calls(after: After | None = None, *, before: Before | None = None) -> Iterator[None]:
    """Be told of every call that adapters of this package make inside the block; each is told once."""
    token = _watches.set((*_watches.get(), _Watch(before, after)))
    try:
        yield
    finally:
        _watches.reset(token)


@dataclass(slots=True)
class Recording:
    """The calls made in a block, in order; complete when the block has ended."""

    calls: list[ModelCall] = field(default_factory=list)
    seconds: float = 0.0

    @property
    def truncated(self) -> bool:
        """Whether the last answer was cut off at the limit of its length."""
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
        """Tokens read, over all calls."""
        return sum(call.tokens_in for call in self.calls)

    @property
    def tokens_out(self) -> int:
        """Tokens written, over all calls."""
        return sum(call.tokens_out for call in self.calls)

    @property
    def cost_usd(self) -> float | None:
        """What is known of the cost; None where no call had a price."""
        known = [call.cost_usd for call in self.calls if call.cost_usd is not None]
        return sum(known) if known else None

    def by_tier(self) -> dict[int, Recording]:
        """The calls of each tier, in order. Asking again is tier 3, and what is no tier is the first."""
        found: dict[int, Recording] = {}
        for call in self.calls:
            tier = int(call.step[4:]) if call.step.startswith("tier") else 3 if call.step == "retry" else 1
            found.setdefault(tier, Recording()).extend(Recording([call], call.seconds))
        return found

    def extend(self, other: Recording) -> None:
        """Take over what another block recorded."""
        self.calls += other.calls
        self.seconds += other.seconds


@contextlib.contextmanager
def recording(step: str, lm: Any, into: Recording | None = None, by: Any = None) -> Iterator[Recording]:
    """Record the calls made inside the block as `step`, and add them to `into`. Watchers may refuse it beforehand.

    `by` is the adapter that is called inside: one that records its calls itself also asks for itself.
    """
    from dspy.dsp.utils.settings import settings

    from ..models.local.types import seconds_queued

    if not getattr(by, "records_calls", False):
        ask_watchers(step, lm)
    record, listener, began = Recording(), _Listener(), time.monotonic()
    known = _told.get()
    told = set() if known is None else known
    token = _told.set(told)
    try:
        # dspy writes each call into the history of every module around it. The innermost stays last: dspy looks at it.
        with settings.context(caller_modules=[listener, *(settings.caller_modules or [])]):
            yield record
    finally:
        queued = sum(seconds_queued(entry.get("response")) for entry in listener.history)
        record.seconds = max(0.0, time.monotonic() - began - queued)
        _told.reset(token)
        for entry in listener.history:
            call = _model_call(step, entry, record.seconds / len(listener.history))
            record.calls.append(call)
            # Where adapters are nested, the inner one has told this call under its own step.
            if entry["uuid"] not in told:
                told.add(entry["uuid"])
                tell(call)
        if into is not None:
            into.extend(record)


def ask_watchers(step: str, lm: Any) -> None:
    """Let watchers refuse a call."""
    for watch in _watches.get():
        if watch.before is not None:
            watch.before(step, lm)


def tell(call: ModelCall) -> None:
    """Tell watchers of a call."""
    for watch in _watches.get():
        if watch.after is not None:
            watch.after(call)


class _Listener:
    """Looks to dspy like a module that is being called."""

    def __init__(self) -> None:
        self.history: list[Any] = []


def _model_call(step: str, entry: Mapping[str, Any], seconds: float) -> ModelCall:
    usage, response = entry.get("usage") or {}, entry.get("response")
    outputs = entry.get("outputs") or [""]
    text, *others = (str((one.get("text") if isinstance(one, Mapping) else one) or "") for one in outputs)
    messages = entry.get("messages") or [{"role": "user", "content": entry.get("prompt")}]
    # In dspy's history, an answer from its cache has used nothing; the answer itself says what it had used at first.
    hit = entry.get("usage") == {} and bool(getattr(getattr(response, "usage", None), "input_tokens", None))
    return ModelCall(
        step=step,
        model=str(entry.get("model", "")),
        messages=tuple(messages),
        text=text,
        truncated=truncated(response),
        tokens_in=int(usage.get("prompt_tokens") or 0),
        tokens_out=int(usage.get("completion_tokens") or 0),
        cost_usd=0.0 if hit else entry.get("cost"),
        seconds=seconds,
        cached=hit or (isinstance(response, Mapping) and response.get("cached") is True),
        others=tuple(others),
    )
