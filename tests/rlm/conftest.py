"""Shared by the tests of rlm: runs that are recorded, and packages that look as if they were not installed."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import sandbox
from rlm.budgets import FallbackTrigger
from rlm.models.scripted import scripted_lm
from rlm.repl.config import RunConfig
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
            driver = RunConfig(
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


class _Finder:
    """A module finder that does not find some packages, as if they were not installed."""

    def __init__(self, finder: Any, hidden: frozenset[str]) -> None:
        self._finder = finder
        self._hidden = hidden

    def find_spec(self, name: str, *rest: Any) -> Any:
        return None if name.partition(".")[0] in self._hidden else self._finder.find_spec(name, *rest)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._finder, name)


@pytest.fixture
def hide_packages(monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """Make packages look as if they were not installed, for imports and for `find_spec`."""

    def hide(*names: str) -> None:
        monkeypatch.setattr(sys, "meta_path", [_Finder(finder, frozenset(names)) for finder in sys.meta_path])
        for name in [name for name in sys.modules if name.partition(".")[0] in names]:
            monkeypatch.delitem(sys.modules, name)

    return hide
