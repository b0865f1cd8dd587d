"""Asking the models of one run: what they use is counted, what they are asked and answer is told to whoever watches."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import json
import math
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from ..adapters.metrics import TierMetrics
from ..adapters.registry import profile_of_adapter
from ..budgets import Ledger
from ..events import Emitter, ModelAnswered, ModelAsked, ModelFailed
from ..extraction.prompt import extraction_schema
from ..models.client import Answer, ModelError, ask
from ..models.rate_limit.limiter import telling_waits
from ..signatures import Signature
from .conversation import Conversation
from .host_calls import current_call
from .profiles import manner_of
from .replay import Past

STEP, EXTRACTION = "the next step", "the answer, read off"
READ_OFF = (
    "Stop here, and write no more code. Give the answer as JSON: {{{wanted}}}. Use only what was printed above; write "
    "null where that does not tell it."
)

Act = Callable[[Conversation], Awaitable[Answer]]


@contextlib.asynccontextmanager
async def excused(limit: asyncio.Timeout) -> AsyncIterator[None]:
    """A limit that moves on while a question waits for its turn: that is no time of the run's."""

    def move(seconds: float) -> None:
        when = limit.when()
        if when is not None:
            limit.reschedule(when + seconds)

    with telling_waits(move):
        async with limit:
            yield


def _same(one: Any, other: Any) -> bool:
    """Whether two models are the same weights in memory."""
    return getattr(one, "local", one) is getattr(other, "local", other)


async def next_reply(
    lm: Any, conversation: Conversation, *, adapter: Any = None, system: str | None = None, **options: Any
) -> Answer:
    """The main model's next reply: plainly, or through the adapter that was set. Raises `ModelError`.

    A model that runs here is held to its form in any case: what an adapter could do for it, that does better. An
    adapter that lets a model use its own words has nothing to add.
    """
    system, manner = system or conversation.system, manner_of(lm)
    if adapter is None or manner.brief or profile_of_adapter(adapter).free_text:
        turns = [(turn.role, turn.text) for turn in conversation.turns]
        return await ask(lm, turns, system=system, **{**manner.settings(conversation), **options})
    from .adapter_calls import next_step

    return await next_step(adapter, lm, conversation, system, options)


class OutOfTime(Exception):
    """The time of the run was over before the model had answered."""


