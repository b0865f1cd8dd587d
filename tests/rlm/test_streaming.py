"""`dspy.streamify` on `rlm.Predict`, with a server that streams its replies in many chunks."""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import dspy
import pytest

import rlm

REPLY = "I submit the number of characters.\n```python\nSUBMIT(n=len(doc))\n```"


class Streaming(BaseHTTPRequestHandler):
    """Answers every chat request with `REPLY`, a character a chunk."""

    def do_POST(self) -> None:
        assert json.loads(self.rfile.read(int(self.headers["content-length"])))["stream"] is True
        self.send_response(200)
        self.send_header("content-type", "text/event-stream")
        self.end_headers()
        for delta, reason in [*(({"content": character}, None) for character in REPLY), ({}, "stop")]:
            choice = {"index": 0, "delta": delta, "finish_reason": reason}
            chunk = {"id": "1", "object": "chat.completion.chunk", "created": 1, "model": "m", "choices": [choice]}
            self.wfile.write(f"data: {json.dumps(chunk)}\n\n".encode())
        self.wfile.write(b"data: [DONE]\n\n")

    def log_message(self, *args: Any) -> None:
        """Print nothing."""


@pytest.fixture
def lm() -> Iterator[Any]:
    with ThreadingHTTPServer(("127.0.0.1", 0), Streaming) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        url = f"http://127.0.0.1:{server.server_port}/v1"
        yield dspy.LM("openai/m", api_base=url, api_key="none", cache=False, num_retries=0)
        server.shutdown()


def test_a_reply_of_many_chunks_is_streamed_to_its_end(lm: Any, pool: Any) -> None:
    predict = rlm.Predict("doc -> n: int", lm=lm, pool=pool)

    async def read() -> list[Any]:
        return [part async for part in dspy.streamify(predict)(doc="text")]

    parts = asyncio.run(asyncio.wait_for(read(), 60))
    assert len(parts) > len(REPLY)
    assert parts[-1].n == 4
