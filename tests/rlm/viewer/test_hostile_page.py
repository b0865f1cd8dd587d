"""A trace is hostile text: in a real browser it stays text. And the page as a file, which is made of the same text."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from rlm.events import Event
from rlm.traces import load
from rlm.viewer.export import export_page
from tests.support.events import make_event
from tests.support.viewer_runs import ended, iteration, started, tell
from tests.support.viewer_server import serve

pytestmark = [pytest.mark.asyncio(loop_scope="session"), pytest.mark.browser]

RUN = "b" * 12
SCRIPT = (
    "</script><script>window.pwned = 1; alert(1)</script><img src=x onerror='window.pwned = 1'>"
    "<style>*{color:red}</style>"
)
BIDI = "if access \u202eresu nimda\u202c \u2066// end\u2069"
ANSI = "\x1b[31mred\x1b[0m \x1b]8;;https://example.org\x07link\x1b]8;;\x07 \x00\x07\x08"
LONE = "half \ud800 other \udfff pair \U0001f600 done"
LONG_LINE = "x" * 1_000_000
ALL = f"{SCRIPT}\n{BIDI}\n{ANSI}\n{LONE}\n--> <!-- ${{7*7}} {{{{7*7}}}}\n"


def hostile() -> Iterator[Event]:
    """Every place where text of a model or of a cell is kept, with everything in it."""
    now = time.time()
    yield started(RUN, now, name=f"Story {SCRIPT}", model=f"made/{SCRIPT}", **{f"doc {SCRIPT}"[:60]: ALL})
    yield from iteration(RUN, 1, now, code=f"print('''{ALL}''')", output=ALL, calls=1, thought=ALL)
    yield from iteration(RUN, 2, now + 1, code="#" + LONG_LINE, output=LONG_LINE + "the end", thought=LONE)
    variables = {f"v{SCRIPT}": {"type": SCRIPT, "size": 3, "preview": ALL[:200]}}
    yield make_event(
        "variables", RUN, {"iteration": 2, "added": variables, "changed": {}, "removed": [SCRIPT]}, now + 2
    )
    yield make_event(
        "call_started", RUN, {"id": 9, "name": SCRIPT, "iteration": 2, "arguments": ALL, "preview": ALL}, now + 2
    )
    yield make_event("call_ended", RUN, {"id": 9, "name": SCRIPT, "iteration": 2, "seconds": 1, "error": ALL}, now + 2)
    yield make_event("trigger_fired", RUN, {"reason": ALL, "reason_data": {"kind": SCRIPT}}, now + 3)
    problems = [{"path": SCRIPT, "message": ALL}]
    yield make_event(
        "extraction_attempt", RUN, {"number": 1, "prompt": ALL, "text": ALL, "problems": problems}, now + 3
    )
    evidence = [
        {"path": "/answer", "kind": "variable", "quote": ALL[:200], "variable": f"v{SCRIPT}"},
        {"path": "/answer", "kind": "history", "quote": "the end", "iteration": 2, "span": [1_000_000, 1_000_007]},
        {"path": SCRIPT, "kind": SCRIPT, "quote": SCRIPT, "iteration": "javascript:alert(1)", "span": SCRIPT},
    ]
    outputs = {"answer": ALL, SCRIPT: {"$body": "not a hash", "$json": "<b>"}, "__proto__": {"toString": 1}}
    yield ended(RUN, now + 4, outputs, evidence=evidence, extraction_notes=ALL)


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("hostile-home")
    tell(made, hostile())
    return made


@pytest.fixture(scope="module")
def hostile_address(home: Path) -> Iterator[str]:
    yield from serve(home)


async def read_all(tab: Any, begin: str, home: Path) -> None:
    """Look at every step and open everything that opens; nothing may have run, loaded or changed the page."""
    page = tab.page
    elsewhere: list[str] = []
    page.on("request", lambda request: request.url.startswith(begin.split("#")[0]) or elsewhere.append(request.url))
    for step in ("start", "1", "2", "trigger", "attempt-1"):
        await page.goto(f"{begin}#/run/{RUN}/{step}")
        await page.wait_for_selector(f".window-row.selected[data-step='{step}']")
        await page.wait_for_selector(".pane .detail")
        await page.evaluate("document.querySelectorAll('details').forEach(one => { one.open = true })")
        await tab.until("[...document.querySelectorAll('.fold[open] > .fold-body')].every(one => one.firstChild)")
    await page.click("[data-tab=tree]")
    assert await page.evaluate("window.pwned") is None
    assert await page.locator("#page script, #page img, #page iframe, #page style, #page link").count() == 0
    assert [one for one in elsewhere if not one.startswith("data:")] == []
    assert (await tab.wide()) <= 0


async def test_hostile_text_stays_text(tab: Any, hostile_address: str, home: Path) -> None:
    page = tab.page
    await page.goto(hostile_address)
    await page.wait_for_selector(".runs .window-row")
    assert await page.evaluate("window.pwned") is None
    await read_all(tab, hostile_address, home)

    await page.goto(f"{hostile_address}#/run/{RUN}/1")
    output = page.locator(".pane pre.out")
    await output.wait_for()
    shown = await output.inner_text()
    assert SCRIPT in shown  # to the letter
    assert "U+202E" in shown  # and what would turn the line around is named
    assert "␛[31mred" in shown
    assert "half U+D800 other U+DFFF pair \U0001f600 done" in shown
    assert "\u202e" not in shown
    assert "\x1b" not in shown


async def test_a_megabyte_in_one_line_opens_piece_by_piece(tab: Any, hostile_address: str) -> None:
    page = tab.page
    await page.goto(f"{hostile_address}#/run/{RUN}/2")
    output = page.locator(".pane pre.out")
    await output.wait_for()
    await tab.until("document.querySelector('.pane pre.out')?.textContent.length === 12000")
    await page.click(".pane .text-box:has(pre.out) button:has-text('of 1,000,007 characters')")
    await tab.until("document.querySelector('.pane pre.out')?.textContent.length === 112000")
    await page.click("a.evidence.history")  # it points behind the megabyte
    await page.wait_for_selector(".pane pre mark")
    assert await page.locator(".pane pre mark").inner_text() == "the end"
    await tab.until("document.querySelector('.pane pre.out')?.textContent.length < 5000")
    await page.click("a.evidence.variable")
    await page.wait_for_selector("tr.variable.wanted")


async def test_no_markup_is_ever_read(tab: Any, hostile_address: str) -> None:
    """The policy refuses it, whatever the page's own code may do one day."""
    page = tab.page
    await page.goto(hostile_address)
    script = (
        "const one = document.createElement('script'); one.textContent = 'window.pwned = 1'; document.body.append(one)"
    )
    handler = "document.body.setAttribute('onclick', 'window.pwned = 1')"
    for code in ("document.body.innerHTML = '<b>x</b>'", "document.write('<b>x</b>')", script, handler):
        refused = await page.evaluate(f"() => {{ try {{ {code}; return false }} catch {{ return true }} }}")
        assert refused, code
    assert await page.evaluate("window.pwned") is None
    await tab.complained("")  # the browser said why
    tab.complaints.clear()


