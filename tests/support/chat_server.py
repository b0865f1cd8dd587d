"""A real chat server on the loopback that plays what it is told to, and notes what it got."""

from __future__ import annotations

import asyncio
import json
import ssl
import threading
import time
from collections import deque
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

CERTIFICATE = Path(__file__).with_name("loopback.pem")
USAGE = {"prompt_tokens": 12, "completion_tokens": 2, "total_tokens": 14}


def completion(
    text: Any = "ok", *, finish: str | None = "stop", model: str = "local", usage: Any = USAGE, **message: Any
) -> bytes:
    """The body of an answer."""
    choice = {"index": 0, "message": {"role": "assistant", "content": text, **message}, "finish_reason": finish}
    answer = {"id": "chatcmpl-1", "object": "chat.completion", "created": 1, "model": model}
    return json.dumps(answer | {"choices": [choice], "usage": usage}).encode()


def error(message: str, code: str | None = None, kind: str = "invalid_request_error") -> bytes:
    """The body of an error, as OpenAI writes it."""
    return json.dumps({"error": {"message": message, "type": kind, "code": code}}).encode()


@dataclass(frozen=True)
class Play:
    """One answer: its status, headers and body; or raw bytes. `wait` comes first; `hang_up` closes afterwards."""

    status: int = 200
    body: bytes = completion()
    headers: dict[str, str] = field(default_factory=dict)
    raw: bytes | None = None
    wait: float = 0.0
    hang_up: bool = False

    def written(self) -> bytes:
        if self.raw is not None:
            return self.raw
        fields = {"Content-Type": "application/json", "Content-Length": str(len(self.body)), **self.headers}
        lines = "".join(f"{name}: {value}\r\n" for name, value in fields.items())
        return f"HTTP/1.1 {self.status} Status\r\n{lines}\r\n".encode() + self.body


@dataclass(frozen=True)
class Got:
    """A request that came."""

    target: str
    headers: dict[str, str]
    body: dict[str, Any]

    @property
    def direct(self) -> bool:
        """Whether it was a direct call."""
        return self.headers["user-agent"] == "rlm"


class ChatServer:
    """Plays its answers in order; the last one again and again."""

    def __init__(self, context: ssl.SSLContext | None = None) -> None:
        self.plays: list[Play] = [Play()]
        self.requests: list[Got] = []
        self.connections = 0
        self._context = context
        self._loop = asyncio.new_event_loop()
        self._serving: dict[Any, asyncio.StreamWriter] = {}
        self._thread = threading.Thread(target=self._loop.run_forever)

    def __enter__(self) -> ChatServer:
        self._thread.start()
        self._server = self._do(asyncio.start_server(self._connected, "127.0.0.1", 0, ssl=self._context))
        self.port = self._server.sockets[0].getsockname()[1]
        scheme = "https" if self._context else "http"
        self.url = f"{scheme}://127.0.0.1:{self.port}/v1"
        return self

    def __exit__(self, *error: object) -> None:
        self._do(self._shut())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    def next_play(self) -> Play:
        """What is played to the request that came last."""
        return self.plays.pop(0) if len(self.plays) > 1 else self.plays[0]

    def hang_up(self) -> None:
        """Close all connections, as servers do with idle ones."""
        self._do(self._end())

    def _do(self, work: Any) -> Any:
        return asyncio.run_coroutine_threadsafe(work, self._loop).result(30)

    def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        self._serving[asyncio.create_task(self._serve(reader, writer))] = writer

    async def _end(self) -> None:
        # Those that serve are ended; those that accept finish, and what they accepted is ended, too.
        while others := asyncio.all_tasks() - {asyncio.current_task()}:
            for task, writer in list(self._serving.items()):
                writer.transport.abort()
                task.cancel()
            await asyncio.wait(others, timeout=5)
            await asyncio.sleep(0)
        await asyncio.sleep(0)  # the transports close now

    async def _shut(self) -> None:
        self._server.close()
        await self._end()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while True:
                first, *lines = (await reader.readuntil(b"\r\n\r\n")).decode().strip().split("\r\n")
                headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in lines)}
                body = json.loads(await reader.readexactly(int(headers["content-length"])))
                self.requests.append(Got(first.split()[1], headers, body))
                play = self.next_play()
                await asyncio.sleep(play.wait)
                writer.write(play.written())
                await writer.drain()
                if play.hang_up:
                    writer.close()
                    await writer.wait_closed()
                    return
        except (asyncio.IncompleteReadError, asyncio.CancelledError, ConnectionError, ssl.SSLError):
            pass
        finally:
            writer.transport.abort()
            self._serving.pop(asyncio.current_task(), None)


TOO_MANY = error("slow down", kind="rate_limit_error")


class LimitedChat(ChatServer):
    """Allows so many requests in any `window` seconds, and says "too many" to all others.

    What comes after the first `allowed` ones is refused once, however late: a test can rely on a refusal.
    """

    def __init__(self, allowed: int, window: float) -> None:
        super().__init__()
        self.allowed, self.window = allowed, window
        self.taken: deque[float] = deque()
        self.times: list[float] = []
        self.refused = 0

    def next_play(self) -> Play:
        now = time.monotonic()
        self.times.append(now)
        while self.taken and self.taken[0] <= now - self.window:
            self.taken.popleft()
        first_too_many = self.refused == 0 and len(self.times) > self.allowed
        if first_too_many or len(self.taken) >= self.allowed:
            self.refused += 1
            return Play(429, TOO_MANY)
        self.taken.append(now)
        return Play()
