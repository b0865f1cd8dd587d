"""HTTP responses: where they end, what is refused, and that it does not matter how the bytes arrive."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rlm.models.direct import http1
from rlm.models.direct.http1 import InvalidResponse, ResponseReader


def reply(head: str, body: bytes = b"") -> bytes:
    return head.replace("\n", "\r\n").encode() + b"\r\n\r\n" + body


def read(data: bytes) -> ResponseReader:
    reader = ResponseReader()
    assert reader.feed(data)
    return reader


GOOD = {
    "a length": (reply("HTTP/1.1 200 OK\nContent-Length: 5", b"hello"), b"hello", True),
    "the same length twice": (reply("HTTP/1.1 200 OK\nContent-Length: 5\ncontent-length: 5", b"hello"), b"hello", True),
    "nothing": (reply("HTTP/1.1 200 OK\nContent-Length: 0"), b"", True),
    "no content": (reply("HTTP/1.1 204 No Content"), b"", True),
    "chunks": (
        reply("HTTP/1.1 200 OK\nTransfer-Encoding: Chunked", b"2\r\nhe\r\n003;x=y\r\nllo\r\n0\r\nT: v\r\n\r\n"),
        b"hello",
        True,
    ),
    "an interim answer": (
        reply("HTTP/1.1 100 Continue") + reply("HTTP/1.1 103 Early Hints\nLink: x")
        + reply("HTTP/1.1 200\nContent-Length: 5", b"hello"), b"hello", True,
    ),
    "its connection closes": (reply("HTTP/1.1 200 OK\nConnection: Close\nContent-Length: 1", b"x"), b"x", False),
    "an old server": (reply("HTTP/1.0 200 OK\nContent-Length: 5", b"hello"), b"hello", False),
    "more than it said": (reply("HTTP/1.1 200 OK\nContent-Length: 5", b"helloHTTP/1.1 200 OK"), b"hello", False),
}  # fmt: skip


@pytest.mark.parametrize(("data", "body", "reusable"), GOOD.values(), ids=GOOD.keys())
def test_responses_are_read_to_their_end(data, body, reusable):
    reader = read(data)
    assert (reader.body, reader.reusable) == (body, reusable)


@given(st.sampled_from(sorted(set(GOOD) - {"more than it said"})), st.lists(st.integers(1, 40)))
def test_it_does_not_matter_how_the_bytes_arrive(name, sizes):
    data, body, reusable = GOOD[name]
    reader, at = ResponseReader(), 0
    for size in [*sizes, len(data)]:
        part = data[at : at + size]
        at += size
        assert reader.feed(part) == (at >= len(data))
        if at >= len(data):
            break
    assert (reader.body, reader.reusable) == (body, reusable)


BAD = {
    "not HTTP": b"220 hello\r\n\r\n",
    "HTTP/2": b"HTTP/2 200 OK\r\n\r\n",
    "a status that is no number": b"HTTP/1.1 abc OK\r\n\r\n",
    "another protocol": b"HTTP/1.1 101 Switching\r\nUpgrade: x\r\n\r\n",
    "a header without a name": reply("HTTP/1.1 200 OK\n: x"),
    "a blank before the colon": reply("HTTP/1.1 200 OK\nContent-Length : 5", b"hello"),
    "a folded header": reply("HTTP/1.1 200 OK\nX: a\n b"),
    "a lone line break": b"HTTP/1.1 200 OK\r\nX: a\nContent-Length: 5\r\n\r\nhello",
    "two lengths": reply("HTTP/1.1 200 OK\nContent-Length: 5\nContent-Length: 6", b"hello"),
    "a negative length": reply("HTTP/1.1 200 OK\nContent-Length: -5", b"hello"),
    "a length in other digits": reply("HTTP/1.1 200 OK\nContent-Length: 5_0", b"hello"),
    "a length and chunks": reply("HTTP/1.1 200 OK\nContent-Length: 5\nTransfer-Encoding: chunked", b"0\r\n\r\n"),
    "an unknown coding": reply("HTTP/1.1 200 OK\nTransfer-Encoding: gzip, chunked"),
    "compressed": reply("HTTP/1.1 200 OK\nContent-Encoding: gzip\nContent-Length: 5", b"hello"),
    "a chunk without a size": reply("HTTP/1.1 200 OK\nTransfer-Encoding: chunked", b"\r\nhello"),
    "a chunk with a sign": reply("HTTP/1.1 200 OK\nTransfer-Encoding: chunked", b"+5\r\nhello\r\n0\r\n\r\n"),
    "a chunk that is too long": reply("HTTP/1.1 200 OK\nTransfer-Encoding: chunked", b"3\r\nhello\r\n0\r\n\r\n"),
    "endless headers": b"HTTP/1.1 200 OK\r\n" + b"X: y\r\n" * 20_000,
    "an endless chunk size": reply("HTTP/1.1 200 OK\nTransfer-Encoding: chunked", b"0" * 70_000),
    "too large": reply("HTTP/1.1 200 OK\nContent-Length: 99999999999"),
    "a chunk that is too large": reply("HTTP/1.1 200 OK\nTransfer-Encoding: chunked", b"ffffffff\r\n"),
}


@pytest.mark.parametrize("data", BAD.values(), ids=BAD.keys())
def test_what_cannot_be_read_safely_is_refused(data):
    with pytest.raises(InvalidResponse):
        ResponseReader().feed(data)


def test_an_endless_response_is_stopped(monkeypatch):
    monkeypatch.setattr(http1, "MAX_BODY", 1000)
    reader = ResponseReader()
    assert not reader.feed(b"HTTP/1.1 200 OK\r\n\r\n")
    assert not reader.feed(b"x" * 1000)
    with pytest.raises(InvalidResponse):
        reader.feed(b"x")


def test_a_response_may_end_with_the_connection():
    reader = ResponseReader()
    assert not reader.feed(b"HTTP/1.1 200 OK\r\n\r\nhel")
    assert not reader.feed(b"lo")
    reader.end()
    assert (reader.body, reader.reusable) == (b"hello", False)


@pytest.mark.parametrize("name", ["a length", "chunks", "an interim answer"])
def test_a_response_that_is_cut_off_is_an_error(name):
    data = GOOD[name][0]
    for size in range(len(data)):
        reader = ResponseReader()
        assert not reader.feed(data[:size])
        with pytest.raises(ConnectionError):
            reader.end()


@given(st.binary(max_size=300) | st.binary(max_size=200).map(lambda tail: GOOD["chunks"][0][:45] + tail))
def test_no_bytes_break_the_parser(data):
    reader = ResponseReader()
    try:
        reader.feed(data)
    except InvalidResponse:
        return
    assert len(reader.body) <= len(data)
