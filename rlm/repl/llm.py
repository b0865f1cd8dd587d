"""The models of one run: every call is counted, emitted, and answered from the record where there is one."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import json
import math
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from ..budgets import BudgetExceeded, Ledger, Timeout
from ..dspy_bridge import token_prices
from ..events import Emitter, ModelAnswered, ModelAsked, ModelFailed, ModelWaiting, TiersUsed
from ..extraction.prompt import extraction_schema
from ..extraction.retry import Reply
from ..models.client import Answer, ModelError, ask
from ..models.profile import name_of, profile_of
from ..models.requests import OnWait, Wait, on_wait, retry_within
from ..signatures import Signature
from .conversation import Conversation
from .host_calls import current_call
from .profiles import StandardProfile
from .replay import RecordedRun

if TYPE_CHECKING:
    from ..adapters.metrics import TierMetrics
    from .config import MainCall, RunConfig

CHARS_PER_TOKEN, TOKENS_OF_ANSWER = 3, 300
"""Estimates of what an extraction takes: of its prompt, on the short side; of its answer."""

_REPORTED_WAIT_S = 1.0
_LONGEST_ANSWER_S = 600.0
"""How long one answer of an extraction may take, where the run has more time."""

STEP, EXTRACTION = "the next step", "the answer, read off"
READ_OFF = (
    "Stop here, and write no more code. Give the answer as JSON: {{{wanted}}}. Use only what was printed above; write "
    "null where that does not tell it."
)


@contextlib.asynccontextmanager
async def exclude_waiting(limit: asyncio.Timeout) -> AsyncIterator[None]:
    """Extend the timeout by the time spent waiting for a rate limit.

    Other failures of a provider are retried only as long as the timeout leaves time for it.
    """

    def extend(wait: Wait) -> None:
        when = limit.when()
        if when is not None and wait.queued:
            limit.reschedule(when + wait.seconds)

    def seconds_left() -> float:
        when = limit.when()
        return math.inf if when is None else when - asyncio.get_running_loop().time()

    with on_wait(extend), retry_within(seconds_left):
        async with limit:
            yield


def _same(one: Any, other: Any) -> bool:
    """Return whether two models are the same weights in memory."""
    local = profile_of(one).local
    return one is other or (local is not None and local is profile_of(other).local)


async def next_reply(
    lm: Any, conversation: Conversation, *, adapter: Any = None, system: str | None = None, **options: Any
) -> Answer:
    """Ask for the main model's next reply: plainly, or through an adapter. Raises `ModelError`.

    An adapter that lets a model use its own words has nothing to add.
    """
    system = system or conversation.system
    if adapter is not None:
        from ..adapters.registry import profile_of_adapter
        from .adapter_calls import next_step

        if not profile_of_adapter(adapter).free_text:
            return await next_step(adapter, lm, conversation, system, options)
    return await ask(lm, [(turn.role, turn.text) for turn in conversation.turns], system=system, **options)


class OutOfTime(Exception):
    """The time of the run was over before the model answered."""


@dataclass
class RunModels:
    """The models of one run. Every call is counted in the ledger and emitted as events."""

    main_model: Any
    sub_model: Any
    extraction_model: Any
    ledger: Ledger
    emit: Emitter
    main_call: MainCall | None = None
    """Asks the main model in place of a plain call."""

    adapter: Any = None
    """The dspy adapter. None asks plainly, or for JSON where a type is wanted."""

    others: Mapping[str, Any] = field(default_factory=dict)
    """More models that code can ask by name."""

    past: RecordedRun | None = None
    """A run that is replayed: its replies are not asked for."""

    next_reply: str | None = None
    """The next reply of the main model, where it need not be asked for it."""

    profile: StandardProfile = field(default_factory=StandardProfile)
    """How the main model is prompted."""

    _silence: str = ""
    """What to say of the main model's last call, where the time of the run ended it."""

    _numbers: Any = field(default_factory=lambda: itertools.count(1))
    _tiers: TierMetrics | None = None
    _emitted: tuple[int, int] = (0, 0)
    """How much of the conversation events have: its edition, and how many of its turns."""

    @classmethod
    def of(
        cls, config: RunConfig, ledger: Ledger, emit: Emitter, past: RecordedRun | None, profile: StandardProfile
    ) -> RunModels:
        """Return the models of a configuration. The main model serves where no other was given."""
        main = config.main_model
        sub, extraction = config.sub_model or main, config.extraction_model or main
        options: dict[str, Any] = {"main_call": config.main_call, "adapter": config.adapter}
        options["others"] = config.other_models
        return cls(main, sub, extraction, ledger, emit, past=past, profile=profile, **options)

    @property
    def tiers(self) -> TierMetrics:
        """The counters of the tiers that answered the typed questions of this run."""
        from ..adapters.metrics import TierMetrics

        self._tiers = self._tiers or TierMetrics()
        return self._tiers

    def emit_tiers(self) -> None:
        """Emit which tiers answered, where there were typed questions."""
        if self._tiers is not None and self.emit.active and (by_signature := self._tiers.by_signature):
            self.emit(TiersUsed(self.emit.run_id, by_signature))

    async def main(self, conversation: Conversation, iteration: int, settings: Mapping[str, Any]) -> Answer:
        """Ask for the main model's next reply. Raises `OutOfTime` when the run's time is over first."""
        if self.next_reply is not None:
            reply, self.next_reply = self.next_reply, None
            return self.give(reply, iteration)
        if self.past is not None and iteration <= len(self.past.iterations):
            return self.give(self.past.iterations[iteration - 1].reply, iteration)
        edition, count = self._emitted
        kept = count if edition == conversation.edition else 0
        self._emitted = (conversation.edition, len(conversation.turns))
        turns = [(turn.role, turn.text) for turn in conversation.turns]

        async def reply_of() -> Answer:
            began, left = time.monotonic(), self.ledger.seconds_left()
            limit = asyncio.timeout(left if math.isfinite(left) else None)
            try:
                async with exclude_waiting(limit):
                    # The grammar of a constrained model does more for it than an adapter could.
                    adapter = None if self.profile.constrained else self.adapter
                    if self.main_call is not None:
                        return await self.main_call(conversation, settings, adapter)
                    return await next_reply(self.main_model, conversation, adapter=adapter, **settings)
            except TimeoutError:
                if not limit.expired():  # a timeout elsewhere: the run has time left, and would ask again for ever
                    raise
                model = getattr(self.main_model, "model", "the main model")
                self._silence = f"; {model} had not answered its last call for {time.monotonic() - began:.0f} s, either"
                raise OutOfTime from None

        about = {"role": "main", "iteration": iteration, "retained": kept, "system": conversation.system}
        return await self.asked(reply_of(), self.main_model, turns[kept:], **about)

    async def sub_prices(self) -> tuple[float, float] | None:
        """Return the prices of a token that the sub model reads and writes; None where they are not known."""
        profile = profile_of(self.sub_model)
        if profile.price is not None:
            return profile.price.input / 1e6, profile.price.output / 1e6
        if profile.local is not None or profile.engine is not None:
            return None  # free
        return await token_prices(str(self.sub_model.model))

    def give(self, reply: str, iteration: int) -> Answer:
        """Return a reply that no model was asked for, in the place of the main model's."""
        self.emit(ModelAnswered(self.emit.run_id, next(self._numbers), iteration, reply, "main", past=True))
        return Answer(reply)

    def named(self, name: str | None) -> Any:
        """Return a model that code asks by name: `sub`, `main`, one of the others, or what a model itself is called."""
        known = {"sub": self.sub_model, "main": self.main_model, **self.others}
        if name is None or name in known:
            return known[name or "sub"]
        for model in known.values():
            if name_of(model) == name:
                return model
        raise ValueError(f"model={name!r}: choose one of {', '.join(map(repr, known))}")

    async def sub(self, prompt: str, *, model: str | None = None, iteration: int = 0) -> Answer:
        """Answer a question of the code, by the sub model or by another."""
        lm, turns = self.named(model), [("user", prompt)]
        return await self.asked(ask(lm, turns), lm, turns, role="sub", iteration=iteration)

    async def typed(self, prompt: str, output_type: Any, *, model: str | None = None, iteration: int = 0) -> Any:
        """Return a typed value for the code. Each further call that it takes is counted, too."""
        from ..adapters.typed_query import ask_typed

        with self._count_adapter_calls("sub", iteration):
            lm = self.named(model)
            return (await ask_typed(lm, prompt, output_type, adapter=self.adapter, counts=self.tiers)).value

    async def extraction(
        self,
        prompt: str,
        signature: Signature,
        conversation: Conversation | None = None,
        schema: Mapping[str, Any] | None = None,
    ) -> Answer:
        """Ask the extraction model: constrained to the schema where it can be, or through the adapter.

        With a `conversation`, a main model that also extracts is asked at its end.
        """
        from ..extraction.errors import ExtractionError

        model = self.extraction_model
        if profile_of(model).constrains:
            from ..adapters.typed_query import ask_typed

            answers: list[Answer] = []
            schema = schema or extraction_schema(signature)
            try:
                with self._count_adapter_calls("extraction", None, answers):
                    if conversation is not None and _same(model, self.main_model):
                        return await self._read_off(conversation, schema)
                    asked = {"adapter": self.adapter, "counts": self.tiers, "max_attempts": 1}
                    answer = await ask_typed(model, prompt, schema, **asked)
                return Answer(json.dumps(answer.value, ensure_ascii=False))
            except ExtractionError:
                return answers[-1] if answers else Answer("")
        turns = [("user", prompt)]
        if self.adapter is None:
            return await self.asked(ask(model, turns), model, turns, role="extraction")
        from .adapter_calls import extracted

        with self._count_adapter_calls("extraction", None):
            return await extracted(self.adapter, model, signature, prompt)

    def extraction_agent(self, signature: Signature, conversation: Conversation) -> Callable[[str], Awaitable[Reply]]:
        """Return the function that asks for the extraction. It raises `BudgetExceeded` when the run's time is over.

        A constrained model has read the conversation: it is asked at its end first, before it reads anything anew.
        """
        conversations = [conversation] if self.profile.constrained else []

        async def agent(text: str) -> Reply:
            asked_in = conversations.pop() if conversations else None
            if len(text) / CHARS_PER_TOKEN + TOKENS_OF_ANSWER > self.ledger.payable_tokens() + 1:
                raise self.ledger.scarce()
            seconds = self.ledger.seconds_left()
            limit = asyncio.timeout(min(seconds, _LONGEST_ANSWER_S))
            try:
                async with exclude_waiting(limit):
                    answer = await self.extraction(text, signature, asked_in)
            except TimeoutError:
                if not limit.expired() or seconds > _LONGEST_ANSWER_S:
                    raise ModelError("timeout", f"no answer in {_LONGEST_ANSWER_S:g} seconds") from None
                late = f"the extraction had no answer in the {seconds:.1f} seconds that max_duration left"
                why = f"{late}{self._silence}: raise it" + (", or see what the provider does" if self._silence else "")
                trigger, elapsed = self.ledger.trigger, self.ledger.usage().seconds
                raise BudgetExceeded(Timeout(elapsed, trigger.max_duration), why) from None
            return Reply(answer.text, answer.truncated, answer.tokens_in, answer.tokens_out)

        return agent

    async def _read_off(self, conversation: Conversation, schema: Mapping[str, Any]) -> Answer:
        from ..adapters.call_log import Recording, call_constrained

        *before, last = ((turn.role, turn.text) for turn in conversation.turns)
        wanted = ", ".join(f'"{name}": ...' for name in schema["required"])
        turns = [*before, (last[0], f"{last[1]}\n\n{READ_OFF.format(wanted=wanted)}")]
        record = Recording()
        answer = await call_constrained("tier3", self.main_model, turns, schema, conversation.system, {}, record)
        self._count_constrained(EXTRACTION, record.seconds, answer, success=not answer.truncated)
        return answer

    def count_step(self, answer: Answer, seconds: float, *, success: bool) -> None:
        """Count a reply of the main model among the tiers: whether there was code in it."""
        if self.profile.constrained:
            self._count_constrained(STEP, seconds, answer, success=success)
            return
        if not answer.calls:
            return
        from ..adapters.call_log import Recording

        tries = Recording([call for call in answer.calls if call.step.startswith(("tier", "retry"))]).by_tier()
        model, last = str(self.main_model.model), len(tries)
        for place, (tier, calls) in enumerate(tries.items(), 1):  # the adapter counts them in its own metrics, too
            used: dict[str, Any] = {"seconds": calls.seconds, "tokens_in": calls.tokens_in}
            used["tokens_out"] = calls.tokens_out
            self.tiers.record(STEP, model, tier, success=success and place == last, **used)
        if tries and not success:
            self.tiers.record_unanswered(STEP, model)

    def _count_constrained(self, label: str, seconds: float, answer: Answer, *, success: bool) -> None:
        """Count an answer of a main model that was constrained."""
        from ..adapters.metrics import metrics_of

        used, model = {"tokens_in": answer.tokens_in, "tokens_out": answer.tokens_out}, str(self.main_model.model)
        for metrics in (metrics_of(self.adapter), self.tiers):
            if metrics is not None:
                if self.profile.constrained:
                    metrics.record_start(label, model, 3)
                metrics.record(label, model, 3, success=success, seconds=seconds, **used)
                if not success:
                    metrics.record_unanswered(label, model)

    @contextlib.contextmanager
    def _count_adapter_calls(
        self, role: str, iteration: int | None, answers: list[Answer] | None = None
    ) -> Iterator[None]:
        """Count and emit the calls that adapters make inside. The first one was reserved before."""
        from ..adapters.call_log import ModelCall, watch_calls

        calls, began = itertools.count(), time.monotonic()
        asked: Any = None

        def before(step: str, model: Any) -> None:
            nonlocal asked
            asked = model
            if next(calls) and role == "sub":
                self.ledger.reserve_call()

        def about(step: str, model: str) -> dict[str, Any]:
            call = current_call.get() if role == "sub" else None
            return {"role": role, "iteration": iteration, "step": step, "retained": 0, "call": call, "model": model}

        def after(call: ModelCall) -> None:
            used = (call.tokens_in, call.tokens_out, call.cost_usd)
            answer = Answer(call.text, call.truncated, *used, cached=call.cached)
            number = next(self._numbers)
            system = next((message["content"] for message in call.messages if message["role"] == "system"), None)
            turns = [(message["role"], message["content"]) for message in call.messages if message["role"] != "system"]
            about_call = about(call.step, call.model)
            self.emit(ModelAsked(self.emit.run_id, number, **about_call, system=system, turns=turns))
            self._answered(number, role, iteration, answer, call.seconds)
            if answers is not None:
                answers.append(answer)

        try:
            with watch_calls(after, before=before), on_wait(self._report_wait(None, role)):
                yield
        except ModelError as error:  # the request is not known, but that it failed
            number = next(self._numbers)
            name = str(getattr(asked, "model", asked))
            self.emit(ModelAsked(self.emit.run_id, number, **about("", name), system=None, turns=[]))
            self._failed(number, role, error, began)
            raise

    async def asked(
        self, answering: Awaitable[Answer], model: Any, turns: Sequence[tuple[str, str]], **about: Any
    ) -> Answer:
        """Await an answer; count it and emit its events. `about` has the role of the call."""
        number, began = next(self._numbers), time.monotonic()
        call = current_call.get() if about["role"] == "sub" else None  # child runs are asked inside a call
        about = {"iteration": None, "retained": 0, "system": None, "call": call, **about}
        name = name_of(model)
        self.emit(ModelAsked(self.emit.run_id, number, **about, model=name, turns=turns))
        try:
            with on_wait(self._report_wait(number, about["role"])):
                answer = await answering
        except (ModelError, OutOfTime) as error:
            self._failed(number, about["role"], error, began)
            raise
        self._exclude_queue(answer, about["role"])
        self._answered(number, about["role"], about["iteration"], answer, time.monotonic() - began)
        return answer

    def _report_wait(self, number: int | None, role: str) -> OnWait:
        """Return the callback that emits waits of a call, each once: a wait for a rate limit has many parts."""
        until = 0.0

        def report(wait: Wait) -> None:
            nonlocal until
            ends = time.monotonic() + wait.expected
            if wait.expected >= _REPORTED_WAIT_S and ends > until + _REPORTED_WAIT_S:
                until = ends
                self.emit(ModelWaiting(self.emit.run_id, number, role, wait.model, wait.reason, wait.expected))

        return report

    def _failed(self, number: int, role: str, error: ModelError | OutOfTime, began: float) -> None:
        """Emit a call that failed."""
        self._exclude_queue(error, role)
        kind = error.kind if isinstance(error, ModelError) else "out of time"
        seconds = time.monotonic() - began
        self.emit(ModelFailed(self.emit.run_id, number, role, kind, str(error), seconds))

    def _answered(self, number: int, role: str, iteration: int | None, answer: Answer, seconds: float) -> None:
        """Count the usage of an answer, and emit it."""
        for call in answer.calls or (answer,):
            self.ledger.record_usage(call.tokens_in, call.tokens_out, call.cost_usd, cached=call.cached)
        self.emit(
            ModelAnswered(
                self.emit.run_id,
                number,
                iteration,
                answer.text,
                role,
                truncated=answer.truncated,
                seconds=seconds,
                tokens_in=answer.tokens_in,
                tokens_out=answer.tokens_out,
                cost_usd=answer.cost_usd,
                cached=answer.cached,
            )
        )

    def _exclude_queue(self, outcome: Any, role: str) -> None:
        """Exclude the wait for a rate limit from the time of the run; not in a cell, where other calls go on."""
        queued = getattr(outcome, "queued", 0.0)
        if queued and role != "sub":
            self.ledger.excuse(queued)
