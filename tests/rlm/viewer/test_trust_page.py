"""How far an answer can be trusted, on the page: independent runs, second programs, checks, refused answers."""

from __future__ import annotations

import asyncio
import contextlib
from pathlib import Path
from typing import Any

import pytest

import sandbox
from rlm.agreement.loop import AgreementLoop
from rlm.agreement.settings import AgreementSettings
from rlm.budgets import FallbackTrigger
from rlm.models.scripted import scripted_lm
from rlm.repl.config import RunConfig
from rlm.results import ExecutionResult
from rlm.signatures import Signature
from rlm.traces import TraceWriter
from tests.support.viewer_server import serve

pytestmark = [pytest.mark.asyncio(loop_scope="session"), pytest.mark.browser]

RIGHT, WRONG = "SUBMIT(answer=doc.count('a'))", "SUBMIT(answer=len(doc))"


def record(home: Path, pool: sandbox.Pool, *codes: str, agree: int = 0, **options: Any) -> ExecutionResult[Any]:
    model = scripted_lm([f"```python\n{code}\n```" for code in codes])
    with TraceWriter(home) as writer:
        config = RunConfig(Signature.of("doc -> answer: int"), model, pool=pool, observe=writer, **options)
        inputs = {"doc": "banana"}
        running = AgreementLoop(config, inputs, AgreementSettings(agree)).run() if agree else config.run(inputs)
        result = asyncio.run(running)
        assert writer.flush(60), writer.problem
    return result


async def test_independent_runs_are_listed_with_their_dissent(tab: Any, tmp_path: Path, pool: sandbox.Pool) -> None:
    page = tab.page
    result = await asyncio.to_thread(record, tmp_path, pool, WRONG, RIGHT, RIGHT, agree=3)
    with contextlib.contextmanager(serve)(tmp_path) as address:
        await page.goto(f"{address}#/run/{result.run_id}")
        await expect(page.locator(".confidence-note")).to_have_text("submitted, verified: 2 of 3")
        await expect(page.locator(".agreement summary")).to_have_text("Independent runs: 2 of 3 agree")
        dissent = page.locator(".agreement-runs .dissent")
        await expect(dissent).to_contain_text("differs first in cell 1: SUBMIT(answer=len(doc)) instead of")
        await page.click("tr[data-field=answer] .origin")
        await page.click("tr[data-field=answer] .chain a >> text=cell 1, line 1")
        await expect(page.locator(".wanted-line")).to_contain_text("doc.count")
        assert result.agreement is not None
        assert f"#/run/{result.agreement['run_id']}/1" in page.url
        await page.goto("about:blank")


async def test_second_programs_and_checks_are_shown_as_such(tab: Any, tmp_path: Path, pool: sandbox.Pool) -> None:
    page = tab.page
    second = "n = sum(1 for one in doc if one == 'a') + 1\nSUBMIT(answer=n)"
    options: dict[str, Any] = {"verify": True, "checks": ("answer > 0",)}
    result = await asyncio.to_thread(lambda: record(tmp_path, pool, RIGHT, second, **options))
    with contextlib.contextmanager(serve)(tmp_path) as address:
        await page.goto(f"{address}#/run/{result.run_id}")
        await expect(page.locator(".confidence-note")).to_contain_text("disputed: a second program")
        await expect(page.locator(".evidence.check")).to_have_text("checked: answer > 0")
        program = page.locator(".evidence.program.differs")
        await expect(program).to_have_text("a second program differs")
        await program.click()
        await expect(page.locator(".chain-panel code").first).to_have_text("4")
        await page.goto("about:blank")


async def test_an_answer_that_was_not_accepted_shows_its_evidence(tab: Any, tmp_path: Path, pool: sandbox.Pool) -> None:
    page = tab.page
    trigger = FallbackTrigger(max_iterations=1)
    extraction = scripted_lm({"*": "no"})
    refused = "SUBMIT(answer=doc.count('a'), more=1)"
    result = await asyncio.to_thread(
        lambda: record(tmp_path, pool, refused, trigger=trigger, extraction_model=extraction)
    )
    with contextlib.contextmanager(serve)(tmp_path) as address:
        await page.goto(f"{address}#/run/{result.run_id}")
        await expect(page.locator(".answer-card h2")).to_have_text("Partial answer")
        await expect(page.locator("tr[data-field=answer] .origin")).to_have_text("computed from doc")
        await page.goto("about:blank")


def expect(locator: Any) -> Any:
    from playwright.async_api import expect as expected

    expected.set_options(timeout=30_000)
    return expected(locator)
