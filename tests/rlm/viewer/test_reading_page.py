"""Reading a run: search, notes, copies and addresses of its parts, prompts compared, chains of evidence."""

from __future__ import annotations

import asyncio
import contextlib
import re
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import sandbox
from rlm.events import Event
from rlm.traces import load
from rlm.traces.notes import Notes
from rlm.viewer import run_search
from rlm.viewer.bundle import STATIC
from rlm.viewer.export import export_page
from tests.support.events import make_event
from tests.support.viewer_runs import ended, iteration, record_lease, started, tell
from tests.support.viewer_server import serve

pytestmark = [pytest.mark.asyncio(loop_scope="session"), pytest.mark.browser]

RUN = "9" * 12
LINE = 'print("the tenant pays")'


def expect(locator: Any) -> Any:
    from playwright.async_api import expect as expected

    expected.set_options(timeout=30_000)
    return expected(locator)


def story() -> Iterator[Event]:
    """Two iterations with a conversation that grows, and a submitted answer with its evidence."""
    now = time.time()
    doc = "\n".join(f"line {number}" for number in range(1, 400))
    yield started(RUN, now, doc=doc)
    yield from iteration(RUN, 1, now, code=f"{LINE}\nx = 1", output="the tenant pays\n" * 900 + "Zebra", calls=60)
    events = list(iteration(RUN, 2, now + 1, code="SUBMIT(answer=doc[5:6])", output="done"))
    asked = {**events[1].data, "kept": 1, "turns": [["assistant", "I looked."], ["user", "It printed the tenant."]]}
    yield events[0]
    yield make_event("model_asked", RUN, asked, now + 1)
    yield from events[2:]
    at = doc.index("line 250")
    chain = [{"iteration": 1, "line": 2, "code": "x = 1"}, {"iteration": 2, "line": 1, "code": "SUBMIT(answer=x)"}]
    evidence = [
        {"path": "/answer", "kind": "quoted", "quote": "line 250", "input": "doc", "span": [at, at + 8], "line": 250}
        | {"inputs": ["doc"], "chain": chain, "iteration": 2},
        {"path": "/other", "kind": "typed", "quote": "7", "iteration": 2, "chain": chain[1:], "note": "seen before"},
    ]
    yield ended(RUN, now + 2, {"answer": "line 250", "other": 7}, evidence=evidence, trust="unverified")


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("reading-home")
    tell(made, story())
    return made


@pytest.fixture(scope="module")
def place(home: Path) -> Iterator[str]:
    yield from serve(home)


async def test_a_run_is_searched_and_the_places_lead_to_its_parts(tab: Any, place: str) -> None:
    page = tab.page
    await page.goto(f"{place}#/run/{RUN}")
    await expect(page.locator(".pane h2")).to_have_text("Iteration 1")
    await page.keyboard.press("/")
    await page.keyboard.type("the TENANT")
    places = page.locator(".places .place")
    await expect(places.filter(has_text="Iteration 1 code")).to_have_count(1)
    await expect(places.filter(has_text="Iteration 1 output")).to_contain_text("899 more")
    await expect(places.filter(has_text="Iteration 2 prompt").locator("mark")).to_have_text("the tenant")
    await page.keyboard.press("Enter")
    await expect(page.locator(".part.wanted[data-part=prompt-and-reply]")).to_be_in_viewport()
    await expect(page.locator(".part.wanted pre", has_text=LINE)).to_be_visible()
    await places.filter(has_text="Iteration 1 code").click()
    await expect(page.locator(".part.wanted[data-part=code]")).to_be_in_viewport()
    await tab.until("CSS.highlights.get('found')?.size > 5")
    await places.filter(has_text="Iteration 2 prompt").click()
    await expect(page.locator(".pane h2")).to_have_text("Iteration 2")
    await expect(page.locator(".turn pre", has_text="It printed the tenant.")).to_be_visible()
    await page.fill(".run-search", "zebra")
    await expect(places.first).to_contain_text("Zebra")
    await places.filter(has_text="Iteration 1 output").click()
    await expect(page.locator("pre.out mark")).to_have_text("Zebra")  # beyond the part that is loaded first
    await expect(page.locator("pre.out mark")).to_be_in_viewport()
    await page.fill(".run-search", "nowhere at all")
    await expect(page.locator(".places")).to_have_text("It is nowhere in this run.")
    await page.keyboard.press("Escape")
    await expect(page.locator(".rail")).to_be_visible()
    await expect(page.locator(".places")).not_to_be_visible()


