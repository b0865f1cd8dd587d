"""One exchange with a server that does not keep to HTTP, to its time, or to its certificate: over sockets."""

from __future__ import annotations

import asyncio
import contextlib
import os
import selectors
import socket
import ssl
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from rlm.models.client import ModelError, ask
from rlm.models.direct.client import retry_after_seconds
from rlm.models.direct.connection import connections
from rlm.models.direct.http1 import InvalidResponse
from rlm.models.direct.transport import Endpoint
from rlm.models.retry import RetryPolicy
from tests.support.chat_server import CERTIFICATE, ChatServer, Play, error

CHUNKED = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
ENDLESS = {
    "interim responses": (b"", b"HTTP/1.1 100 Continue\r\n\r\n"),
    "interim responses with fields": (b"", b"HTTP/1.1 103 Early Hints\r\nLink: x\r\n\r\n"),
    "header fields": (b"HTTP/1.1 200 OK\r\n", b"X: y\r\n"),
    "trailers": (CHUNKED + b"0\r\n", b"X: y\r\n"),
    "extensions of chunks": (CHUNKED, b"1;" + b"x" * 500 + b"\r\n \r\n"),
    "one extension": (CHUNKED + b"1;", b"x" * 100),
    "blanks after the size of a chunk": (CHUNKED, b"1" + b" " * 500 + b"\r\n \r\n"),
}
TRICKLES = ENDLESS | {
    "chunks": (CHUNKED, b"1\r\n \r\n"),
    "a body until the end": (b"HTTP/1.1 200 OK\r\n\r\n", b" "),
    "a body with a length": (b"HTTP/1.1 200 OK\r\nContent-Length: 1000000\r\n\r\n", b" "),
}


@contextlib.contextmanager
def serving(serve: Callable[[socket.socket], None]) -> Iterator[Endpoint]:
    """An endpoint that accepts one connection, and serves it until the client hangs up."""
    listener = socket.create_server(("127.0.0.1", 0))

    def work() -> None:
        with contextlib.suppress(OSError):
            connection, _ = listener.accept()
            with connection:
                connection.settimeout(30)
                serve(connection)

    thread = threading.Thread(target=work)
    thread.start()
    try:
        yield Endpoint.at(f"http://127.0.0.1:{listener.getsockname()[1]}/", [], 0.3)
    finally:
        thread.join()
        listener.close()


@pytest.mark.parametrize(("first", "more"), ENDLESS.values(), ids=ENDLESS.keys())
async def test_what_surrounds_a_body_has_a_limit_in_bytes(first: bytes, more: bytes) -> None:
    def flood(connection: socket.socket) -> None:
        connection.recv(65536)
        connection.sendall(first)
        while True:
            connection.sendall(more * 20)

    with serving(flood) as endpoint, pytest.raises(InvalidResponse, match="longer than"):
        await Endpoint(endpoint.origin, endpoint.head, 60).post(b"{}")


@pytest.mark.parametrize(("first", "more"), TRICKLES.values(), ids=TRICKLES.keys())
async def test_an_answer_that_keeps_coming_has_an_end_in_time(first: bytes, more: bytes) -> None:
    def trickle(connection: socket.socket) -> None:
        connection.recv(65536)
        connection.sendall(first)
        while True:
            connection.sendall(more)
            time.sleep(0.02)

    began = time.monotonic()
    with serving(trickle) as endpoint, pytest.raises(TimeoutError, match=r"0\.3 seconds"):
        await endpoint.post(b"{}")
    assert time.monotonic() - began < 10


async def test_an_answer_in_many_small_chunks_is_read() -> None:
    body = b'{"text": "' + b"x" * 100_000 + b'"}'
    chunks = b"".join(b"1\r\n%c\r\n" % byte for byte in body)

    def serve(connection: socket.socket) -> None:
        connection.recv(65536)
        connection.sendall(CHUNKED + chunks + b"0\r\n\r\n")
        connection.recv(1)

    with serving(serve) as endpoint:
        response = await Endpoint(endpoint.origin, endpoint.head, 60).post(b"{}")
        connections.close()
        await asyncio.sleep(0)
    assert response.body == body


@pytest.mark.filterwarnings("ignore:This process.*is multi-threaded:DeprecationWarning")
def test_a_forked_child_opens_connections_of_its_own_and_leaves_the_parents_alone(chat: ChatServer) -> None:
    endpoint = Endpoint.at(f"{chat.url}/chat/completions", [])

    async def status() -> int:
        return (await endpoint.post(b"{}")).status

    with asyncio.Runner() as runner:
        assert runner.run(status()) == 200
        child = os.fork()
        if not child:
            ended = 1
            try:
                ended = 0 if asyncio.run(status()) == 200 else 2
            finally:
                os._exit(ended)
        assert os.waitpid(child, 0)[1] == 0
        assert runner.run(status()) == 200
    assert len(chat.requests) == 3
    assert chat.connections == 2


def watched(work: Callable[[], Any]) -> tuple[set[int], set[int]]:
    """The descriptors that an event loop watches before and after some work in it."""
    selector = selectors.DefaultSelector()

    async def look() -> tuple[set[int], set[int]]:
        await asyncio.sleep(0)
        before = set(selector.get_map())
        await work()
        return before, set(selector.get_map())

    with asyncio.Runner(loop_factory=lambda: asyncio.SelectorEventLoop(selector)) as runner:
        return runner.run(look())


def test_a_failed_handshake_leaves_no_descriptor_in_the_event_loop() -> None:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(CERTIFICATE)

    async def refused() -> None:
        with pytest.raises(ssl.SSLCertVerificationError):
            await Endpoint.at(server.url, []).post(b"{}")

    with ChatServer(context) as server:
        before, after = watched(refused)
    assert after == before


def test_a_cancelled_handshake_leaves_no_descriptor_in_the_event_loop() -> None:
    greeted = threading.Event()

    def silent(connection: socket.socket) -> None:
        connection.recv(65536)
        greeted.set()
        connection.recv(65536)

    async def cancelled() -> None:
        task = asyncio.create_task(Endpoint.at(f"https://127.0.0.1:{endpoint.origin.port}/", []).post(b"{}"))
        await asyncio.to_thread(greeted.wait, 30)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    with serving(silent) as endpoint:
        before, after = watched(cancelled)
    assert greeted.is_set()
    assert after == before


@pytest.mark.parametrize(
    "value", ["Fri, 01 Jan 2027 00:00:00 +99999999999999", "Fri, 01 Jan 99999999999999999999 00:00:00 GMT"]
)
async def test_a_date_to_wait_for_that_no_calendar_has_is_none(chat: ChatServer, lm_for: Any, value: str) -> None:
    chat.plays = [Play(429, error("slow down"), {"Retry-After": value})]
    with pytest.raises(ModelError) as caught:
        await ask(lm_for(chat.url, num_retries=1), [("user", "x")], retry=RetryPolicy(first=0.01, patience=0.0))
    assert caught.value.kind == "rate"
    assert len(chat.requests) == 2


@given(
    st.text() | st.from_regex(r"[A-Z][a-z]{2}, \d\d [A-Z][a-z]{2} \d{4} \d\d:\d\d:\d\d [+-]\d{1,20}", fullmatch=True)
)
@example("inf")
@example("nan")
@example("-5")
@example("1e400")
def test_any_value_of_retry_after_is_seconds_or_nothing(value: str) -> None:
    seconds = retry_after_seconds(value)
    assert seconds is None or 0 <= seconds < float("inf")
