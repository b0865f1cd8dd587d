"""A chat-completions server on 127.0.0.1 that thinks for a set time: `python chat_server.py 0.05` prints its port.

Only the standard library, in a process of its own, and with as little work a request as can be: a benchmark measures
its client. Waits with `select`, whose clock is finer than a millisecond, on one `epoll` descriptor, which does not get
slower with the number of connections. It keeps to one processor, which its clients leave to it (`processes.apart`): a
real server has processors of its own, and does not wait for its clients'. Stops when stdin ends. `GET /stats` tells how
many requests there were, and how many of them at once at the most.
"""

from __future__ import annotations

import contextlib
import json
import select
import selectors
import socket
import sys
import time
from collections import deque
from pathlib import Path
from typing import Any

sys.path.append(str(Path(__file__).resolve().parent))

import processes


class ChatServer:
    """Answers each request after the delay: in the order they came, so one queue is enough. Connections are kept."""

    def __init__(self, delay: float) -> None:
        self.delay = delay
        self.reply = _response(_completion("ok"))
        self.waiting: deque[tuple[float, socket.socket]] = deque()
        self.buffers: dict[socket.socket, bytes] = {}
        self.served = self.most = self.connections = 0
        self.listener = socket.create_server(("127.0.0.1", 0), backlog=1024)
        self.listener.setblocking(False)
        self.selector = selectors.EpollSelector()
        self.selector.register(self.listener, selectors.EVENT_READ, self.accept)

    @property
    def port(self) -> int:
        port: int = self.listener.getsockname()[1]
        return port

    def serve(self) -> None:
        """Until stdin ends."""
        self.selector.register(sys.stdin, selectors.EVENT_READ, None)
        while True:
            pause = max(0.0, self.waiting[0][0] - time.monotonic()) if self.waiting else None
            select.select([self.selector], [], [], pause)
            for key, _ in self.selector.select(0):
                if key.data is None:
                    return
                key.data(key.fileobj)
            self.answer()

    def accept(self, listener: socket.socket) -> None:
        with contextlib.suppress(BlockingIOError):
            while True:
                connection, _ = listener.accept()
                connection.setblocking(False)
                connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                self.connections += 1
                self.buffers[connection] = b""
                self.selector.register(connection, selectors.EVENT_READ, self.read)

    def read(self, connection: socket.socket) -> None:
        try:
            data = connection.recv(65536)
        except ConnectionError:
            data = b""
        if not data:
            self.selector.unregister(connection)
            del self.buffers[connection]
            connection.close()
            return
        self.buffers[connection] += data
        while self.take(connection):
            pass

    def take(self, connection: socket.socket) -> bool:
        """One request from what has come, if it is all there."""
        buffer = self.buffers[connection]
        end = buffer.find(b"\r\n\r\n")
        head = buffer[: max(end, 0)].lower()
        size = end + 4 + int(head.partition(b"content-length:")[2].partition(b"\r\n")[0] or 0)
        if end < 0 or len(buffer) < size:
            return False
        self.buffers[connection] = buffer[size:]
        if head.startswith(b"get "):
            counts = {"served": self.served, "most": self.most, "connections": self.connections}
            connection.send(_response(json.dumps(counts).encode()))
        else:
            self.waiting.append((time.monotonic() + self.delay, connection))
            self.most = max(self.most, len(self.waiting))
        return True

    def answer(self) -> None:
        """Whatever has waited long enough."""
        now = time.monotonic()
        while self.waiting and self.waiting[0][0] <= now:
            _, connection = self.waiting.popleft()
            self.served += 1
            with contextlib.suppress(OSError):  # who asked may be gone
                connection.send(self.reply)


def _response(body: bytes) -> bytes:
    head = f"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
    return head.encode() + body


def _completion(text: str) -> bytes:
    message = {"role": "assistant", "content": text}
    usage = {"prompt_tokens": 12, "completion_tokens": 2, "total_tokens": 14}
    answer: dict[str, Any] = {"id": "chatcmpl-1", "object": "chat.completion", "created": 1, "model": "local"}
    answer |= {"choices": [{"index": 0, "message": message, "finish_reason": "stop"}], "usage": usage}
    return json.dumps(answer).encode()


if __name__ == "__main__":
    processes.keep_to_last()
    server = ChatServer(float(sys.argv[1]))
    print(server.port, flush=True)
    server.serve()