async def test_the_file_finds_what_the_server_finds(tab: Any, home: Path, tmp_path: Path) -> None:
    page = tab.page
    target = tmp_path / "run.html"
    run = load(home).run(RUN)
    target.write_text(export_page(run).text, encoding="utf-8")
    found = run_search.search(run, "the tenant")["places"]
    assert found
    await page.goto(f"{target.as_uri()}#/run/{RUN}?find=the+tenant")
    places = page.locator(".places .place")
    await expect(places).to_have_count(len(found))
    steps = [f"Iteration {place['step']} {place['part']}" for place in found]
    assert await places.locator(".place-step").all_inner_texts() == steps


async def test_the_page_and_the_server_search_the_same_fields() -> None:
    script = (STATIC / "lib" / "embedded_search.js").read_text(encoding="utf-8")
    table = re.search(r"SEARCHED = \{\n(.*?)\n\};", script, re.DOTALL)
    assert table is not None
    rows = re.findall(r"(\w+): \{ (.*?) \}", table[1])
    assert {kind: dict(re.findall(r'(\w+): "(\w+)"', fields)) for kind, fields in rows} == run_search.PARTS


async def test_a_note_is_written_and_found_again(tab: Any, home: Path, place: str) -> None:
    page = tab.page
    await page.goto(f"{place}#/run/{RUN}")
    await expect(page.locator(".pane h2")).to_have_text("Iteration 1")
    await page.keyboard.press("n")
    await page.locator(".note-card textarea").fill("Look at <b>line 250</b> again.\nj")
    await page.check(".note-card input[value=wrong]")
    await page.fill(".note-card input[type=text]", "lease, to look at")
    await page.keyboard.press("Control+Enter")
    await expect(page.locator(".note-card .label")).to_have_text(["wrong", "lease", "to look at"])
    await expect(page.locator(".note-text")).to_have_text("Look at <b>line 250</b> again.\nj")
    assert Notes(home).all()[RUN].labels == ("wrong", "lease", "to look at")
    await expect(page.locator(".pane h2")).to_have_text("Iteration 1")  # `j` was a letter
    await page.goto(place)
    await page.fill("#search", "label:wrong note:250")
    await expect(page.locator(".runs .window-row")).to_have_count(1)
    await page.goto(f"{place}#/run/{RUN}")
    await page.click("button:has-text('Edit note')")
    await page.fill(".note-card input[type=text]", "x" * 41)
    await page.click(".note-card button[type=submit]")
    await expect(page.locator(".note-card .problem")).to_contain_text("at most 40 characters")
    await page.fill(".note-card input[type=text]", "")
    await page.fill(".note-card textarea", "")
    await page.uncheck(".note-card input[value=wrong]")
    await page.click(".note-card button[type=submit]")
    await expect(page.locator("button:has-text('Add a note')")).to_be_visible()
    assert Notes(home).all() == {}
    tab.complaints[:] = [one for one in tab.complaints if "400" not in one]  # the browser's own, of the refusal


async def test_without_the_token_nothing_can_be_written(tab: Any, home: Path, place: str) -> None:
    page = tab.page
    await page.goto(f"{'/'.join(place.split('/')[:3])}/#/run/{RUN}")
    await expect(page.locator(".pane h2")).to_have_text("Iteration 1")
    await expect(page.locator("button:has-text('note')")).to_have_count(0)
    await page.keyboard.press("n")
    await expect(page.locator(".note-card form")).to_have_count(0)


