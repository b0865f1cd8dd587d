"""A run with plans on the page: candidates, verdicts, escalation; and the runs of its plans in timeline and tree."""

from __future__ import annotations

import asyncio
import contextlib
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import sandbox
from rlm.budgets import FallbackTrigger
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
    head, cell = (page.locator(f"table.plans {one}").first for one in ("th", "td"))
    colour = "one => getComputedStyle(one).color"
    assert await head.evaluate(colour) != await cell.evaluate(colour)
    await page.click(".rail .window-row:has-text('Escalated')")
    await expect(page.locator(".pane .lead")).to_have_text(re.compile("All 2 candidate plans were rejected"))
    await expect(page.locator("table.plans tbody tr")).to_have_count(2)
    await expect(page.locator("table.plans tbody tr").nth(1)).to_contain_text("count")
    assert not re.search(r"[0-9a-f]{8}-[0-9a-f]{4}-", await page.locator(".pane").inner_text())
    await page.click("summary:has-text('Identifiers')")
    await expect(page.locator(".pane .fold-body")).to_contain_text(re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-"))
    await page.click("[data-tab=tree]")
    await expect(page.locator(".tree-row[data-kind=run]")).to_have_count(3)
    await expect(page.locator(".tree")).to_contain_text("plan: count")
    await page.click("[data-tab=steps]")
    await page.click(".rail .window-row:has-text('Plan accepted')")
    await page.click(".detail-head a")
    await expect(page.locator(".rail .step-title").nth(1)).to_have_text("I guess.")
    assert page.url.endswith(f"#/run/{result.plan['run_id']}")


async def test_the_answer_of_a_run_with_plans_leads_to_the_run_that_submitted_it(
    tab: Any, plans_address: str, loop: tuple[Path, ExecutionResult[Any]]
) -> None:
    page, result = tab.page, loop[1]
    assert result.plan is not None
    await page.goto(f"{plans_address}#/run/{result.run_id}")
    await expect(page.locator("[data-gauge=iterations] .gauge-value")).to_have_text("1 of 20")
    await page.click("tr[data-field=answer] a.evidence.submitted")
    await expect(page.locator("pre.code .py-repl")).to_have_text("SUBMIT")
    assert page.url.endswith(f"#/run/{result.plan['run_id']}/1")
    await page.goto(plans_address)
    await expect(page.locator(f"[data-id='{result.run_id}'] .iterations")).to_have_text("1")


async def test_evidence_of_a_run_with_plans_leads_to_the_run_that_has_it(
    tab: Any, tmp_path: Path, pool: sandbox.Pool
) -> None:
    page = tab.page
    with TraceWriter(tmp_path) as writer:
        config = RunConfig(
            Signature.of("question -> answer: int, payer: str"),
            scripted_lm([cell("total = 4217\nprint(llm_query('Who pays?'))", "I add up.")]),
            scripted_lm({"*": "the tenant of the house"}, name="scripted/sub"),
            scripted_lm(['{"answer": 4217, "payer": "the tenant of the house"}'], name="scripted/extraction"),
            trigger=FallbackTrigger(max_iterations=1),
            pool=pool,
            observe=writer,
        )
        settings = PlanSettings((Plan("add up"),), count=1, thresholds=Thresholds(), logs=tmp_path / "plans")
        running = PlanLoop(config, {"question": "How many?"}, settings).run()
        result = await asyncio.to_thread(asyncio.run, running)
        assert writer.flush(60), writer.problem
    assert result.plan is not None
    with contextlib.contextmanager(serve)(tmp_path) as address:
        for field, kind in (("answer", "variable"), ("payer", "history")):
            await page.goto(f"{address}#/run/{result.run_id}")
            await page.click(f"tr[data-field={field}] a.evidence.{kind}")
            await expect(page.locator(".pane h2")).to_have_text("Iteration 1")
            assert f"#/run/{result.plan['run_id']}/1?" in page.url
        await page.goto("about:blank")
