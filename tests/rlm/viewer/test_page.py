"""The page in a real browser: list, run, evidence, tree, comparison, live, keys, narrow, dark."""

from __future__ import annotations

import contextlib
import re
import time
from pathlib import Path
from typing import Any

import pytest

from rlm.traces import TraceWriter
from tests.support.events import make_event
from tests.support.viewer_runs import ended, iteration, started, tell
from tests.support.viewer_server import serve

pytestmark = [pytest.mark.asyncio(loop_scope="session"), pytest.mark.browser]


def expect(locator: Any) -> Any:
    from playwright.async_api import expect as expected

    expected.set_options(timeout=30_000)
    return expected(locator)


async def test_the_list_is_searched_filtered_and_sorted(tab: Any, address: str, runs: Any) -> None:
    page = tab.page
    await page.goto(address)
    rows = page.locator(".runs .window-row")
    await expect(page.locator(".total")).to_have_text("5 runs")
    await expect(rows).to_have_count(5)
    lease = page.locator(f"[data-id='{runs.leases[0]}']")
    await expect(lease.locator(".badge")).to_have_text("extracted")
    await expect(lease.locator(".answer")).to_contain_text("payer: the tenant")
    await expect(lease.locator(".confidence")).to_have_text(re.compile(r"0\.\d+"))  # a formula, not a probability

    await page.click(".chip[data-ending=extracted]")
    await expect(rows).to_have_count(2)
    await expect(page.locator("#search")).to_have_value("ending:extracted")
    await page.fill("#search", "count")
    await expect(rows).to_have_count(2)
    await page.fill("#search", "cost>0.005 duration>1m story")
    await expect(rows).to_have_count(0)
    await page.fill("#search", "cost>0.005 story")
    await expect(rows).to_have_count(1)
    await page.fill("#search", "reason:iterations")
    await expect(rows).to_have_count(2)
    await page.fill("#search", "")
    await page.select_option("select[data-name=confidence]", label="Confidence: 90% and up")
    await expect(page.locator("#search")).to_have_value("confidence>=0.9")
    await expect(rows).to_have_count(4)

    await page.fill("#search", "")
    await expect(rows).to_have_count(5)
    await page.click(".runs-head .iterations button")
    await expect(page.locator(".runs .window-row .iterations")).to_have_text(["1,000", "4", "4", "2", "2"])
    await page.click(".chip:has-text('child runs')")
    await expect(rows).to_have_count(7)


async def test_a_run_shows_its_answer_budgets_timeline_and_steps(tab: Any, address: str, runs: Any) -> None:
    page = tab.page
    await page.goto(f"{address}#/run/{runs.leases[0]}")
    await expect(page.locator("tr[data-field=rent] .answer-value")).to_have_text("4001")
    await expect(page.locator(".reason")).to_have_text("4 of 4 iterations used without SUBMIT")
    cause = page.locator(".gauge.cause")
    await expect(cause).to_have_attribute("data-gauge", "iterations")
    await expect(cause.locator(".gauge-value")).to_have_text("4 of 4")
    assert await cause.locator(".bar-fired").evaluate("one => one.style.left") == "100%"
    await expect(page.locator("[data-gauge=llm_calls] .bar-fired")).to_have_count(1)
    await expect(page.locator("[data-gauge=tokens] .spark-fired")).to_have_count(1)

    colours = """canvas => {
        const data = canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height).data;
        const pixels = Array.from({length: data.length / 4}, (_, at) => data.slice(4 * at, 4 * at + 4).join());
        return new Set(pixels).size }"""
    await tab.until("document.querySelector('.flame-canvas')?.height > 150")
    assert await page.locator(".flame-canvas").evaluate(colours) > 20

    steps = page.locator(".rail .window-row")
    assert [await steps.nth(at).get_attribute("data-step") for at in range(8)] == [
        *("start", "1", "2", "3", "4", "trigger", "attempt-1", "attempt-2")
    ]
    await page.click("[data-step='4']")
    await expect(page.locator(".pane h2")).to_have_text("Iteration 4")
    await expect(page.locator(".pane .state")).to_have_text("NameError")
    await expect(page.locator("pre.code .py-keyword")).to_have_text(["del"])
    await expect(page.locator("pre.code .error-line")).to_have_text("nowhere")
    await expect(page.locator("pre.out")).to_contain_text("the rent is 4001")
    await expect(page.locator("tr.variable.added th")).to_have_text(["rent"])
    await expect(page.locator("tr.variable.removed th")).to_have_text(["answers"])
    await page.click("summary:has-text('Prompt')")
    await expect(page.locator(".turn pre").first).to_contain_text("rlm_query")

    await page.click("[data-step=start]")
    await expect(page.locator(".pane")).to_contain_text(re.compile(r"doc\s+str, [\d,]+ characters"))
    await page.click("summary:has-text('Show the beginning')")
    await expect(page.locator(".input pre")).to_contain_text("§ 1. The monthly rent is EUR 4001")


