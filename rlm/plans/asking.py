"""Asking models on behalf of a loop, for plans and for judgements: counted by its ledger, and told."""

from __future__ import annotations

import itertools
import math
import time
from dataclasses import dataclass, field
from typing import Any

from ..budgets import BudgetExceeded, Ledger
from ..extraction.orchestrator import Reply
from ..models.ask import ModelError, ask
from ..repl.events import Teller


@dataclass
class LoopAsker:
    """Asks the models of one loop, one question at a time, each without a memory of the others."""

    ledger: Ledger
    tell: Teller
    _numbers: Any = field(default_factory=lambda: itertools.count(1))

    async def ask(self, model: Any, prompt: str, role: str) -> Reply:
        """One answer. Raises `ModelError`, and `BudgetExceeded` where nothing is left to ask with."""
        reason = self.ledger.trigger.shared_limit(self.ledger.state())
        if reason is not None:
            raise BudgetExceeded(reason)
        number, began, turns = next(self._numbers), time.monotonic(), [("user", prompt)]
        about = {"id": number, "role": role, "iteration": None, "call": None, "kept": 0, "system": None}
        self.tell("model_asked", {**about, "model": getattr(model, "model", str(model)), "turns": turns})
        left = self.ledger.seconds_left()
        try:
            answer = await ask(model, turns, deadline=began + left if math.isfinite(left) else None)
        except ModelError as error:
            failed = {"id": number, "role": role, "error_kind": error.kind, "message": str(error)}
            self.tell("model_failed", {**failed, "seconds": time.monotonic() - began})
            raise
        self.ledger.record_usage(answer.tokens_in, answer.tokens_out, answer.cost_usd)
        self.ledger.excuse(answer.waited)
        told = {"id": number, "role": role, "iteration": None, "text": answer.text, "truncated": answer.truncated}
        told |= {"tokens_in": answer.tokens_in, "tokens_out": answer.tokens_out, "cost_usd": answer.cost_usd}
        self.tell("model_answered", {**told, "seconds": time.monotonic() - began})
        return Reply(answer.text, answer.truncated, answer.tokens_in, answer.tokens_out)