async def test_the_file_shows_the_same_without_a_server(tab: Any, home: Path, tmp_path: Path) -> None:
    page = tab.page
    made = export_page(load(home).run(RUN))
    assert made.notes == ()
    target = tmp_path / "run.html"
    target.write_text(made.text, encoding="utf-8")
    await read_all(tab, target.as_uri(), home)
    await page.goto(f"{target.as_uri()}#/run/{RUN}/2")
    await page.click("a.evidence.history")
    await page.wait_for_selector(".pane pre mark")
    assert await page.locator(".pane pre mark").inner_text() == "the end"
    assert all(one.startswith("file:") for one in tab.asked)


async def test_the_file_has_child_runs_in_it(tab: Any, runs: Any, tmp_path: Path) -> None:
    page = tab.page
    target = tmp_path / "lease.html"
    target.write_text(export_page(load(runs.home).run(runs.leases[0])).text, encoding="utf-8")
    await page.goto(target.as_uri())
    await page.click("tr[data-field=payer] a.evidence.history")
    await page.wait_for_selector(".pane pre mark")
    assert await page.locator(".pane pre mark").inner_text() == "the tenant"
    await page.goto(f"{target.as_uri()}#/run/{runs.leases[0]}/3")
    await page.click("details.call > summary:has-text('rlm_query')")
    await page.click("text=Open child run")
    await page.wait_for_selector("h1:has-text('part -> due_day')")


async def test_embedded_data_cannot_end_its_element(home: Path) -> None:
    text = export_page(load(home).run(RUN)).text
    assert text.count("<script") == 2
    assert text.count("</script") == 2
    data = re.search(r'<script type="application/json" id="trace">(.*?)</script>', text, re.DOTALL)
    assert data is not None
    assert not set("<>&") & set(data[1])
    assert json.loads(data[1])["root"] == RUN
    text.encode()  # a lone surrogate in the file would raise
