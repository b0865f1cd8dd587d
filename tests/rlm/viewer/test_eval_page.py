"""The suite's table in a real browser: samples with scores, opened, searched, sorted; hostile text; who may ask."""

from __future__ import annotations

import contextlib
import http.client
import json
import threading
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

from rlm.evals.log import LogEntry
from rlm.evals.log_writer import LogWriter
from rlm.viewer.server import make_server

pytestmark = [pytest.mark.asyncio(loop_scope="session"), pytest.mark.browser]

MARKUP = "<img src=x onerror=\"document.title='owned'\"><script>document.title='owned'</script>"
TURNED = "safe\u202etxt.exe\x1b[31m"
ROWS = ".samples .window-row"


def expect(locator: Any) -> Any:
    from playwright.async_api import expect as expected

    expected.set_options(timeout=30_000)
    return expected(locator)


def entry(sample: str, score: float, run: str | None, **more: Any) -> LogEntry:
    about: dict[str, Any] = {"suite": "lease", "length": 64_000, "epoch": 1, "ending": "Submitted"}
    about |= {"outputs": {"rent": 4001}, "expected": {"rent": 4001}, "scores": {"rent": score}, "confidence": 1.0}
    about |= {"usage": {"tokens_in": 1_000, "tokens_out": 200, "cost_usd": 0.02}, "seconds": 3.0}
    return LogEntry(**{"sample_id": sample, "score": score, "run_id": run, **about, **more})


def log_of(folder: Path, entries: list[LogEntry], total: int) -> LogWriter:
    header: dict[str, Any] = {"format": 1, "suites": [{"name": "lease", "path": None}], "lengths": [4_000, 64_000]}
    header |= {"seed": 7, "epochs": 2, "total": total, "models": {"main": "made/main"}, "configuration": {}}
    header |= {"baseline": None, "count": 2, "versions": {}}
    writer = LogWriter(folder, header)
    for one in entries:
        writer.append(one)
    return writer


@contextlib.contextmanager
def serving(home: Path, log: Path | None) -> Iterator[str]:
    server = make_server(home, log=log)
    thread = threading.Thread(target=server.run, name="viewer")
    thread.start()
    try:
        yield server.address
    finally:
        server.stop()
        thread.join(30)
    assert not thread.is_alive()


@pytest.fixture(scope="module")
def log(runs: Any, tmp_path_factory: pytest.TempPathFactory) -> Iterator[LogWriter]:
    entries = [
        entry("lease-1", 1.0, runs.leases[0], ending="Extracted", confidence=0.8),
        entry("lease-2", 0.0, runs.leases[1], ending="Extracted", confidence=0.4, outputs={"rent": 987654}),
        entry("lease-1", 1.0, runs.counts[0], epoch=2, usage={"tokens_in": 5, "tokens_out": 1, "cost_usd": 0.5}),
        entry("lease-3", 0.0, None, length=4_000, ending="Failed", outputs=None, error="model:rate: busy"),
    ]
    with log_of(tmp_path_factory.mktemp("eval-view") / "mini", entries, 6) as writer:
        yield writer


@pytest.fixture(scope="module")
def place(runs: Any, log: LogWriter) -> Iterator[str]:
    with serving(runs.home, log.folder) as address:
        yield address