async def test_a_call_shows_what_was_asked_and_answered(tab: Any, address: str, runs: Any) -> None:
    page = tab.page
    await page.goto(f"{address}#/run/{runs.leases[0]}/2")
    await page.click("details.call > summary:has-text('llm_batch')")
    await expect(page.locator("details.call pre").first).to_contain_text("Who pays? § 1.")
    await expect(page.locator("details.call pre").nth(1)).to_contain_text('"the tenant"')


async def test_an_extraction_shows_every_attempt(tab: Any, address: str, runs: Any) -> None:
    page = tab.page
    await page.goto(f"{address}#/run/{runs.leases[0]}/attempt-1")
    await expect(page.locator(".pane h2")).to_have_text("Extraction, attempt 1")
    await expect(page.locator("pre[aria-label='Raw text']")).to_have_text('{"payer": "the tenant", "rent": "a lot"}')
    await expect(page.locator(".problems li code").first).to_have_text("/rent")
    await page.click(".part:has(h3:text('Prompt')) summary")
    await expect(page.locator(".part:has(h3:text('Prompt')) pre")).to_contain_text("the rent is 4001")
    await page.click("[data-step=attempt-2]")
    await expect(page.locator(".pane .state")).to_have_text("accepted")
    await page.click("[data-step=trigger]")
    await expect(page.locator(".pane .lead")).to_have_text("4 of 4 iterations used without SUBMIT")


async def test_evidence_leads_to_where_a_value_came_from(tab: Any, address: str, runs: Any) -> None:
    page = tab.page
    await page.goto(f"{address}#/run/{runs.leases[0]}")
    await page.click("tr[data-field=payer] a.evidence.history")
    await expect(page.locator(".pane h2")).to_have_text("Iteration 2")
    await expect(page.locator(".pane pre mark")).to_have_text("the tenant")
    await expect(page.locator(".pane pre mark")).to_be_in_viewport()
    await page.click("tr[data-field=payer] a.evidence.variable")
    await expect(page.locator("tr.variable.wanted th")).to_have_text("payer")
    await expect(page.locator("tr.variable.wanted")).to_be_in_viewport()
    await page.goto(f"{address}#/run/{runs.counts[0]}")
    await page.click("tr[data-field=n] a.evidence.submitted")
    await expect(page.locator("pre.code .py-repl")).to_have_text("SUBMIT")


async def test_the_tree_opens_branch_by_branch(tab: Any, address: str, runs: Any) -> None:
    page = tab.page
    await page.goto(f"{address}#/run/{runs.leases[0]}")
    await page.click("[data-tab=tree]")
    rows = page.locator(".tree .tree-row")
    await expect(rows).to_have_count(6)  # the run, four iterations, the extraction

    async def open_branch(label: str) -> Any:
        row = page.locator(".tree .tree-row", has_text=label).last
        await row.locator(".twist").click()
        return row

    await open_branch("Iteration 3")
    await expect(rows).to_have_count(8)
    call = await open_branch("rlm_query()")
    await expect(call.locator(".num").nth(0)).to_have_text("\u2013")  # it asked nobody itself
    await expect(call.locator(".num").nth(1)).to_have_text(re.compile(r"^[\d.]+k? tok$"))
    total = await call.locator(".num").nth(1).inner_text()
    child = await open_branch("part -> due_day")
    await expect(child.locator(".num").nth(1)).to_have_text(total)
    await expect(rows).to_have_count(11)
    await page.locator(".tree .tree-row a", has_text="part -> due_day").click()
    await expect(page.locator("h1")).to_have_text("part -> due_day")
    await page.click("text=child of")
    await expect(page.locator("h1")).to_have_text("lease")


