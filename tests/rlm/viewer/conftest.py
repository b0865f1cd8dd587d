"""For the tests of the page: one browser, one server, recorded runs."""

from __future__ import annotations

import asyncio
import os
import shutil
import time
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio

import sandbox
from tests.support.viewer_runs import long_story, record_count, record_lease, tell
from tests.support.viewer_server import serve

LONG = "1" * 12
_FLAGS = (
    *("--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run"),
    *("--disable-background-networking", "--disable-component-update", "--disable-sync", "--disable-dev-shm-usage"),
)


def browser_path() -> str | None:
    names = (os.environ.get("RLM_TEST_BROWSER", ""), "chromium", "chromium-browser", "google-chrome")
    return next((found for name in names if name and (found := shutil.which(name))), None)


@dataclass
class Runs:
    """The home of the recorded runs, and their ids."""

    home: Path
    leases: list[str] = field(default_factory=list)
    counts: list[str] = field(default_factory=list)


@pytest.fixture(scope="session")
def runs(tmp_path_factory: pytest.TempPathFactory, pool: sandbox.Pool) -> Runs:
    made = Runs(tmp_path_factory.mktemp("viewer-home"))
    made.counts = [record_count(made.home, pool, number) for number in (10, 20)]
    made.leases = [record_lease(made.home, pool), record_lease(made.home, pool, rent=987654)]
    tell(made.home, long_story(LONG, 1_000, 5))
    return made


@pytest.fixture(scope="session")
def address(runs: Runs) -> Iterator[str]:
    yield from serve(runs.home)


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def browser(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Any]:
    path = browser_path()
    if path is None:
        pytest.skip("no browser: install chromium, or say where one is with RLM_TEST_BROWSER")
    api = pytest.importorskip("playwright.async_api", reason="playwright is not installed")
    async with api.async_playwright() as playwright:
        browser = await playwright.chromium.launch(executable_path=path, args=list(_FLAGS))
        yield browser
        await browser.close()


class Tab:
    """A page in the browser, and everything it complained about or asked for."""

    def __init__(self, page: Any) -> None:
        self.page = page
        self.complaints: list[str] = []
        self.asked: list[str] = []
        page.on("pageerror", lambda error: self.complaints.append(f"error: {error}"))
        page.on("console", self._said)
        page.on("request", lambda request: self.asked.append(request.url))
        page.on("dialog", self._dialog)

    def _said(self, message: Any) -> None:
        if message.type in ("error", "warning"):
            self.complaints.append(f"{message.type}: {message.text}")

    async def _dialog(self, dialog: Any) -> None:
        self.complaints.append(f"dialog: {dialog.message}")
        await dialog.dismiss()

    async def until(self, expression: str) -> None:
        """Wait until an expression is true in the page. Playwright's own way needs `eval`, which the page forbids.

        The elements may not be there yet: write `document.querySelector(...)?.height`.
        """
        end = time.monotonic() + 30
        while not await self.page.evaluate(expression):
            assert time.monotonic() < end, f"never true: {expression}"
            await asyncio.sleep(0.02)

    async def complained(self, text: str) -> None:
        """Wait until the page has complained of something with this text."""
        end = time.monotonic() + 30
        while not any(text in complaint for complaint in self.complaints):
            assert time.monotonic() < end, f"never said: {text}"
            await asyncio.sleep(0.02)

    async def wide(self) -> int:
        """How much wider the page is than the window."""
        return int(
            await self.page.evaluate("document.documentElement.scrollWidth - document.documentElement.clientWidth")
        )


@pytest_asyncio.fixture(loop_scope="session")
async def tab(browser: Any) -> AsyncIterator[Tab]:
    """A fresh page; a test fails if it complains of anything."""
    context = await browser.new_context(viewport={"width": 1400, "height": 900}, color_scheme="light", locale="en-GB")
    context.set_default_timeout(30_000)
    made = Tab(await context.new_page())
    yield made
    await context.close()
    assert made.complaints == []
