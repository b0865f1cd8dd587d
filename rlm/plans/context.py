"""What every step of one loop needs: the task's driver and inputs, the models by name, the budget, the logs."""

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
class Context:
    """One loop, as its steps see it."""

    run_id: str
    loop_id: str
    """The id of the loop's first run: another one only where a loop goes on."""

    driver: RunConfig
    inputs: dict[str, Any]
    settings: PlanSettings
    models: Mapping[str, Any]
    """The task's own (`main`, `sub`, `extraction`), and those of the settings."""

    ledger: Ledger
    logs: PlanLogs
    emit: Emitter
    asker: RunModels

    @classmethod
    def of(
        cls,
        driver: RunConfig,
        inputs: Mapping[str, Any],
        settings: PlanSettings,
        past: RecordedRun | None,
        loop_id: str | None,
    ) -> Context:
        """The context of a loop that begins or goes on. Raises `InvalidInputs`, and `ValueError` for unknown models."""
        plain = driver.check_inputs(inputs)
        main = driver.main_model
        sub, extraction = driver.sub_model or main, driver.extraction_model or main
        models = {"main": main, "sub": sub, "extraction": extraction, **settings.models}
        settings.check_models(models)
        # Sealed here, once: all plans read the same memory.
        large = {name: value for name, value in plain.items() if _is_large(value)}
        driver = replace(driver, sealed={name: sandbox.Text(value) for name, value in large.items()})
        run_id = uuid.uuid4().hex[:12]
        ledger = Ledger(driver.trigger, spent=past.usage if past is not None else None)
        emit = Emitter(run_id, driver.observe)
        asker = RunModels(main, sub, extraction, ledger, emit)
        logs = PlanLogs(settings.logs)
        return cls(run_id, loop_id or run_id, driver, plain, settings, models, ledger, logs, emit, asker)

    async def ask(self, model: str | None, prompt: str, role: str) -> Reply:
        """One answer of a model, without a memory of others. Raises `ModelError`, and `BudgetExceeded`."""
        if (reason := self.used_up()) is not None:
            raise BudgetExceeded(reason)
        asked, turns, left = self.models[model or "main"], [("user", prompt)], self.ledger.seconds_left()
        answering = ask(asked, turns, deadline=time.monotonic() + left if math.isfinite(left) else None)
        answer = await self.asker.asked(answering, asked, turns, role=role)
        return Reply(answer.text, answer.truncated, answer.tokens_in, answer.tokens_out)

    def used_up(self) -> FallbackReason | None:
        """The limit of the whole loop that is reached, if one is."""
        return self.ledger.trigger.shared_limit(self.ledger.state())


def _is_large(value: Any) -> bool:
    return isinstance(value, str) and len(value) > SMALL_BYTES // 4