async def test_an_answer_from_the_cache_is_marked(tab: Any, tmp_path: Path) -> None:
    page, run, begin = tab.page, "c" * 12, time.time()
    asked = {"id": 7, "role": "extraction", "iteration": None, "call": None, "model": "made/main", "turns": []}
    tell(
        tmp_path,
        [
            started(run, begin, doc="text"),
            *iteration(run, 1, begin + 1, code="first = 1", output="one", calls=1),
            *iteration(run, 2, begin + 2, code="second = 2", output="two", calls=1, cached=True),
            make_event("model_asked", run, asked, begin + 3),
            make_event("model_answered", run, {"id": 7, "role": "extraction", "text": "{}", "cached": True}, begin + 3),
            make_event(
                "extraction_attempt", run, {"number": 1, "prompt": "p", "text": "{}", "problems": []}, begin + 3
            ),
            ended(run, begin + 4, {"answer": "42"}),
        ],
    )
    with contextlib.contextmanager(serve)(tmp_path) as address:
        for step, times in (("1", 0), ("2", 1), ("attempt-1", 1)):
            await page.goto(f"{address}#/run/{run}/{step}")
            await expect(page.locator(f".window-row.selected[data-step='{step}']")).to_be_visible()
            await expect(page.locator(".pane .figures", has_text="answer cached")).to_have_count(times)
            await expect(page.locator(".pane .call-figures", has_text="cached")).to_have_count(int(step == "2"))
        await expect(page.locator(".rail .step-sub", has_text="cached")).to_have_count(1)
        await expect(page.locator("[data-step='2'] .step-sub")).to_contain_text("cached")
        await page.click("[data-tab=tree]")
        for branch in ("Iteration 2", "llm_query()", "Extraction", "Iteration 1"):
            await page.locator(".tree .tree-row", has_text=branch).locator(".twist").click()
        await expect(page.locator(".tree [data-kind=model] .tree-detail")).to_have_text(["main", "cached"])
        await expect(page.locator(".tree [data-kind=sub] .tree-detail")).to_have_text(["cached"])
        await expect(page.locator(".tree [data-kind=extraction] .tree-detail")).to_have_text(["", "cached"])
        await page.goto("about:blank")


async def test_two_runs_are_compared_side_by_side(tab: Any, address: str, runs: Any) -> None:
    page = tab.page
    first, second = runs.leases
    await page.goto(address)
    await page.check(f"[data-id='{first}'] input")
    await page.check(f"[data-id='{second}'] input")
    await page.click(".compare-bar a")
    await expect(page.locator(".compare-head code")).to_have_text([first, second])
    await expect(page.locator(".pairs")).to_be_visible()
    await expect(page.locator(".sides").first.locator("tr.differs td")).to_have_text(["4001", "987654"])
    await expect(page.locator(".compare-page")).to_contain_text("the same in both")
    await page.goto(f"{address}#/compare/{runs.counts[0]}/{runs.counts[1]}")
    await expect(page.locator(".compare-page")).to_contain_text("they diverge at iteration 1")
    await expect(page.locator(".sides").first.locator("tr.differs td")).to_have_text(["10", "20"])
    await expect(page.locator(".pair[open] .diff td.changed")).to_have_text(["10", "20"])
    await page.click("button:has-text('the same')")
    await expect(page.locator(".sides tr.same").first).to_be_visible()


