"""`LoopContext`: what every step of a plan loop needs: run configuration, inputs, models, budget, logs and events."""

from __future__ import annotations

import math
import time
import uuid
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import sandbox
from sandbox.data import SMALL_BYTES

from ..budgets import BudgetExceeded, FallbackReason, Ledger
from ..events import Emitter
from ..extraction.retry import Reply
from ..models.client import ask
from ..repl.config import RunConfig
from ..repl.llm import RunModels
from ..repl.replay import RecordedRun
from .logs import PlanLogs
from .settings import PlanSettings


@dataclass(frozen=True)
class LoopContext:
    """The context of one plan loop."""

    run_id: str
    loop_id: str
    """The id of the loop's first run, which differs from `run_id` in a resumed loop."""

    config: RunConfig
    inputs: dict[str, Any]
    settings: PlanSettings
    models: Mapping[str, Any]
    """The models of the task (`main`, `sub`, `extraction`) and those of the settings, by name."""

    ledger: Ledger
    logs: PlanLogs
    emit: Emitter
    run_models: RunModels

    @classmethod
    def of(
        cls,
        config: RunConfig,
        inputs: Mapping[str, Any],
        settings: PlanSettings,
        past: RecordedRun | None,
        loop_id: str | None,
        ledger: Ledger | None = None,
    ) -> LoopContext:
        """Return the context of a new or resumed loop. Raises `InvalidInputs`, and `ValueError` for unknown models."""
        values = config.check_inputs(inputs)
        main = config.main_model
        sub, extraction = config.sub_model or main, config.extraction_model or main
        models = {"main": main, "sub": sub, "extraction": extraction, **settings.models}
        settings.check_models(models)
        # Sealed once, so that all plans read the same memory.
        large = {name: value for name, value in values.items() if _is_large(value)}
        config = replace(config, sealed={name: sandbox.Text(value) for name, value in large.items()})
        run_id = uuid.uuid4().hex[:12]
        ledger = ledger or Ledger(config.trigger, spent=past.usage if past is not None else None)
        emit = Emitter(run_id, config.observe)
        run_models = RunModels(main, sub, extraction, ledger, emit)
        logs = PlanLogs(settings.logs)
        return cls(run_id, loop_id or run_id, config, values, settings, models, ledger, logs, emit, run_models)

    async def ask(self, model: str | None, prompt: str, role: str) -> Reply:
        """Ask a model one question, without a conversation. Raises `ModelError` and `BudgetExceeded`."""
        if (reason := self.used_up()) is not None:
            raise BudgetExceeded(reason)
        lm, turns, left = self.models[model or "main"], [("user", prompt)], self.ledger.seconds_left()
        call = ask(lm, turns, deadline=time.monotonic() + left if math.isfinite(left) else None)
        answer = await self.run_models.asked(call, lm, turns, role=role)
        return Reply(answer.text, answer.truncated, answer.tokens_in, answer.tokens_out)

    def used_up(self) -> FallbackReason | None:
        """Return the limit of the whole loop that is used up; None if none is."""
        return self.ledger.trigger.shared_limit(self.ledger.state())


def _is_large(value: Any) -> bool:
    return isinstance(value, str) and len(value) > SMALL_BYTES // 4
