"""The host's ZeroMQ connection: talks to libzmq, and keeps nothing that it did not count."""

from __future__ import annotations

import socket
import struct
import threading

import pytest
import zmq
from hypothesis import given
from hypothesis import strategies as st

from sandbox.errors import ProtocolViolation
from sandbox.zmtp import Connection, HungUp, connect

GREETING = b"\xff" + bytes(8) + b"\x7f\x03\x00NULL" + bytes(16) + b"\0" + bytes(31)
READY = b"\x04\x06\x05READY"


@pytest.fixture
def router(tmp_path):
    with zmq.Context() as context, context.socket(zmq.ROUTER) as router:
        router.bind(f"ipc://{tmp_path}/s")
        yield router, f"ipc://{tmp_path}/s"


def dial(endpoint, kind, *, max_message_bytes, seconds):
    return Connection(connect(endpoint, seconds), kind, max_message_bytes=max_message_bytes, seconds=seconds)


def wait(connection):
    while (message := connection.receive()) is None:
        pass
    return message


@given(parts=st.lists(st.binary(max_size=600), min_size=1, max_size=5))
def test_messages_of_all_sizes_go_both_ways(tmp_path_factory, parts):
    directory = tmp_path_factory.mktemp("zmq")
    with zmq.Context() as context, context.socket(zmq.ROUTER) as router:
        router.bind(f"ipc://{directory}/s")
        connection = dial(f"ipc://{directory}/s", "DEALER", max_message_bytes=10_000, seconds=5)
        connection.send_multipart(parts)
        identity, *received = router.recv_multipart()
        assert received == parts
        router.send_multipart([identity, *parts])
        assert wait(connection) == parts
        connection.close()


def test_large_messages_go_both_ways(router):
    router, endpoint = router
    connection = dial(endpoint, "DEALER", max_message_bytes=100 << 20, seconds=5)
    big = bytes(range(256)) * 40_000
    connection.send_multipart([b"small", big])
    identity, *parts = router.recv_multipart()
    assert parts == [b"small", big]
    router.send_multipart([identity, big, big])
    assert wait(connection) == [big, big]
    connection.close()


def test_a_subscription_reaches_a_publisher(tmp_path):
    with zmq.Context() as context, context.socket(zmq.XPUB) as publisher:
        publisher.bind(f"ipc://{tmp_path}/s")
        connection = dial(f"ipc://{tmp_path}/s", "SUB", max_message_bytes=1000, seconds=5)
        assert publisher.recv() == b"\x01"
        publisher.send_multipart([b"topic", b"body"])
        assert wait(connection) == [b"topic", b"body"]
        connection.close()


def test_it_works_over_tcp():
    with zmq.Context() as context, context.socket(zmq.ROUTER) as router:
        port = router.bind_to_random_port("tcp://127.0.0.1")
        connection = dial(f"tcp://127.0.0.1:{port}", "DEALER", max_message_bytes=1000, seconds=5)
        connection.send_multipart([b"hello"])
        assert router.recv_multipart()[1:] == [b"hello"]
        connection.close()


def test_the_end_of_a_connection_is_noticed(router):
    router, endpoint = router
    connection = dial(endpoint, "DEALER", max_message_bytes=1000, seconds=5)
    assert connection.receive() is None
    router.close(linger=0)
    with pytest.raises(HungUp):
        wait(connection)
    connection.close()


@pytest.fixture
def impostor(tmp_path):
    """A peer that sends whatever it is told to after a proper handshake."""
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(f"{tmp_path}/s")
    listener.listen(1)
    opened = []

    def connect(then: bytes, greeting: bytes = GREETING, ready: bytes = READY) -> Connection:
        def serve():
            peer, _ = listener.accept()
            opened.append(peer)
            peer.sendall(greeting + ready + then)

        thread = threading.Thread(target=serve)
        thread.start()
        try:
            return dial(f"ipc://{tmp_path}/s", "DEALER", max_message_bytes=1000, seconds=2)
        finally:
            thread.join()

    yield connect
    listener.close()
    for peer in opened:
        peer.close()


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (b"\x02" + struct.pack("!Q", 1 << 60), "more than 1,000 bytes"),
        ((b"\x01\xff" + bytes(255)) * 4, "more than 1,000 bytes"),
        (b"\x01\x00" * 100, "more than 64 parts"),
        (b"\x80\x00", "not a frame"),
        (b"\xff" * 50, "not a frame"),
    ],
    ids=["an exabyte", "many parts that are large together", "many empty parts", "unknown flag", "noise"],
)
def test_what_no_honest_peer_sends_is_a_violation(impostor, data, words):
    connection = impostor(data)
    with pytest.raises(ProtocolViolation, match=words):
        wait(connection)
    connection.close()


def test_commands_after_the_handshake_are_passed_over(impostor):
    connection = impostor(b"\x04\x05\x04PING" + b"\x00\x02ok")
    assert wait(connection) == [b"ok"]
    connection.close()


@pytest.mark.parametrize(
    ("greeting", "ready"),
    [
        (b"HTTP/1.1 400 Bad Request\r\n" + bytes(100), b""),
        (GREETING.replace(b"NULL", b"PLAI"), READY),
        (GREETING, b"\x04\x06\x05ERROR"),
    ],
    ids=["not zmtp", "encrypted", "refused"],
)
def test_a_peer_that_does_not_speak_the_protocol_is_a_violation(impostor, greeting, ready):
    with pytest.raises(ProtocolViolation):
        impostor(b"", greeting, ready)


def test_a_peer_that_does_not_read_is_a_violation(impostor, monkeypatch):
    connection = impostor(b"")
    connection._seconds = 0.1
    with pytest.raises(ProtocolViolation, match="does not take"):
        connection.send_multipart([bytes(50 << 20)])
    connection.close()


def test_commands_without_end_are_a_violation(impostor):
    connection = impostor(b"\x04\x00" * 20_000)
    with pytest.raises(ProtocolViolation, match="commands"):
        wait(connection)
    connection.close()


def test_a_turn_that_is_over_before_it_begins_gets_on_all_the_same(impostor):
    """A machine that is busy may let any time pass between two lines."""
    connection = impostor(b"\x00\x01a" * 100)
    taken = []
    for _ in range(300):
        taken += connection.messages(0.0)
        if not connection.behind:
            break
    assert taken == [[b"a"]] * 100
    connection.close()
