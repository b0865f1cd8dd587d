"""A loop of plans for tests: a driver on scripted models, in the real sandbox, with logs in a folder of the test."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import sandbox
from rlm.events import Event
from rlm.models.scripted import scripted_lm
from rlm.plans import PlanLogs, PlanSettings
from rlm.plans.runner import PlanLoop
from rlm.repl.config import RunConfig
from rlm.repl.replay import RecordedRun
from rlm.signatures import Signature


class Loop:
    """A loop of plans that can be run, the models behind it, and what it said and wrote."""

    def __init__(self, pool: sandbox.Pool, logs: Path, main: Any, options: dict[str, Any]) -> None:
        self.main = scripted_lm(main)
        self.models = {name: scripted_lm(script) for name, script in options.pop("models", {}).items()}
        self.events: list[Event] = []
        self.logs = PlanLogs(logs)
        signature = options.pop("signature", "question: str -> answer: int")
        self.driver = RunConfig(Signature.of(signature), self.main, pool=pool, observe=self.events.append, **options)

    async def run(
        self,
        settings: PlanSettings | None = None,
        loop_id: str | None = None,
        past: RecordedRun | None = None,
        **inputs: Any,
    ) -> Any:
        given = inputs or {"question": "How many?"}
        return await PlanLoop(self.driver, given, settings or self.settings(), past=past, loop_id=loop_id).run()

    def settings(self, **changes: Any) -> PlanSettings:
        return PlanSettings(**{"logs": self.logs.folder, "models": self.models, **changes})

    def kinds(self, *wanted: str) -> list[Event]:
        return [one for one in self.events if one.kind in wanted]

    def asked(self, model: str = "main") -> list[str]:
        """What a model was asked: the last message of each request."""
        one = self.main if model == "main" else self.models[model]
        return [request.messages[-1].text for request in one._engine_spec.requests]
