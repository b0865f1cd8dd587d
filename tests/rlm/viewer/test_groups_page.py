"""Runs in groups: navigation, batches, evaluations, plans, sessions; endings, cost, right answers."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from rlm.evals.log import LogEntry
from rlm.evals.log_writer import LogWriter
from rlm.events import Event
from rlm.traces.notes import Notes
from tests.support.events import make_event
from tests.support.viewer_runs import ended, iteration, started, tell
from tests.support.viewer_server import serve

pytestmark = [pytest.mark.asyncio(loop_scope="session"), pytest.mark.browser]

ROWS = ".runs .window-row"
IDS = [f"{number:x}" * 12 for number in range(10)]
SESSION = "s" * 12


def expect(locator: Any) -> Any:
    from playwright.async_api import expect as expected

    expected.set_options(timeout=30_000)
    return expected(locator)


def extracted(run: str, when: float) -> Event:
    result = {"status": "extracted", "outputs": {"answer": "42"}, "confidence": 0.8, "usage": {"cost_usd": 0.01}}
    data = {"ending": "Extracted", "confidence": 0.8, "reason": "4 of 4 iterations", "result": result}
    return make_event("run_ended", run, data, when)


def batch(results: str) -> Iterator[Event]:
    """Six runs of a batch on two models, the last one failed; a run outside of it, with a plan."""
    now = time.time()
    for number, run in enumerate(IDS[:6]):
        start = started(run, now - number, model=f"made/{'large' if number % 3 else 'small'}", doc="text")
        task = {"path": "tasks/story.yaml", "batch": results, "item": f"story {number % 5}"}
        yield make_event("run_started", run, {**start.data, "task": task}, now - number)
        yield from iteration(run, 1, now, code="x = 1", output="1")
        yield extracted(run, now + 1) if number < 5 else make_event("run_interrupted", run, {}, now + 1)
    yield started(IDS[6], now, name="Other", doc="text")
    plan = started(IDS[7], now, name="Other", doc="text").data
    about = {"parent": IDS[6], "depth": 1, "task": {"plan": {"name": "guess it"}}}
    yield make_event("run_started", IDS[7], {**plan, **about}, now)
    yield ended(IDS[7], now + 1, {"answer": "42"})
    yield ended(IDS[6], now + 1, {"answer": "42"})
    for question, run in enumerate(IDS[8:], 1):
        task = {"session": SESSION, "question": question}
        yield make_event("run_started", run, {**started(run, now, name="Asked").data, "task": task}, now + question)
        yield ended(run, now + question + 1, {"answer": str(question)})


@pytest.fixture(scope="module")
def grouped(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    home = tmp_path_factory.mktemp("grouped-home")
    tell(home, batch("/data/answers to all.jsonl"))
    header: dict[str, Any] = {"format": 1, "suites": [{"name": "story", "path": None}], "lengths": [4_000], "seed": 7}
    header |= {"epochs": 1, "total": 3, "models": {"main": "made/large"}, "configuration": {}, "count": 3}
    about: dict[str, Any] = {"suite": "story", "length": 4_000, "epoch": 1, "ending": "Extracted", "confidence": 0.8}
    about |= {"outputs": {"answer": "42"}, "expected": {"answer": "42"}, "seconds": 1.0}
    with LogWriter(home / "evals" / "stories", {**header, "baseline": None, "versions": {}}) as writer:
        for run, score in zip(IDS[:2], (1.0, 0.0), strict=True):
            writer.append(LogEntry(sample_id=run, score=score, scores={"answer": score}, run_id=run, **about))
    (home / "evals" / "broken").mkdir()
    (home / "evals" / "broken" / "header.json").write_text("{")
    Notes(home).write(IDS[2], "", ["right"])
    yield from serve(home)


async def test_one_navigation_leads_to_runs_batches_evaluations_plans_and_sessions(tab: Any, grouped: str) -> None:
    page = tab.page
    await page.goto(grouped)
    parts = page.locator(".parts a")
    await expect(parts).to_have_text(["Runs", "Batches", "Evaluations", "Plans", "Sessions"])
    await expect(page.locator(".parts a[aria-current=page]")).to_have_text("Runs")
    await expect(page.locator(".total")).to_have_text("9 runs")
    totals = {
        "Batches": "6 runs in 1 group",
        "Plans": "1 run with plans",
        "Sessions": "2 runs in 1 group",
        "Runs": "9 runs",
    }
    for name, total in totals.items():
        await parts.filter(has_text=name).click()
        await expect(page.locator(".total")).to_have_text(total)
        await expect(page.locator(".parts a[aria-current=page]")).to_have_text(name)
    await page.set_viewport_size({"width": 360, "height": 740})
    for place in ("batches", "evals", "plans", "sessions", "groups/model"):
        await page.goto(f"{grouped}#/{place}")
        await expect(page.locator(ROWS).first).to_be_visible()
        assert await tab.wide() <= 0, place
        assert await page.locator(".parts").evaluate("parts => parts.scrollWidth <= parts.clientWidth"), place


async def test_a_session_leads_to_its_questions(tab: Any, grouped: str) -> None:
    page = tab.page
    await page.goto(f"{grouped}#/sessions")
    await page.click(f"[data-group='{SESSION}'] .name")
    await expect(page.locator(ROWS)).to_have_count(2)
    await expect(page.locator("#search")).to_have_value(f"session:{SESSION}")
    await page.click(f"[data-id='{IDS[9]}'] .name")
    await page.click(f"a:has-text('question 2 of session {SESSION}')")
    await expect(page.locator(ROWS)).to_have_count(2)


async def test_a_batch_shows_its_endings_and_opens_its_runs(tab: Any, grouped: str) -> None:
    page = tab.page
    await page.goto(f"{grouped}#/batches")
    row = page.locator(ROWS)
    await expect(row.locator(".name")).to_have_text("answers to all.jsonl")
    await expect(row.locator(".sub")).to_contain_text("5 items")
    await expect(row.locator(".many")).to_have_text("6")
    await expect(row.locator(".endings-bar")).to_have_attribute("aria-label", "5 extracted, 1 unfinished")
    await expect(row.locator(".right")).to_have_text("67% of 3")
    await page.keyboard.press("j")
    await page.keyboard.press("Enter")
    await expect(page.locator("#search")).to_have_value('batch:"/data/answers to all.jsonl"')
    await expect(page.locator(ROWS)).to_have_count(6)
    await page.locator(ROWS).first.click()
    await page.click(".run-about a:has-text('batch')")
    await expect(page.locator(ROWS)).to_have_count(6)


async def test_runs_are_grouped_by_model_task_and_day(tab: Any, grouped: str) -> None:
    page = tab.page
    await page.goto(grouped)
    await page.fill("#search", "task:story")
    await expect(page.locator(ROWS)).to_have_count(6)
    await page.select_option("select[data-name=group]", "model")
    await expect(page.locator(ROWS)).to_have_count(2)
    await expect(page.locator("#search")).to_have_value("task:story")
    large = page.locator("[data-group='made/large']")
    await expect(large.locator(".many")).to_have_text("4")
    await expect(large.locator(".cost")).to_have_text("$0.0310")
    await page.click(".runs-head .cost button")
    await expect(page.locator(ROWS).first).to_have_attribute("data-group", "made/large")
    await page.select_option("select[data-name=group]", "day")
    await expect(page.locator(ROWS)).to_have_count(1)
    await page.select_option("select[data-name=group]", "model")
    await page.click("[data-group='made/small'] .name")
    await expect(page.locator("#search")).to_have_value("task:story model:made/small")
    await expect(page.locator(ROWS)).to_have_count(2)
    await page.locator(ROWS).first.click()
    await expect(page.locator("h1")).to_have_text("story")
    await page.keyboard.press("Escape")
    await expect(page.locator("#search")).to_have_value("task:story model:made/small")


async def test_confidence_is_charted_against_right_answers_where_they_are_known(tab: Any, grouped: str) -> None:
    page = tab.page
    await page.goto(f"{grouped}#/groups/model")
    chart = page.locator(".calibration")
    await expect(chart.locator("tbody td")).to_have_text(["0.80", "67%", "3"])
    await expect(chart.locator("circle")).to_have_count(1)
    await page.fill("#search", "label:right")
    await expect(chart.locator("tbody td")).to_have_text(["0.80", "100%", "1"])
    await page.fill("#search", "task:nothing")
    await expect(chart).to_have_count(0)


async def test_evaluations_are_listed_and_a_broken_one_says_why(tab: Any, grouped: str) -> None:
    page = tab.page
    await page.goto(f"{grouped}#/evals")
    await expect(page.locator(ROWS)).to_have_count(2)
    await expect(page.locator("[data-evaluation=broken] .sub")).to_contain_text("header.json cannot be read")
    row = page.locator("[data-evaluation=stories]")
    await expect(row.locator(".score")).to_have_text("0.50")
    await expect(row.locator(".many")).to_have_text("2 of 3")
    await row.locator(".name").click()
    await expect(page.locator(".suite-about h1")).to_have_text("stories")
    await expect(page.locator(".calibration tbody td")).to_have_text(["0.80", "50%", "2"])
    await page.click(f"[data-sample='{IDS[1]}'] .given")
    await expect(page.locator(".sample-line")).to_contain_text("Score 0.00")
    await page.click(".sample-line a")
    await expect(page.locator(".suite-about h1")).to_have_text("stories")


async def test_runs_with_plans_name_them(tab: Any, grouped: str) -> None:
    page = tab.page
    await page.goto(f"{grouped}#/plans")
    await expect(page.locator(f"{ROWS} .sub")).to_contain_text("guess it")
    await page.locator(ROWS).click()
    await expect(page.locator("h1")).to_have_text("Other")


async def test_a_home_without_anything_says_how_to_begin(tab: Any, tmp_path: Path) -> None:
    page = tab.page
    with contextlib.contextmanager(serve)(tmp_path) as address:
        for place, text in (("batches", "rlm batch"), ("evals", "rlm eval run"), ("plans", "plans:"), ("", "rlm run")):
            await page.goto(f"{address}#/{place}")
            await tab.until(f"document.querySelector('.window.empty')?.dataset.empty.includes('{text}')")
        await page.goto("about:blank")
