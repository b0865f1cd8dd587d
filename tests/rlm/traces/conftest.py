"""Real runs, recorded: a scripted model, the real sandbox, a real trace."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import sandbox
from rlm.budgets import FallbackTrigger
from rlm.models.scripted import scripted_lm
from rlm.repl.loop import Driver
from rlm.signatures import Signature
from rlm.traces import RunRecord, TraceWriter, load
from tests.support.trace_scripts import SHORT


@pytest.fixture
def record(tmp_path: Path, pool: sandbox.Pool) -> Callable[..., RunRecord]:
    """Runs a script to its end, and gives what is on record of it."""

    def record_one(
        replies: list[str],
        *,
        signature: str = "doc -> n: int",
        sub: Any = None,
        extraction: Any = None,
        max_iterations: int = 10,
        **inputs: Any,
    ) -> RunRecord:
        with TraceWriter(tmp_path) as writer:
            driver = Driver(
                Signature.of(signature),
                scripted_lm(replies),
                scripted_lm(sub or {"*": "yes"}, name="scripted/sub"),
                scripted_lm(extraction or [], name="scripted/extraction"),
                trigger=FallbackTrigger(max_iterations=max_iterations),
                observe=writer,
                pool=pool,
            )
            result = asyncio.run(driver.run(inputs or {"doc": SHORT}))
            assert writer.flush(60), writer.problem
        return load(tmp_path).run(result.run_id)

    return record_one