async def test_a_run_is_followed_while_it_goes_on(tab: Any, tmp_path: Path) -> None:
    page, run = tab.page, "a" * 12
    with TraceWriter(tmp_path) as writer, contextlib.contextmanager(serve)(tmp_path) as address:

        def write(*events: Any) -> None:
            for event in events:
                writer(event)
            assert writer.flush(30), writer.problem

        begin = time.time()
        write(started(run, begin, doc="text"), *iteration(run, 1, begin, code="first = 1", output="one"))
        await page.goto(f"{address}#/run/{run}")
        await expect(page.locator(".run-title .badge")).to_have_text("running")
        await expect(page.locator(".pane h2")).to_have_text("Iteration 1")
        await expect(page.locator("[data-gauge=iterations] .gauge-value")).to_have_text("1 of 20")
        write(*iteration(run, 2, begin + 1, code="second = 2", output="two"))
        await expect(page.locator(".pane h2")).to_have_text("Iteration 2")
        await expect(page.locator("pre.code")).to_have_text("second = 2\n")
        await expect(page.locator("[data-gauge=iterations] .gauge-value")).to_have_text("2 of 20")
        await page.click("[data-step='1']")
        await expect(page.locator(".pane h2")).to_have_text("Iteration 1")
        write(*iteration(run, 3, begin + 2, code="third = 3", output="three"), ended(run, begin + 3, {"answer": "42"}))
        await expect(page.locator(".run-title .badge")).to_have_text("submitted")
        await expect(page.locator("tr[data-field=answer] .answer-value")).to_have_text("42")
        await expect(page.locator("[data-step='3']")).to_be_visible()
        await expect(page.locator(".pane h2")).to_have_text("Iteration 1")  # what is being read stays
        await page.goto("about:blank")


async def test_the_keys_do_what_the_help_says(tab: Any, address: str, runs: Any) -> None:
    page = tab.page
    await page.goto(address)
    await expect(page.locator(".runs .window-row").first).to_be_visible()
    await page.keyboard.press("?")
    await expect(page.locator("dialog.help")).to_be_visible()
    await page.keyboard.press("Escape")
    await expect(page.locator("dialog.help")).not_to_be_visible()
    await page.keyboard.press("/")
    await page.keyboard.type("lease")
    await expect(page.locator(".runs .window-row")).to_have_count(2)
    await page.keyboard.press("ArrowDown")
    await page.keyboard.press("j")
    await page.keyboard.press("k")
    await page.keyboard.press("j")
    await expect(page.locator(".window-row.selected")).to_have_attribute("data-id", runs.leases[0])
    await page.keyboard.press("Enter")
    await expect(page.locator("h1")).to_have_text("lease")
    await expect(page.locator(".pane h2")).to_have_text("Iteration 1")
    await page.keyboard.press("j")
    await expect(page.locator(".pane h2")).to_have_text("Iteration 2")
    await page.keyboard.press("G")
    await expect(page.locator(".pane h2")).to_have_text("Extraction, attempt 2")
    await page.keyboard.press("g")
    await expect(page.locator(".pane h2")).to_have_text("Start")
    await page.keyboard.press("Escape")
    await expect(page.locator(".runs .window-row").first).to_be_visible()


async def test_the_cards_above_the_steps_can_be_hidden(tab: Any, address: str, runs: Any) -> None:
    page = tab.page
    await page.goto(f"{address}#/run/{runs.leases[0]}")
    cards = page.locator(".run-cards, .flame")
    await expect(cards.first).to_be_visible()
    await page.click("button:has-text('Hide overview')")
    await expect(cards.first).not_to_be_visible()
    await expect(cards.last).not_to_be_visible()
    await page.goto(f"{address}#/run/{runs.counts[0]}")
    await expect(page.locator("h1")).to_have_text("count")
    await expect(cards.first).not_to_be_visible()
    await page.keyboard.press("o")
    await expect(cards.first).to_be_visible()
    await tab.until("document.querySelector('.flame-canvas')?.width > 600")  # drawn, although it was hidden before


async def test_enter_in_the_search_opens_the_first_match(tab: Any, address: str, runs: Any) -> None:
    page = tab.page
    await page.clock.install()
    await page.goto(address)
    await expect(page.locator(".runs .window-row").first).to_be_visible()
    await page.keyboard.press("/")
    await page.keyboard.type(runs.counts[0])
    await page.keyboard.press("Enter")
    await expect(page.locator("h1")).to_have_text("count")
    await page.clock.run_for(1_000)  # every timer of the list would have fired
    assert f"#/run/{runs.counts[0]}" in page.url