async def test_the_table_shows_scores_by_length_and_every_sample(tab: Any, place: str) -> None:
    page = tab.page
    await page.goto(f"{place}#/eval")
    await expect(page.locator(".suite-about h1")).to_have_text("mini")
    await expect(page.locator(ROWS)).to_have_count(4)
    await expect(page.locator(".total")).to_have_text("4 runs of 6")
    cells = page.locator("tr[data-length='64000'] td")
    await expect(cells).to_have_text(
        [
            *("64k", "2", "0.667 ±0.444", "0.667 ±0.444", "1.000", "1 submitted, 2 extracted"),
            *("802", "$0.18", "3.0 s"),
        ]
    )
    await expect(page.locator("tr[data-suite='all'] .mean b")).to_have_text("0.500")
    row = page.locator("[data-sample='lease-2']")
    await expect(row.locator(".score")).to_have_text("0.00")
    await expect(row.locator(".badge")).to_have_text("extracted")
    await expect(row.locator(".confidence")).to_have_text("0.40")
    await expect(row.locator(".given")).to_have_text("rent: 987654")
    await expect(row.locator(".answer .sub")).to_have_text("expected rent: 4001")
    await expect(row.locator(".cost")).to_have_text("$0.02")
    await expect(row.locator(".duration")).to_have_text("3.0 s")
    await expect(page.locator("[data-sample='lease-3'] .given")).to_have_text("model:rate: busy")
    assert await page.locator("[data-sample='lease-3'] a").count() == 0
    assert await tab.wide() <= 0
    await page.set_viewport_size({"width": 400, "height": 800})
    await expect(row.locator(".score")).to_be_visible()
    assert await tab.wide() <= 0
    for cell in await page.locator(".suite-groups td:not(:empty)").all():
        box = await cell.bounding_box()
        assert box is not None
        assert box["x"] >= 0
        assert box["x"] + box["width"] <= 400


async def test_samples_are_searched_filtered_and_sorted(tab: Any, place: str) -> None:
    page = tab.page
    await page.goto(f"{place}#/eval")
    rows = page.locator(ROWS)
    await expect(rows).to_have_count(4)
    await page.click("[data-chip='score<1']")
    await expect(rows).to_have_count(2)
    await expect(page.locator("#search")).to_have_value("score<1")
    await page.fill("#search", "length:64k score<1")
    await expect(rows).to_have_count(1)
    await page.fill("#search", "ending:failed")
    await expect(rows).to_have_count(1)
    await page.fill("#search", "lease-1 epoch:2")
    await expect(rows).to_have_count(1)
    await page.fill("#search", "")
    await expect(rows).to_have_count(4)
    await page.click(".runs-head .cost button")
    await expect(page.locator(f"{ROWS} .cost").first).to_have_text("$0.50")
    await page.click(".runs-head .score button")
    await expect(page.locator(f"{ROWS} .score")).to_have_text(["1.00", "1.00", "0.00", "0.00"])


async def test_the_run_of_a_sample_shows_its_score_and_the_expected_answer(
    tab: Any, place: str, address: str, runs: Any
) -> None:
    page = tab.page
    await page.goto(f"{place}#/run/{runs.leases[1]}")
    await expect(page.locator(".sample-line")).to_have_text("Score 0.00sample lease-2 of lease, epoch 1mini")
    wrong = page.locator("tr[data-field=rent]")
    await expect(wrong.locator(".answer-value")).to_have_text("987654")
    await expect(wrong.locator(".answer-expected .value")).to_have_text("4001")
    await expect(wrong.locator(".field-score.wrong")).to_have_text("0.00")
    await page.goto(f"{place}#/run/{runs.leases[0]}")
    await expect(page.locator("tr[data-field=rent] .field-score.right")).to_have_text("✓")
    await page.set_viewport_size({"width": 400, "height": 800})
    assert await tab.wide() <= 0
    await page.goto(f"{place}#/run/{runs.counts[1]}")  # it is no sample
    await expect(page.locator("tr[data-field=n] .answer-value")).to_have_text("20")
    await page.goto(f"{address}#/run/{runs.leases[1]}")  # a server without the log
    await expect(page.locator("tr[data-field=rent] .answer-value")).to_have_text("987654")
    await expect(page.locator(".sample-line, .answer-expected")).to_have_count(0)


