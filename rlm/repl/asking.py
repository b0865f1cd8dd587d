"""Asking the models of one run: what they use is counted, what they are asked and answer is told to whoever watches."""

from __future__ import annotations

import asyncio
import itertools
import math
import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from ..budgets import Ledger
from ..models.ask import Answer, ModelError, ask
from .calls import current_call
from .events import Teller
from .past import Past
from .prompt import Conversation

Act = Callable[[Conversation], Awaitable[Answer]]


class OutOfTime(Exception):
    """The time of the run was over before the model had answered."""


@dataclass
class Asker:
    """Asks models on behalf of one run."""

    main_model: Any
    sub_model: Any
    extraction_model: Any
    ledger: Ledger
    tell: Teller
    act: Act | None = None
    """Asks the main model for its next reply, if not plainly: `Predict` lets dspy's predictor do it."""

    past: Past | None = None
    """A run that is done again: its replies are not asked for."""

    _numbers: Any = field(default_factory=lambda: itertools.count(1))
    _told: tuple[int, int] = (0, 0)
    """How much of the conversation has been told: its edition, and how many of its turns."""

    async def main(self, conversation: Conversation, iteration: int) -> Answer:
        """The main model's next reply. Raises `OutOfTime` when the run's time is over first."""
        if self.past is not None and iteration <= len(self.past.iterations):
            reply = self.past.iterations[iteration - 1].reply
            self.tell(
                "model_answered", {"id": next(self._numbers), "iteration": iteration, "text": reply, "past": True}
            )
            return Answer(reply)
        edition, count = self._told
        kept = count if edition == conversation.edition else 0
        self._told = (conversation.edition, len(conversation.turns))
        turns = [(turn.role, turn.text) for turn in conversation.turns]

        async def reply_of() -> Answer:
            try:
                left = self.ledger.seconds_left()
                async with asyncio.timeout(left if math.isfinite(left) else None):
                    if self.act is not None:
                        return await self.act(conversation)
                    return await ask(self.main_model, turns, system=conversation.system)
            except TimeoutError:
                raise OutOfTime from None

        about = {"role": "main", "iteration": iteration, "kept": kept, "system": conversation.system}
        return await self._asked(reply_of(), self.main_model, turns[kept:], **about)

    async def sub(self, prompt: str, *, main: bool = False, iteration: int = 0) -> Answer:
        """A question from inside the REPL, to the smaller model or to the main one."""
        model = self.main_model if main else self.sub_model
        turns = [("user", prompt)]
        return await self._asked(ask(model, turns), model, turns, role="sub", iteration=iteration)

    async def extraction(self, prompt: str) -> Answer:
        """An answer of the model that extracts."""
        turns = [("user", prompt)]
        return await self._asked(ask(self.extraction_model, turns), self.extraction_model, turns, role="extraction")

    async def _asked(
        self, answering: Awaitable[Answer], model: Any, turns: Sequence[tuple[str, str]], **about: Any
    ) -> Answer:
        number, began = next(self._numbers), time.monotonic()
        about = {"iteration": None, "kept": 0, "system": None, "call": current_call.get(), **about}
        named = {"model": getattr(model, "model", str(model)), "turns": turns}
        self.tell("model_asked", {"id": number, **about, **named})
        try:
            answer = await answering
        except (ModelError, OutOfTime) as error:
            kind = error.kind if isinstance(error, ModelError) else "out of time"
            failed = {"role": about["role"], "error_kind": kind, "message": str(error)}
            self.tell("model_failed", {"id": number, **failed, "seconds": time.monotonic() - began})
            raise
        self.ledger.record_usage(answer.tokens_in, answer.tokens_out, answer.cost_usd)
        told = {"role": about["role"], "iteration": about["iteration"], "text": answer.text}
        told |= {"truncated": answer.truncated, "seconds": time.monotonic() - began}
        told |= {"tokens_in": answer.tokens_in, "tokens_out": answer.tokens_out, "cost_usd": answer.cost_usd}
        self.tell("model_answered", {"id": number, **told})
        return answer