@dataclass
class Asker:
    """Asks models on behalf of one run."""

    main_model: Any
    sub_model: Any
    extraction_model: Any
    ledger: Ledger
    emit: Emitter
    act: Act | None = None
    """Asks the main model for its next reply, if not plainly: `Predict` lets dspy's predictor do it."""

    adapter: Any = None
    """The dspy adapter that was set. None asks plainly, or for JSON where a type is wanted."""

    past: Past | None = None
    """A run that is done again: its replies are not asked for."""

    tiers: TierMetrics = field(default_factory=TierMetrics)
    """Which tier answered the typed questions of this run."""

    _numbers: Any = field(default_factory=lambda: itertools.count(1))
    _told: tuple[int, int] = (0, 0)
    """How much of the conversation has been told: its edition, and how many of its turns."""

    async def main(self, conversation: Conversation, iteration: int) -> Answer:
        """The main model's next reply. Raises `OutOfTime` when the run's time is over first."""
        if self.past is not None and iteration <= len(self.past.iterations):
            reply = self.past.iterations[iteration - 1].reply
            self.emit(ModelAnswered(self.emit.run_id, next(self._numbers), iteration, reply, "main", past=True))
            return Answer(reply)
        edition, count = self._told
        kept = count if edition == conversation.edition else 0
        self._told = (conversation.edition, len(conversation.turns))
        turns = [(turn.role, turn.text) for turn in conversation.turns]

        async def reply_of() -> Answer:
            left = self.ledger.seconds_left()
            limit = asyncio.timeout(left if math.isfinite(left) else None)
            try:
                async with excused(limit):
                    if self.act is not None:
                        return await self.act(conversation)
                    return await next_reply(self.main_model, conversation, adapter=self.adapter)
            except TimeoutError:
                if not limit.expired():  # somebody else's: the run has time, and would ask again for ever
                    raise
                raise OutOfTime from None

        about = {"role": "main", "iteration": iteration, "retained": kept, "system": conversation.system}
        return await self.asked(reply_of(), self.main_model, turns[kept:], **about)

    async def sub(self, prompt: str, *, main: bool = False, iteration: int = 0) -> Answer:
        """A question from inside the REPL, to the smaller model or to the main one."""
        model = self.main_model if main else self.sub_model
        turns = [("user", prompt)]
        return await self.asked(ask(model, turns), model, turns, role="sub", iteration=iteration)

    async def typed(self, prompt: str, output_type: Any, *, main: bool = False, iteration: int = 0) -> Any:
        """A typed value from inside the REPL. Each further call that it takes is counted, too."""
        from ..adapters.typed_query import ask_typed

        model = self.main_model if main else self.sub_model
        with self._watched("sub", iteration):
            return (await ask_typed(model, prompt, output_type, adapter=self.adapter, counts=self.tiers)).value

    async def extraction(
        self,
        prompt: str,
        signature: Signature,
        conversation: Conversation | None = None,
        schema: Mapping[str, Any] | None = None,
    ) -> Answer:
        """An answer of the model that extracts: held to the schema where it can be, by the adapter if one was set.

        With a `conversation`, the main model is asked at its end, if it is the one that extracts.
        """
        from ..extraction.errors import ExtractionError

        model = self.extraction_model
        if getattr(model, "constrains", False):
            from ..adapters.typed_query import ask_typed

            told: list[Answer] = []
            schema = schema or extraction_schema(signature)
            try:
                with self._watched("extraction", None, told):
                    if conversation is not None and _same(model, self.main_model):
                        return await self._read_off(conversation, schema)
                    asked = {"adapter": self.adapter, "counts": self.tiers, "max_attempts": 1}
                    answer = await ask_typed(model, prompt, schema, **asked)
                return Answer(json.dumps(answer.value, ensure_ascii=False))
            except ExtractionError:
                return told[-1] if told else Answer("")
        turns = [("user", prompt)]
        if self.adapter is None:
            return await self.asked(ask(model, turns), model, turns, role="extraction")
        from .adapter_calls import extracted

        with self._watched("extraction", None):
            return await extracted(self.adapter, model, signature, prompt)

    async def _read_off(self, conversation: Conversation, schema: Mapping[str, Any]) -> Answer:
        from ..adapters.call_log import Recording, call_constrained

        *before, last = ((turn.role, turn.text) for turn in conversation.turns)
        wanted = ", ".join(f'"{name}": ...' for name in schema["required"])
        turns = [*before, (last[0], f"{last[1]}\n\n{READ_OFF.format(wanted=wanted)}")]
        record = Recording()
        answer = await call_constrained("tier3", self.main_model, turns, schema, conversation.system, {}, record)
        self._count_held(EXTRACTION, record.seconds, answer, success=not answer.truncated)
        return answer

    def count_step(self, answer: Answer, seconds: float, *, held: bool, success: bool) -> None:
        """Count a reply of the main model among the tiers: whether there was code in it."""
        if held:
            self._count_held(STEP, seconds, answer, success=success)
            return
        from ..adapters.call_log import Recording

        tries = Recording([call for call in answer.calls if call.step.startswith(("tier", "retry"))]).by_tier()
        model, last = str(self.main_model.model), len(tries)
        for place, (tier, calls) in enumerate(tries.items(), 1):  # the adapter has counted them, too
            used: dict[str, Any] = {"seconds": calls.seconds, "tokens_in": calls.tokens_in}
            used["tokens_out"] = calls.tokens_out
            self.tiers.record(STEP, model, tier, success=success and place == last, **used)
        if tries and not success:
            self.tiers.record_unanswered(STEP, model)

    def _count_held(self, label: str, seconds: float, answer: Answer, *, success: bool) -> None:
        """Count an answer of a main model that was held to it."""
        used, model = {"tokens_in": answer.tokens_in, "tokens_out": answer.tokens_out}, str(self.main_model.model)
        for metrics in (getattr(self.adapter, "metrics", None), self.tiers):
            if isinstance(metrics, TierMetrics):
                if manner_of(self.main_model).brief:
                    metrics.record_start(label, model, 3)
                metrics.record(label, model, 3, success=success, seconds=seconds, **used)
                if not success:
                    metrics.record_unanswered(label, model)

    @contextlib.contextmanager
    def _watched(self, role: str, iteration: int | None, told: list[Answer] | None = None) -> Iterator[None]:
        """Calls that adapters make inside are counted and told as all others are. The first one was paid for before."""
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
            system = next((one["content"] for one in call.messages if one["role"] == "system"), None)
            turns = [(one["role"], one["content"]) for one in call.messages if one["role"] != "system"]
            about_call = about(call.step, call.model)
            self.emit(ModelAsked(self.emit.run_id, number, **about_call, system=system, turns=turns))
            self._answered(number, role, iteration, answer, call.seconds)
            if told is not None:
                told.append(answer)

        try:
            with watch_calls(after, before=before):
                yield
        except ModelError as error:  # what was sent is not known; that it failed is
            number = next(self._numbers)
            name = str(getattr(asked, "model", asked))
            self.emit(ModelAsked(self.emit.run_id, number, **about("", name), system=None, turns=[]))
            self._failed(number, role, error, began)
            raise

    async def asked(
        self, answering: Awaitable[Answer], model: Any, turns: Sequence[tuple[str, str]], **about: Any
    ) -> Answer:
        """What a model that is being asked answers: counted, and told. `about` has the role of it."""
        number, began = next(self._numbers), time.monotonic()
        call = current_call.get() if about["role"] == "sub" else None  # a child run is asked inside its parent's call
        about = {"iteration": None, "retained": 0, "system": None, "call": call, **about}
        name = str(getattr(model, "model", model))
        self.emit(ModelAsked(self.emit.run_id, number, **about, model=name, turns=turns))
        try:
            answer = await answering
        except (ModelError, OutOfTime) as error:
            self._failed(number, about["role"], error, began)
            raise
        self._excuse(answer, about["role"])
        self._answered(number, about["role"], about["iteration"], answer, time.monotonic() - began)
        return answer

    def _failed(self, number: int, role: str, error: ModelError | OutOfTime, began: float) -> None:
        """Tell of a question that was not answered."""
        self._excuse(error, role)
        kind = error.kind if isinstance(error, ModelError) else "out of time"
        seconds = time.monotonic() - began
        self.emit(ModelFailed(self.emit.run_id, number, role, kind, str(error), seconds))

    def _answered(self, number: int, role: str, iteration: int | None, answer: Answer, seconds: float) -> None:
        """Count what an answer used, and tell of it."""
        for one in answer.calls or (answer,):
            self.ledger.record_usage(one.tokens_in, one.tokens_out, one.cost_usd, cached=one.cached)
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

    def _excuse(self, outcome: Any, role: str) -> None:
        """Leave out of the clock how long a busy model was waited for; in a cell, where others go on, it runs on."""
        waited = getattr(outcome, "waited", 0.0)
        if waited and role != "sub":
            self.ledger.excuse(waited)