async def test_everything_can_be_copied_and_has_an_address(tab: Any, place: str) -> None:
    page = tab.page
    await page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    copied = "navigator.clipboard.readText()"
    await page.goto(f"{place}#/run/{RUN}/1")
    await page.locator(".text-box:has(pre.code)").hover()
    await page.click(".text-box:has(pre.code) .copy")
    await expect(page.locator(".text-box:has(pre.code) .copy")).to_have_attribute("data-label", "Copied")
    assert await page.evaluate(copied) == f"{LINE}\nx = 1"
    await page.locator(".text-box:has(pre.out)").hover()
    await page.click(".text-box:has(pre.out) .copy")
    await expect(page.locator(".text-box:has(pre.out) .copy")).to_have_attribute("data-label", "Copied")
    assert (await page.evaluate(copied)).endswith("Zebra")  # all of it, not only the part that is shown
    await page.click("button[data-label='Copy link']")
    await expect(page.locator(".run-buttons .copy")).to_have_attribute("data-label", "Copied")
    assert await page.evaluate(copied) == f"{place}#/run/{RUN}/1"
    await page.locator("[data-part=variables] h3").hover()
    await page.click("[data-part=variables] .anchor")
    await expect(page.locator(".part.wanted")).to_have_attribute("data-part", "variables")
    assert page.url.endswith(f"#/run/{RUN}/1?part=variables")
    await page.goto(f"{place}#/run/{RUN}/1?call=1000055")  # beyond the calls that are listed first
    await expect(page.locator(".call.wanted .fold-body")).to_contain_text("Arguments")
    await page.goto(f"{place}#/run/{RUN}?tab=tree")
    await expect(page.locator(".tree-row").first).to_be_visible()


async def test_the_prompts_of_two_iterations_are_compared(tab: Any, place: str) -> None:
    page = tab.page
    await page.goto(f"{place}#/run/{RUN}/2")
    await page.click("summary:has-text('Compare with the prompt')")
    await expect(page.locator(".prompt-diff h3")).to_have_text(["assistant", "user"])
    await expect(page.locator(".prompt-diff")).to_contain_text("2 messages are the same.")
    await expect(page.locator(".prompt-diff td.none")).to_have_count(2)
    await expect(page.locator(".prompt-diff td.changed")).to_have_text(["I looked.", "It printed the tenant."])


async def test_evidence_is_a_chain_from_the_input_to_submit(tab: Any, place: str) -> None:
    page = tab.page
    await page.goto(f"{place}#/run/{RUN}")
    quoted = page.locator("tr[data-field=answer]")
    await quoted.locator("button.origin.quoted").click()
    await expect(quoted.locator(".chain li")).to_have_text(
        ["input doc", "cell 1, line 2x = 1", "cell 2, line 1SUBMIT(answer=x)", "SUBMIT"]
    )
    await quoted.locator(".chain a", has_text="cell 1").click()
    await expect(page.locator(".pane h2")).to_have_text("Iteration 1")
    await expect(page.locator(".wanted-line")).to_have_text("x = 1\n")
    await quoted.locator(".chain a", has_text="doc").click()
    await expect(page.locator(".pane h2")).to_have_text("Start")
    await expect(page.locator(".input.wanted mark")).to_have_text("line 250")
    await expect(page.locator(".input.wanted mark")).to_be_in_viewport()
    typed = page.locator("tr[data-field=other]")
    await expect(typed.locator("button.origin")).to_have_text("typed into the code")
    decoration = "one => getComputedStyle(one.querySelector('.value')).textDecorationStyle"
    assert await typed.locator(".answer-value").evaluate(decoration) == "dashed"
    assert await quoted.locator(".answer-value").evaluate(decoration) == "solid"  # the initial value: no line
    await typed.locator("button.origin").click()
    await expect(typed.locator(".chain-panel")).to_contain_text("seen before")
    await expect(page.locator(".chain-panel")).to_have_count(2)


async def test_a_real_run_has_origins_for_its_outputs(tab: Any, tmp_path: Path, pool: sandbox.Pool) -> None:
    page = tab.page
    run = await asyncio.to_thread(record_lease, tmp_path, pool)
    with contextlib.contextmanager(serve)(tmp_path) as address:
        await page.goto(f"{address}#/run/{run}")
        await expect(page.locator("tr[data-field=payer] .origin")).to_have_text("said by a model")
        await expect(page.locator("tr[data-field=rent] .origin")).to_have_text("typed into the code")
        await page.locator("tr[data-field=rent] .origin").click()
        await page.locator("tr[data-field=rent] .chain a").last.click()
        await expect(page.locator(".wanted-line")).to_contain_text("rent = 4000 + 1")
        await page.goto("about:blank")
