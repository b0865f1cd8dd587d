"""The page of `rlm serve` in a browser: a token, a session, questions with their answers, and nobody else's traces."""

from __future__ import annotations

import pytest

from tests.support.task_server import asked, opened, serving, write_task

pytestmark = [pytest.mark.browser, pytest.mark.asyncio(loop_scope="session")]

CELLS = (
    "errors = [line for line in log.splitlines() if 'error' in line]\nprint(len(errors))",
    "SUBMIT(answer=len(errors))",
    "print(errors[:1])\nSUBMIT(answer=len(errors) * 2)",
)
QUESTION = 'textarea[aria-label="Question"]'
TOKEN = 'input[aria-label="Token"]'


@pytest.fixture
def place(tmp_path, monkeypatch):
    monkeypatch.setenv("RLM_HOME", str(tmp_path / "home"))
    with serving(write_task(tmp_path, *CELLS)) as place:
        yield place


async def entered(tab, place, name):
    """Open the page and enter a token."""
    with place.client(name):
        pass
    await tab.page.goto(f"{place.address}/")
    await tab.page.fill(TOKEN, place.secrets[name])
    await tab.page.press(TOKEN, "Enter")
    await tab.page.wait_for_selector(".ask-new")


async def test_a_session_is_opened_asked_and_asked_again(tab, place):
    await entered(tab, place, "ann")
    await tab.page.fill('textarea[aria-label="log"]', "error <b>one</b>\nfine\nerror two\n")
    await tab.page.fill(QUESTION, "How many errors?")
    await tab.page.click(".ask-new .button.main")
    await tab.page.wait_for_selector(".question .badge.submitted")
    assert await tab.page.inner_text(".question .answer-value") == "2"
    await tab.page.fill(QUESTION, "Twice as many?")
    await tab.page.press(QUESTION, "Enter")
    await tab.page.wait_for_selector(".question:nth-child(2) .badge.submitted")
    assert await tab.page.inner_text(".question:nth-child(2) .answer-value") == "4"
    assert "error" in await tab.page.text_content(".question:nth-child(2) .question-steps pre.text")
    await tab.until("document.querySelector('.ask-vars summary')?.textContent === '1 variable'")
    await tab.page.click(".question:nth-child(2) .question-state a")
    await tab.page.wait_for_selector(".answer-card")
    assert "question 2 of session" in await tab.page.inner_text("main")
    await tab.page.go_back()
    await tab.page.wait_for_selector(".question:nth-child(2) .badge.submitted")
    assert await tab.wide() == 0


async def test_a_file_is_an_input(tab, place):
    await entered(tab, place, "ann")
    file = {"name": "server.log", "mimeType": "text/plain", "buffer": b"error\n" * 7}
    await tab.page.set_input_files('input[aria-label="log from a file"]', file)
    await tab.page.fill(QUESTION, "How many errors?")
    await tab.page.click(".ask-new .button.main")
    await tab.page.wait_for_selector(".question .badge.submitted")
    assert await tab.page.inner_text(".question .answer-value") == "7"


async def test_what_is_wrong_is_said(tab, place):
    await tab.page.goto(f"{place.address}/")
    await tab.page.fill(TOKEN, "rlm_wrong")
    await tab.page.press(TOKEN, "Enter")
    await tab.page.wait_for_selector(".problem")
    assert "not known" in await tab.page.inner_text(".problem")
    await tab.complained("401")
    tab.complaints.clear()
    assert await tab.page.evaluate("sessionStorage.length") == 0


async def test_another_token_sees_nothing_of_it(tab, place):
    with place.client("bob") as client:
        session = opened(client, log="error secret")
        run = asked(client, session)["id"]
    await entered(tab, place, "ann")
    assert await tab.page.query_selector(".ask-sessions a") is None
    for address, text in ((f"#/ask/{session}", "no session"), (f"#/run/{run}", "no run")):
        await tab.page.goto(f"{place.address}/{address}")
        await tab.page.wait_for_selector(".failed-page")
        await tab.until(f"document.querySelector('.failed-page')?.textContent.includes('{text}')")
        assert "secret" not in await tab.page.inner_text("body")
    await tab.page.goto(f"{place.address}/#/")
    await tab.page.wait_for_selector(".runs-page")
    assert run not in await tab.page.content()
    assert all("404" in complaint or "no " in complaint for complaint in tab.complaints)
    tab.complaints.clear()