async def test_a_row_opens_the_trace_of_its_run_and_back_is_the_table(tab: Any, place: str, runs: Any) -> None:
    page = tab.page
    await page.goto(f"{place}#/eval")
    await page.click("[data-sample='lease-2'] .given")
    await expect(page.locator("tr[data-field=rent] .answer-value")).to_have_text("987654")
    assert page.url.endswith(f"#/run/{runs.leases[1]}")
    await page.keyboard.press("Escape")
    await expect(page.locator(ROWS)).to_have_count(4)
    for key in ("j", "j", "k", "Enter"):
        await page.keyboard.press(key)
    await expect(page.locator("tr[data-field=rent] .answer-value")).to_have_text("4001")
    await page.click(".parts a:has-text('Runs')")
    await expect(page.locator(".total")).to_have_text("5 runs")
    await page.click(".parts a:has-text('Evaluations')")
    await page.click("[data-evaluation='mini'] a")
    await expect(page.locator(ROWS)).to_have_count(4)


async def test_a_log_that_grows_is_brought_up_to_date(tab: Any, runs: Any, tmp_path: Path) -> None:
    page = tab.page
    with log_of(tmp_path / "growing", [], 2) as writer, serving(runs.home, writer.folder) as place:
        await page.goto(f"{place}#/eval")
        await expect(page.locator(".total")).to_have_text("0 runs of 2")
        writer.append(entry("lease-9", 0.5, runs.counts[0]))
        await expect(page.locator(ROWS)).to_have_count(1)
        await expect(page.locator("[data-sample='lease-9'] .score")).to_have_text("0.50")
        await page.goto("about:blank")


async def test_hostile_text_is_text(tab: Any, runs: Any, tmp_path: Path) -> None:
    hostile = entry(
        MARKUP,
        0.0,
        runs.counts[0],
        suite=MARKUP,
        outputs={MARKUP: TURNED},
        expected={"a": f"{TURNED}{MARKUP}"},
        scores={MARKUP: 0.0},
        ending="Failed",
        error=f"{MARKUP}{TURNED}",
    )
    odd = entry("odd", 1.0, "../../api/runs", ending="<b>odd</b>")
    page = tab.page
    with log_of(tmp_path / "hostile", [hostile, odd], 2) as writer, serving(runs.home, writer.folder) as place:
        await page.goto(f"{place}#/eval")
        await expect(page.locator(ROWS)).to_have_count(2)
        assert await page.locator(".samples img, .samples script, .suite-about img, .samples b").count() == 0
        await expect(page.locator(".samples .name").first).to_contain_text(MARKUP[:70])
        assert "\u202e" not in await page.locator(".samples").inner_text()
        assert await page.locator(".samples .odd").count() >= 2
        assert await page.title() == "hostile · rlm"
        assert all(url.startswith(place) for url in tab.asked), tab.asked
        await page.goto("about:blank")


def ask(place: str, path: str, method: str = "GET", **headers: str) -> tuple[int, dict[str, str]]:
    at = urlsplit(place)
    connection = http.client.HTTPConnection(str(at.hostname), at.port, timeout=60)
    try:
        connection.request(method, path, headers=headers)
        answer = connection.getresponse()
        answer.read()
        return answer.status, {name.lower(): value for name, value in answer.getheaders()}
    finally:
        connection.close()


async def test_the_table_is_guarded_as_everything_is(place: str, address: str) -> None:
    status, headers = ask(place, "/api/eval")
    assert status == 200
    assert "default-src 'none'" in headers["content-security-policy"]
    assert headers["cache-control"] == "no-store"
    assert [ask(place, "/api/eval", method)[0] for method in ("POST", "PUT", "DELETE")] == [405, 405, 405]
    assert ask(place, "/api/eval", Host="rebound.example")[0] == 421
    assert ask(place, "/api/eval", Origin="http://elsewhere.example")[0] == 403
    assert ask(address, "/api/eval")[0] == 404  # `rlm view` has no log


async def test_the_configuration_of_a_log_is_not_on_the_page(place: str) -> None:
    with urllib.request.urlopen(f"{place}api/eval", timeout=60) as answer:
        told = json.loads(answer.read())
    assert "configuration" not in told["about"]
    assert set(told) == {"name", "about", "total", "summary", "rows"}
