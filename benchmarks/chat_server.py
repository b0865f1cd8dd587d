"""A chat-completions server on 127.0.0.1 that thinks for a set time: `python chat_server.py 0.05` prints its port.

Only the standard library, in a process of its own, so that a benchmark measures its client. Stops when stdin ends.
`GET /stats` tells how many requests there were, and how many of them at once at the most.
"""

from __future__ import annotations

import asyncio
import json
import sys
from typing import Any


class Counts:
    """What the server has seen."""

    served = 0
    busy = 0
    most = 0
    connections = 0


class Chat(asyncio.Protocol):
    """One connection: requests in, one answer to each after the delay. The connection is kept."""

    def __init__(self, counts: Counts, delay: float, body: bytes) -> None:
        self.counts, self.delay = counts, delay
        self.reply = _response(body)
        self.buffer = b""

    def connection_made(self, transport: Any) -> None:
        self.transport = transport
        self.counts.connections += 1

    def data_received(self, data: bytes) -> None:
        self.buffer += data
        while (end := self.buffer.find(b"\r\n\r\n")) >= 0:
            head = self.buffer[:end].lower()
            length = int(head.partition(b"content-length:")[2].partition(b"\r\n")[0] or 0)
            if len(self.buffer) < end + 4 + length:
                return
            self.buffer = self.buffer[end + 4 + length :]
            if head.startswith(b"get "):
                counts = {"served": self.counts.served, "most": self.counts.most}
                self.transport.write(_response(json.dumps(counts | {"connections": self.counts.connections}).encode()))
                continue
            self.counts.busy += 1
            self.counts.most = max(self.counts.most, self.counts.busy)
            asyncio.get_running_loop().call_later(self.delay, self.answer)

    def answer(self) -> None:
        self.counts.busy -= 1
        self.counts.served += 1
        if not self.transport.is_closing():
            self.transport.write(self.reply)


def _response(body: bytes) -> bytes:
    head = f"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
    return head.encode() + body


def _completion(text: str) -> bytes:
    message = {"role": "assistant", "content": text}
    usage = {"prompt_tokens": 12, "completion_tokens": 2, "total_tokens": 14}
    answer: dict[str, Any] = {"id": "chatcmpl-1", "object": "chat.completion", "created": 1, "model": "local"}
    answer |= {"choices": [{"index": 0, "message": message, "finish_reason": "stop"}], "usage": usage}
    return json.dumps(answer).encode()


async def serve(delay: float) -> None:
    loop = asyncio.get_running_loop()
    counts, body = Counts(), _completion("ok")
    server = await loop.create_server(lambda: Chat(counts, delay, body), "127.0.0.1", 0, backlog=1024)
    print(server.sockets[0].getsockname()[1], flush=True)
    async with server:
        await loop.run_in_executor(None, sys.stdin.read)


if __name__ == "__main__":
    asyncio.run(serve(float(sys.argv[1])))
