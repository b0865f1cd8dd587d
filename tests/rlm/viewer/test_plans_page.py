"""A run with plans on the page: candidates, verdicts, escalation; and the runs of its plans in timeline and tree."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import sandbox
from rlm.models.scripted import scripted_lm
from rlm.plans import Operator, Plan, PlanSettings, Thresholds
from rlm.plans.runner import PlanLoop
from rlm.repl.config import RunConfig
from rlm.results import ExecutionResult
from rlm.signatures import Signature
from rlm.traces import TraceWriter
from tests.support.replies import cell
from tests.support.viewer_server import serve

pytestmark = [pytest.mark.asyncio(loop_scope="session"), pytest.mark.browser]

HOSTILE = "<img src=x onerror=alert(1)>\u202e guess"


def expect(locator: Any) -> Any:
    from playwright.async_api import expect as expected

    expected.set_options(timeout=30_000)
    return expected(locator)


@pytest.fixture(scope="module")
def loop(tmp_path_factory: pytest.TempPathFactory, pool: sandbox.Pool) -> tuple[Path, ExecutionResult[Any]]:
    """A loop both of whose plans are rejected, and one of them let pass by default."""
    home = tmp_path_factory.mktemp("plans-home")
    replies = {"guess": cell("SUBMIT(answer=1)", "I guess."), "count": cell("SUBMIT(answer=2)", "I count.")}
    settings = PlanSettings(
        (Plan(HOSTILE), Plan("count")),
        count=2,
        thresholds=Thresholds(invariants=("answer == 7",)),
        operator=Operator(default="approve"),
        logs=home / "plans",
    )
    with TraceWriter(home) as writer:
        driver = RunConfig(Signature.of("question -> answer: int"), scripted_lm(replies), pool=pool, observe=writer)
        result = asyncio.run(PlanLoop(driver, {"question": "How many?"}, settings).run())
        assert writer.flush(60), writer.problem
    return home, result


@pytest.fixture(scope="module")
def plans_address(loop: tuple[Path, ExecutionResult[Any]]) -> Iterator[str]:
    yield from serve(loop[0])


async def test_a_run_with_plans_shows_what_was_decided(
    tab: Any, plans_address: str, loop: tuple[Path, ExecutionResult[Any]]
) -> None:
    page, result = tab.page, loop[1]
    assert result.plan is not None
    await page.goto(f"{plans_address}#/run/{result.run_id}")
    titles = page.locator(".rail .step-title")
    await expect(titles).to_have_text(
        [
            *("Start", "Plans, round 1", "Plan 1 is run", "Plan 1 rejected", "Plan 2 is run", "Plan 2 rejected"),
            *("Escalated", "Answer: approve", "Plan accepted"),
        ]
    )
    assert await page.locator("img").count() == 0
    await page.click(".rail .window-row:has-text('Plans, round 1')")
    await expect(page.locator("table.plans tbody tr")).to_have_count(2)
    await expect(page.locator("table.plans tbody tr").nth(1)).to_contain_text("0.50")
    await page.click(".rail .window-row:has-text('Plan 2 rejected')")
    await expect(page.locator("table.plans tbody tr td")).to_have_text(
        ["invariant", "answer == 7", 'not true of {"answer": 2}']
    )
    await page.click("[data-tab=tree]")
    await expect(page.locator(".tree-row[data-kind=run]")).to_have_count(3)
    await expect(page.locator(".tree")).to_contain_text("plan: count")
    await page.click("[data-tab=steps]")
    await page.click(".rail .window-row:has-text('Plan accepted')")
    await page.click(".detail-head a")
    await expect(page.locator(".rail .step-title").nth(1)).to_have_text("I guess.")
    assert page.url.endswith(f"#/run/{result.plan['run_id']}")