async def test_an_unknown_condition_is_named_and_the_help_lists_the_known_ones(tab: Any, address: str) -> None:
    page = tab.page
    await page.goto(address)
    await expect(page.locator(".runs .window-row").first).to_be_visible()
    message = page.locator(".window.empty")
    for typed, text in (
        ("confidnce<0.5", "There is no condition “confidnce”. Did you mean confidence<0.5?"),
        ("colour:red", "There is no condition “colour”. Press ? for the list."),
        ("confidence<high", "“high” is not a number: confidence takes 0.5, 50%, 10k or 2m."),
        ("ending=failed", "ending takes a colon: ending:failed"),
        ("constructor>1", "There is no condition “constructor”. Press ? for the list."),
        ("ending:unfinished", "No run matches."),
        ("zebra", "No run matches."),
    ):
        await page.fill("#search", typed)
        await expect(message).to_have_attribute("data-empty", text)
    await page.fill("#search", "payer: tenant")  # not a condition, and in the text
    await expect(page.locator(".runs .window-row")).to_have_count(2)
    await page.click("button.keys")
    for condition in ("ending:", "confidence<0.5", "cost>0.01", "duration>=2m", "tokens>10k", "score<1"):
        await expect(page.locator("dialog.help .conditions")).to_contain_text(condition)


async def test_numbers_have_units(tab: Any, address: str, runs: Any) -> None:
    page = tab.page
    await page.goto(f"{address}#/run/{runs.leases[0]}/start")
    limits = page.locator(".part:has(> h3:text('Limits')) > dl > dd")
    await expect(limits).to_have_text(["4", "20", "5:00 min", "500,000"])
    settings = page.locator(".part:has(> h3:text('Settings'))")
    units = {"memory size": "1 GiB", "cell time": "1:00 min", "call size": "4 MiB", "file count": "2,000"}
    for name, value in units.items():
        await expect(settings.locator(f"dt:text-is('{name}') + dd")).to_have_text(value)
    await page.click("[data-step=trigger]")
    await expect(page.locator(".part:has(> h3:text('Limit')) dd")).to_have_text(["max iterations", "4", "4"])


async def test_the_start_of_the_kernel_is_no_part_of_the_first_cell(tab: Any, tmp_path: Path) -> None:
    page, run, begin = tab.page, "e" * 12, 1_000_000.0
    events = [
        make_event("iteration_started", run, {"iteration": 1}, begin),
        make_event("cell_started", run, {"iteration": 1, "code": "x = 1"}, begin),
        make_event("cell_ended", run, {"iteration": 1, "output": "", "success": True, "seconds": 0.1}, begin + 0.5),
        make_event("history", run, {"iteration": 1, "reasoning": "I go on."}, begin + 0.5),
        make_event("iteration_started", run, {"iteration": 2}, begin + 0.5),
        make_event("cell_started", run, {"iteration": 2, "code": "x = 2"}, begin + 0.5),
        make_event("cell_ended", run, {"iteration": 2, "output": "", "success": True, "seconds": 0.5}, begin + 1),
        make_event("history", run, {"iteration": 2, "reasoning": "I go on."}, begin + 1),
    ]
    tell(tmp_path, [started(run, begin, doc="text"), *events, ended(run, begin + 1, {"answer": "42"})])
    with contextlib.contextmanager(serve)(tmp_path) as address:
        await page.goto(f"{address}#/run/{run}")
        await expect(page.locator(".pane h2")).to_have_text("Iteration 1")  # so nothing moves any more
        canvas = page.locator(".flame-canvas")
        await tab.until("document.querySelector('.flame-canvas')?.height > 70")
        width = await canvas.evaluate("one => one.clientWidth")
        for share, bar, took in (
            (0.2, "Kernel start before the cell of iteration 1", "400 ms"),
            (0.45, "Cell of iteration 1", "100 ms"),
            (0.75, "Cell of iteration 2", "500 ms"),
        ):
            await canvas.hover(position={"x": width * share, "y": 22 + 2.5 * 20})
            await expect(page.locator(".tip b")).to_have_text(bar)
            await expect(page.locator(".tip span")).to_have_text(took)
        await page.goto("about:blank")


