"""Files that a run wrote, on its page: pictures are shown, everything else is only ever saved."""

from __future__ import annotations

import base64
import http.client
import time
from urllib.parse import urlsplit

import pytest

from rlm.events import FilesWritten
from rlm.traces.runs import load
from tests.support.viewer_runs import ended, iteration, started, tell
from tests.support.viewer_server import serve

RUN = "f" * 12
PNG = base64.b64decode(
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
)
PAGE = b"<script>alert(1)</script>"
ABOUT = [
    {"name": "figure-1.png", "size": len(PNG), "sha256": "0", "media_type": "image/png"},
    {"name": "<b>page.html", "size": len(PAGE), "sha256": "1", "media_type": "text/html"},
    {"name": "large.bin", "size": None, "sha256": None, "media_type": "text/plain", "problem": "it is too large"},
]


@pytest.fixture(scope="module")
def home(tmp_path_factory):
    made, now = tmp_path_factory.mktemp("files-home"), time.time()
    written = FilesWritten(RUN, ABOUT, {"figure-1.png": PNG, "<b>page.html": PAGE}, time=now)
    tell(
        made, [started(RUN, now), *iteration(RUN, 1, now, code="x = 1", output="y"), written, ended(RUN, now, {"a": 1})]
    )
    return made


@pytest.fixture(scope="module")
def place(home):
    yield from serve(home)


def bodies(home):
    (event,) = load(home).run(RUN).events(kinds=["files_written"])
    return {file["name"]: file["body"] for file in event.data["files"]}


def get(place, path):
    at = urlsplit(place)
    connection = http.client.HTTPConnection(at.hostname, at.port, timeout=60)
    try:
        connection.request("GET", path)
        answer = connection.getresponse()
        return answer.status, {name.lower(): value for name, value in answer.getheaders()}, answer.read()
    finally:
        connection.close()


def test_a_picture_is_served_as_one_and_anything_else_to_be_saved(place, home):
    status, headers, body = get(place, f"/api/runs/{RUN}/files/{bodies(home)['figure-1.png']}")
    assert (status, headers["content-type"], body) == (200, "image/png", PNG)
    assert "content-disposition" not in headers
    status, headers, body = get(place, f"/api/runs/{RUN}/files/{bodies(home)['<b>page.html']}")
    assert (status, headers["content-type"], body) == (200, "application/octet-stream", PAGE)
    assert headers["content-disposition"] == "attachment"
    assert headers["x-content-type-options"] == "nosniff"


def test_what_is_no_file_is_not_there(place):
    assert get(place, f"/api/runs/{RUN}/files/{'0' * 40}")[0] == 404
    assert get(place, f"/api/runs/{RUN}/files/nothing")[0] == 404


@pytest.mark.browser
@pytest.mark.asyncio(loop_scope="session")
async def test_the_page_lists_them_and_shows_pictures(tab, place):
    await tab.page.goto(f"{place}#/run/{RUN}")
    await tab.page.wait_for_selector(".files-card")
    text = await tab.page.inner_text(".files-card")
    assert "<b>page.html" in text
    assert "it is too large" in text
    await tab.until("document.querySelector('.files-card img')?.naturalWidth === 1")
    assert await tab.page.locator(".files-card img").count() == 1
    assert await tab.page.locator(".files-card a[download]").count() == 2
