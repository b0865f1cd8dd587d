"""Jupyter messages and frames: what is packed comes out the same; what is malformed is one kind of error."""

from __future__ import annotations

import json
import socket
import struct

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sandbox import frames
from sandbox.frames import FrameError, Reader
from sandbox.wire import DELIMITER, Wire, WireError

KEY = b"secret"


def test_a_message_comes_out_as_it_went_in():
    sender, receiver = Wire(KEY), Wire(KEY)
    number, packed = sender.pack(
        "execute_request", {"code": "ü"}, parent={"msg_id": "p"}, identities=[b"id"], buffers=[b"raw"]
    )
    message = receiver.unpack(packed)
    assert (message.kind, message.id, message.parent_id) == ("execute_request", number, "p")
    assert (message.content, message.identities, message.buffers) == ({"code": "ü"}, [b"id"], [b"raw"])


def test_it_is_what_jupyter_client_speaks():
    from jupyter_client.session import Session

    theirs = Session(key=KEY)
    _, packed = Wire(KEY).pack("kernel_info_request", {"a": 1})
    _, parts = theirs.feed_identities(packed)
    assert theirs.deserialize(parts)["content"] == {"a": 1}
    message = theirs.msg("kernel_info_reply", {"b": 2})
    assert Wire(KEY).unpack(theirs.serialize(message)).content == {"b": 2}


@pytest.mark.parametrize(
    "change",
    [
        lambda parts: parts[1:],
        lambda parts: parts[:5],
        lambda parts: [parts[0], b"0" * 64, *parts[2:]],
        lambda parts: [*parts[:5], b'{"code": "other"}'],
        lambda parts: [],
        lambda parts: parts * 20,
    ],
    ids=["no delimiter", "too few", "wrong signature", "changed content", "nothing", "too many"],
)
def test_a_message_that_is_not_signed_or_whole_is_refused(change):
    _, packed = Wire(KEY).pack("x", {})
    with pytest.raises(WireError):
        Wire(KEY).unpack(change(packed))


@pytest.mark.parametrize(
    "part",
    [b"[]", b"not json", b"\xff\xfe", b"[" * 100_000, b"1" * 5000, b'"text"', b"", b'{"a": ' + b"9" * 5000 + b"}"],
    ids=["list", "words", "bytes", "deep", "long number", "string", "empty", "long number inside"],
)
def test_a_signed_part_that_is_not_an_object_is_refused(part):
    wire = Wire(KEY)
    parts = [b'{"msg_type": "x"}', b"{}", b"{}", part]
    with pytest.raises(WireError):
        wire.unpack([DELIMITER, wire._sign(parts), *parts])


@settings(deadline=None)
@given(noise=st.lists(st.binary(max_size=50), max_size=10))
def test_noise_is_always_a_wire_error(noise):
    with pytest.raises(WireError):
        Wire(KEY).unpack(noise)


@settings(deadline=None)
@given(bodies=st.lists(st.dictionaries(st.text(), st.integers() | st.text()), max_size=5), cut=st.integers(1, 20))
def test_frames_come_out_whole_however_they_are_cut(bodies, cut):
    data = b"".join(frames.encode(body) for body in bodies)
    reader, seen = Reader(10_000), []
    for start in range(0, len(data), cut):
        reader.feed(data[start : start + cut])
        seen += reader.frames()
    assert seen == bodies


@pytest.mark.parametrize(
    "data",
    [
        struct.pack("!I", 101),
        struct.pack("!I", 1) + b"[",
        struct.pack("!I", 2) + b"[]",
        struct.pack("!I", 3) + b"\xff{}",
    ],
    ids=["too large", "not json", "not an object", "not utf-8"],
)
def test_a_malformed_frame_is_a_frame_error(data):
    reader = Reader(100)
    reader.feed(data)
    with pytest.raises(FrameError):
        list(reader.frames())


def test_descriptors_travel_beside_a_frame(tmp_path):
    ours, theirs = socket.socketpair()
    with ours, theirs, open(tmp_path / "file", "w+b") as file:
        file.write(b"shared")
        file.flush()
        frames.send(ours, {"hello": 1}, [file.fileno()])
        reader, descriptors = Reader(1000), []
        assert frames.receive_with_descriptors(theirs, reader, descriptors)
        assert list(reader.frames()) == [{"hello": 1}]
        with open(descriptors[0], "rb") as received:
            received.seek(0)
            assert received.read() == b"shared"


def test_json_replaced_by_a_cell_does_not_change_what_is_sent(monkeypatch):
    monkeypatch.setattr(json, "dumps", lambda *a, **k: "hijacked")
    monkeypatch.setattr(json.JSONEncoder, "default", None)
    assert b"hijacked" not in frames.encode({"a": 1})