async def test_waits_for_a_provider_are_bars_and_have_their_reasons(tab: Any, tmp_path: Path) -> None:
    page, run, begin = tab.page, "7" * 12, 1_000_000.0
    asked = {"id": 7, "role": "main", "iteration": 1, "call": None, "model": "made/main", "turns": [["user", "q"]]}
    wait = {"id": 7, "role": "main", "model": "made/main", "reason": "429 Too Many Requests", "seconds": 4.0}
    answered = {"id": 7, "role": "main", "iteration": 1, "text": "x", "seconds": 8.0}
    events = [
        make_event("iteration_started", run, {"iteration": 1}, begin),
        make_event("model_asked", run, asked, begin),
        make_event("model_waiting", run, wait, begin + 1),
        make_event("model_waiting", run, {**wait, "seconds": 60.0}, begin + 6),
        make_event("model_answered", run, answered, begin + 8),  # the second wait was shorter than expected
        make_event(
            "not_recorded", run, {"kind": "call_ended", "iteration": 1, "not_kept": "TypeError: odd"}, begin + 8
        ),
        make_event("history", run, {"iteration": 1, "reasoning": "I go on."}, begin + 8),
    ]
    tell(tmp_path, [started(run, begin, doc="text"), *events, ended(run, begin + 8, {"answer": "42"})])
    with contextlib.contextmanager(serve)(tmp_path) as address:
        await page.goto(f"{address}#/run/{run}")
        await expect(page.locator(".pane .waits li")).to_have_text(
            [re.compile(r"4\.0 s.*made/main: 429 Too Many Requests.*1\.0 s"), re.compile(r"1:00 min")]
        )
        await expect(page.locator(".pane .figures")).to_contain_text("waited 6.0 s")
        await expect(page.locator("[data-step='1'] .step-sub")).to_contain_text("waited 6.0 s")
        await expect(page.locator(".pane .problem")).to_contain_text("call_ended) could not be recorded: TypeError")
        canvas = page.locator(".flame-canvas")
        await tab.until("document.querySelector('.flame-canvas')?.height > 90")
        width = await canvas.evaluate("one => one.clientWidth")
        await canvas.hover(position={"x": width * 0.3, "y": 22 + 3.5 * 20})
        await expect(page.locator(".tip b")).to_have_text("Wait: 429 Too Many Requests")
        await expect(page.locator(".tip span")).to_have_text("4.0 s")
        await page.goto("about:blank")


async def test_a_live_run_says_whom_it_waits_for(tab: Any, tmp_path: Path) -> None:
    page, run, now = tab.page, "8" * 12, time.time()
    asked = {"id": 7, "role": "main", "iteration": 1, "call": None, "model": "made/main", "turns": [["user", "q"]]}
    wait = {"id": 7, "role": "main", "model": "made/main", "reason": "503", "seconds": 600.0}
    with TraceWriter(tmp_path) as writer, contextlib.contextmanager(serve)(tmp_path) as address:
        writer(started(run, now, doc="text"))
        writer(make_event("iteration_started", run, {"iteration": 1}, now))
        writer(make_event("model_asked", run, asked, now))
        writer(make_event("model_waiting", run, wait, now))
        assert writer.flush(30), writer.problem
        await page.goto(f"{address}#/run/{run}")
        await expect(page.locator(".pane .state")).to_have_text(re.compile("^waiting for made/main until .*: 503$"))
        await page.goto("about:blank")


async def test_runs_have_a_model_column(tab: Any, address: str, runs: Any) -> None:
    page = tab.page
    await page.goto(address)
    models = page.locator(".runs .window-row .model")
    await expect(models).to_have_text(["main"] * 5)
    await expect(page.locator(f"[data-id='{runs.leases[0]}'] .model")).to_have_attribute("title", "scripted/main")
    await page.click(".runs-head .model button")
    await expect(models.first).to_have_attribute("title", "made/main")


async def test_rows_reach_the_edge_of_their_card(tab: Any, address: str) -> None:
    page = tab.page
    await page.goto(address)
    await expect(page.locator(".runs .window-row").first).to_be_visible()
    gaps = """() => ["left", "right"].map(side => Math.abs(
        document.querySelector(".runs .window-row").getBoundingClientRect()[side]
        - document.querySelector(".card.runs").getBoundingClientRect()[side]))"""
    assert max(await page.evaluate(gaps)) <= 1.5


async def test_prompts_are_in_a_monospaced_face_and_reasoning_is_not(tab: Any, address: str, runs: Any) -> None:
    page = tab.page
    await page.goto(f"{address}#/run/{runs.leases[0]}/2")
    face = "one => getComputedStyle(one).fontFamily"
    assert "mono" not in await page.locator(".part:has(> h3:text('Reasoning')) pre").evaluate(face)
    await page.click("summary:has-text('Prompt')")
    await expect(page.locator(".turn pre.prompt")).not_to_have_count(0)
    await page.click("summary:has-text('System prompt')")
    await expect(page.locator("details:has(> summary:has-text('System prompt')) pre.prompt").last).to_be_visible()
    for block in await page.locator(".fold pre.prompt").all():
        assert "mono" in await block.evaluate(face)


async def test_a_narrow_screen_shows_all_of_it(tab: Any, address: str, runs: Any) -> None:
    page = tab.page
    await page.set_viewport_size({"width": 360, "height": 740})
    places = (
        "",
        f"#/run/{runs.leases[0]}",
        f"#/run/{runs.leases[0]}/2",
        f"#/compare/{runs.counts[0]}/{runs.counts[1]}",
    )
    for place in places:
        await page.goto(address + place)
        await expect(page.locator(".window-row, .pane h2, .pairs").first).to_be_visible()
        assert await tab.wide() <= 0, place
    await page.goto(address)
    await expect(page.locator(".chip")).to_have_count(3)
    for control in await page.locator(".chip, .selects select").all():
        box = await control.bounding_box()
        assert box is not None
        assert box["x"] >= 0
        assert box["x"] + box["width"] <= 360
    await page.goto(f"{address}#/run/{runs.leases[0]}/2")
    await page.click("[aria-label='Next step']")
    await expect(page.locator(".pane h2")).to_have_text("Iteration 3")
    await page.click("[data-tab=tree]")
    assert await tab.wide() <= 0


async def test_dark_is_dark_and_light_is_light(tab: Any, address: str) -> None:
    page = tab.page
    await page.goto(address)
    lightness = """() => ["background-color", "color"].map(name =>
        getComputedStyle(document.documentElement).getPropertyValue(name).match(/\\d+/g).slice(0, 3)
            .reduce((sum, one) => sum + Number(one), 0) / 765)"""
    ground, ink = await page.evaluate(lightness)
    assert ground > 0.9
    assert ink < 0.3
    await page.emulate_media(color_scheme="dark")
    ground, ink = await page.evaluate(lightness)
    assert ground < 0.15
    assert ink > 0.8


async def test_a_run_of_very_many_events_is_a_skeleton(tab: Any, address: str) -> None:
    page = tab.page
    await page.goto(f"{address}#/run/{'1' * 12}")
    await expect(page.locator(".pane h2")).to_have_text("Iteration 1")
    assert await page.evaluate("document.querySelectorAll('*').length") < 1_500
    assert not any("/blobs/" in one for one in tab.asked if "start=0" not in one)
    await page.keyboard.press("G")
    await expect(page.locator(".pane h2")).to_have_text("Iteration 1000")
    await expect(page.locator("[data-step='1000']")).to_be_visible()
    await expect(page.locator("pre.out")).to_contain_text("1000 1000")
    assert await page.locator(".rail .window-row").count() < 60
    assert sum("/events?after=0" in one for one in tab.asked) == 1


async def test_what_is_not_there_is_said(tab: Any, address: str) -> None:
    page = tab.page
    await page.goto(f"{address}#/run/nothing")
    await expect(page.locator(".failed-page")).to_contain_text("no recorded run has an id that begins with 'nothing'")
    await tab.complained("404")  # the browser's own complaint may come later
    assert [one for one in tab.complaints if "404" not in one and "no recorded run" not in one] == []
    tab.complaints.clear()
