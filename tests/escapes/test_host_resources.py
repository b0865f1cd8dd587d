"""The host's own time and memory: no message, call, output or silence of a kernel may cost more than a little of them.

Deadlines are judged by the host's clock, less the time in which the machine let it wait for a processor. Turns of the
event loop are judged by the processor time that they took.
"""

from __future__ import annotations

import json
import time

import pytest

from tests.support.hostile_kernel import NOW, TAKE_APART

from .hosts import Box, goes_on
from .test_frames import MB, _attack

pytestmark = pytest.mark.any_user

GRACE = 0.7  # as in serving.py
TURN = 0.1
"""The most processor time that one turn of the event loop may take, in seconds."""

# -- messages that cost the sender nothing

_FLOODS = {
    "commands": "b'\\x04\\x00'",
    "large-commands": "b'\\x06' + struct.pack('!Q', 60000) + bytes(60000)",
    "empty-messages": "b'\\x00\\x00'",
    "empty-parts": "b'\\x01\\x00'",
    "parts-and-commands": "b'\\x01\\x00\\x04\\x00'",
    "tiny-messages": "tiny",
    "other-tiny-messages": "other",
}
_FLOOD = """
def packed(parts):
    return b''.join(bytes([1 if part is not parts[-1] else 0, len(part)]) + part for part in parts)
tiny = packed([b'stream', b'<IDS|MSG>', b'', b'{"msg_type":"stream"}', b'{}', b'{}', b'{"name":"stdout","text":"x"}'])
other = packed([b'<IDS|MSG>', b'', b'{"msg_type":"x"}', b'{}', b'{}', b'{}'])
CHANNEL.socket.setblocking(True)
data = (FLOOD) * max(1, 100_000 // len(FLOOD))
def flood():
    while True:
        CHANNEL.socket.sendall(data)
"""


def _flooding(flood: str, channel: str) -> str:
    return _FLOOD.replace("FLOOD", flood).replace("CHANNEL", channel)


@pytest.mark.parametrize("channel", ["iopub", "shell"])
@pytest.mark.parametrize("flood", _FLOODS)
def test_a_flood_does_not_hold_up_the_clock(open_box, flood, channel):
    box = open_box(limits={"cell_seconds": 30.0, "session_seconds": 60.0})
    ended = _attack(box, _flooding(_FLOODS[flood], channel) + "flood()", timeout=1.0)
    assert ended.within(1.0 + GRACE), ended
    assert ended.death == "ProtocolViolation" or ended.limit == "CellTimeLimit"
    assert goes_on(box)


_ON_A_LOOP = {
    **{f"{flood}-on-{channel}": _flooding(code, channel) + "flood()" for flood, code in _FLOODS.items()
       for channel in ("iopub", "shell")},
    "raw-output": "while True:\n    os.write(2, b'x' * 60000)",
    "raw-bytes": "while True:\n    os.write(2, b'\\xff\\n')",
    "calls-of-nothing": (
        "data = frame({'id': 1, 'name': 'nothing', 'args': [], 'kwargs': {}}) * 1000\n"
        "threading.Thread(target=lambda: [calls.socket.recv(1 << 20) for _ in iter(int, 1)], daemon=True).start()\n"
        "while True:\n    calls.socket.sendall(data)"
    ),
    "calls-of-nothing-that-are-large": (
        "data = frame({'id': 1, 'name': 'nothing', 'args': ['x' * 4_000_000], 'kwargs': {}})\n"
        "threading.Thread(target=lambda: [calls.socket.recv(1 << 20) for _ in iter(int, 1)], daemon=True).start()\n"
        "while True:\n    calls.socket.sendall(data)"
    ),
    "quick-calls": (
        "data = frame({'id': 1, 'name': 'quick', 'args': [], 'kwargs': {}}) * 1000\n"
        "threading.Thread(target=lambda: [calls.socket.recv(1 << 20) for _ in iter(int, 1)], daemon=True).start()\n"
        "while True:\n    calls.socket.sendall(data)"
    ),
    "calls-of-many-values": (
        "data = frame(b'{\"id\":1,\"name\":\"quick\",\"kwargs\":{},\"args\":[' + b'[],' * 1_300_000 + b'1]}')\n"
        "while True:\n    calls.socket.sendall(data)"
    ),
    "calls-with-tags": (
        "data = frame(b'{\"id\":1,\"name\":\"quick\",\"kwargs\":{},\"args\":['"
        " + b'{\"$type\":1,\"$value\":1},' * 150_000 + b'1]}')\nwhile True:\n    calls.socket.sendall(data)"
    ),
}  # fmt: skip


@pytest.mark.parametrize("attack", _ON_A_LOOP)
def test_no_turn_of_the_event_loop_is_long(host, variant, attack):
    ended = host.ask(
        "run_on_loop",
        isolation=variant.tier,
        limits={"cell_seconds": 30.0},
        code=[TAKE_APART, NOW + _ON_A_LOOP[attack]],
        timeout=1.0,
    )
    assert ended["longest"] < TURN, ended
    assert ended["took"] - ended["delayed"] < 1.0 + GRACE + 0.2, ended
    assert ended["death"] == "ProtocolViolation" or ended["limit"], ended


@pytest.mark.parametrize("call", ["refused", "refused and large"])
def test_calls_that_are_refused_cost_little(host, variant, call):
    """They are not counted as calls, so something else must count them."""
    text = "'x' * 4_000_000" if "large" in call else "1"
    code = (
        f"data = frame({{'id': 1, 'name': 'nothing', 'args': [{text}], 'kwargs': {{}}}})\n"
        "threading.Thread(target=lambda: [calls.socket.recv(1 << 20) for _ in iter(int, 1)], daemon=True).start()\n"
        "while True:\n    calls.socket.sendall(data)"
    )
    limits = {"cell_seconds": 30.0}
    ended = host.ask("run_on_loop", isolation=variant.tier, limits=limits, code=[TAKE_APART, NOW + code], timeout=8.0)
    assert ended["death"] == "ProtocolViolation" or call == "refused", ended
    assert ended["used"] < 4.0, ended


# -- a descriptor that has nothing more to say


def test_closed_output_descriptors_do_not_keep_the_host_busy(fresh_host, variant):
    box = Box(fresh_host, variant.tier)
    box.run("import os\nos.close(1)\nos.close(2)")
    before = fresh_host.processor_seconds()
    ended = box.run("import time\ntime.sleep(1.5)\nprint('still heard')")
    assert ended.text == "still heard\n"
    assert fresh_host.processor_seconds() - before < 0.3


# -- a kernel that does not read


def _deafen(box: Box) -> None:
    """From the end of this cell on the kernel's main thread reads nothing, and the process lives on."""
    _attack(
        box,
        "import select\n"
        "class Deaf:\n"
        "    def receive(self):\n"
        "        while True:\n            time.sleep(10)\n"
        "import signal\nsignal.signal(signal.SIGUSR1, signal.SIG_IGN)\n"
        "kernel._channels.receive = Deaf().receive\n",
    )


@pytest.mark.parametrize("size", [10, 5_000_000], ids=["short", "long"])
def test_a_cell_sent_to_a_kernel_that_does_not_read_times_out(open_box, size):
    box = open_box()
    _deafen(box)
    ended = box.run("#" * size, timeout=1.0)
    assert ended.within(1.0 + GRACE), ended
    assert (ended.limit, ended.survived) == ("CellTimeLimit", False)
    assert goes_on(box)


def test_an_input_for_a_kernel_whose_call_socket_is_full(host, open_box):
    """Answers that nobody reads fill the socket through which the input's descriptor has to go."""
    box = open_box(functions=["echo"], limits={"call_bytes": MB})
    _attack(
        box,
        "data = frame({'id': 7, 'name': 'echo', 'args': ['x' * 900_000], 'kwargs': {}})\n"
        "calls.socket.sendall(data)\ncalls.socket.sendall(data)\n"
        "calls.pump = lambda: True\ncalls.take_descriptors = lambda count: time.sleep(3)\ntime.sleep(0.3)\n",
    )
    assert host.ask("set_input", number=box.number, size=2_000_000) < 8
    assert goes_on(box)


# -- values that are larger than what they were sent as

_LARGE = {
    "lists": "b'[' + b'[],' * 4_000_000 + b'1]'",
    "nested-lists": "b'[' + (b'[' * 400 + b']' * 400 + b',') * 14_000 + b'1]'",
    "objects": "b'[' + b'{\"a\":1},' * 1_500_000 + b'1]'",
    "short-texts": "b'[' + b'\"ab\",' * 2_400_000 + b'1]'",
    "one-text": "b'\"' + 'x'.encode() * 12_000_000 + '\U0001f600'.encode() + b'\"'",
    "escapes": "b'\"' + b'\\\\ud83d\\\\ude00' * 1_000_000 + b'\"'",
}


@pytest.mark.needs_root
@pytest.mark.parametrize("large", _LARGE)
@pytest.mark.parametrize("place", ["a-reply", "a-stream", "variables", "a-comm"])
def test_a_large_message_costs_a_small_multiple_of_its_size(fresh_host, variant, place, large):
    box = Box(fresh_host, variant.tier, limits={"cell_seconds": 10.0})
    before = fresh_host.forget_peak()
    message = {
        "a-reply": (
            "shell.send_multipart([*request.identities, *sign(header('execute_reply'), parent, b'{}',"
            " b'{\"a\":' + value + b'}')])"
        ),
        "a-stream": (
            "iopub.send_multipart([b's', *sign(header('stream'), parent, b'{}',"
            ' b\'{"name":"stdout","text":\' + value + b\'}\')])'
        ),
        "variables": (
            "shell.send_multipart([*request.identities, *sign(header('execute_reply'), parent, b'{\"rlm.sandbox\":"
            '{"variables":{"variables":[{"name":"a","has_value":true,"value":\' + value + b\'}]}}}\','
            ' b\'{"status":"ok"}\')])'
        ),
        "a-comm": (
            "iopub.send_multipart([b'c', *sign(header('comm_msg'), parent, b'{}',"
            " b'{\"data\":{\"variables\":' + value + b'}}')])"
        ),
    }[place]
    _attack(box, f"value = {_LARGE[large]}\n{message}\ntime.sleep(0.5)")
    assert fresh_host.peak_memory() - before < 130 * MB
    fresh_host.ask("forget")
    assert fresh_host.memory() - before < 60 * MB
    assert goes_on(box)


@pytest.mark.needs_root
@pytest.mark.parametrize("large", _LARGE)
def test_calls_that_wait_cost_a_small_multiple_of_their_size(fresh_host, variant, large):
    box = Box(fresh_host, variant.tier, functions=["block"], limits={"cell_seconds": 10.0, "parallel_calls": 2})
    before = fresh_host.forget_peak()
    value = _LARGE[large]
    fitting = {  # into 4 MB, which a call may be long
        "4_000_000": "1_300_000",
        "14_000": "4_500",
        "1_500_000": "500_000",
        "2_400_000": "800_000",
        "12_000_000": "4_000_000",
        "* 1_000_000": "* 330_000",
    }
    for whole, part in fitting.items():
        value = value.replace(whole, part)
    _attack(
        box,
        f'data = frame(b\'{{"id":1,"name":"block","kwargs":{{}},"args":[\' + {value} + b\']}}\')\n'
        "calls.socket.setblocking(True)\n"
        "threading.Thread(target=lambda: [calls.socket.sendall(data) for _ in range(50)], daemon=True).start()\n"
        "time.sleep(3)",
        timeout=6.0,
    )
    assert fresh_host.peak_memory() - before < 250 * MB
    assert goes_on(box)


@pytest.mark.needs_root
@pytest.mark.parametrize("size", [100, 3000])
def test_forged_variables_are_not_kept_in_full(fresh_host, variant, size):
    """A session remembers the variables of the last cell, to be sent only what has changed."""
    box = Box(fresh_host, variant.tier)
    box.run("1")
    before = fresh_host.memory()
    _attack(
        box,
        "one = {'type': 't', 'preview': 'p', 'has_value': True, 'value': [[]] * SIZE}\n"
        "snapshot = {'variables': [{**one, 'name': f'v{i}'} for i in range(1000)], 'number': 1}\n"
        "text = json.dumps({'rlm.sandbox': {'variables': snapshot}}, separators=(',', ':')).encode()\n"
        "parts = sign(header('execute_reply'), parent, text, b'{\"status\": \"ok\"}')\n"
        "shell.send_multipart([*request.identities, *parts])\ntime.sleep(20)".replace("SIZE", str(size)),
    )
    fresh_host.ask("forget")
    assert fresh_host.memory() - before < 40 * MB


# -- arguments that are hard to walk through


@pytest.mark.parametrize("depth", [90, 600, 900, 2000])
@pytest.mark.parametrize("form", ["lists", "objects", "tags"])
def test_deep_arguments_are_no_error_of_the_host(host, open_box, form, depth):
    box = open_box(functions=["note", "echo"])
    opening, closing = {
        "lists": ("b'['", "b']'"),
        "objects": ("b'{\"a\":'", "b'}'"),
        "tags": ('b\'{"$type":"set","$value":\'', "b'}'"),
    }[form]
    ended = _attack(
        box,
        f"deep = {opening} * {depth} + b'1' + {closing} * {depth}\n"
        "for name in (b'note', b'echo'):\n"
        '    calls.socket.sendall(frame(b\'{"id":1,"kwargs":{},"name":"\' + name + b\'","args":[\' + deep + b\']}\'))\n'
        "time.sleep(0.5)\n",
    )
    assert ended.death in (None, "ProtocolViolation")
    assert goes_on(box)


def test_deep_arguments_are_refused_where_they_are_given(box_with_note):
    ended = box_with_note.run(
        "deep = 1\nfor _ in range(600):\n    deep = [deep]\n"
        "try:\n    note(deep)\nexcept Exception as error:\n    print(type(error).__name__, error)"
    )
    assert ended.alive
    assert ended.text.startswith("HostCallRefused note(): arguments nested"), ended.text
    assert ended.noted == []


@pytest.fixture
def box_with_note(open_box):
    return open_box(functions=["note"])


# -- what a result may hold


def test_the_data_of_a_result_is_no_larger_than_output_may_be(host, open_box):
    box = open_box(limits={"output_bytes": 100_000})
    ended = _attack(
        box,
        "publish('execute_result', {'data': {f'text/{i}': 'é' * 100_000 for i in range(16)} | {'text/plain': 'x'}})\n"
        "reply({'status': 'ok'})",
    )
    assert len(ended.data.encode()) < 1.2 * 6 * 100_000  # `data` here is JSON, which writes é as six characters
    assert sum(len(one.encode()) for one in json.loads(ended.data).values()) <= 100_000


def test_a_long_value_is_cut_and_says_so(open_box):
    box = open_box(limits={"output_bytes": 10_000})
    ended = box.run("'é' * 20_000")
    assert ended.value is not None
    assert "more characters" in ended.value
    assert len(ended.value.encode()) <= 10_200


def test_the_standing_host_is_idle_after_the_attacks(host, variant):
    before = host.processor_seconds()
    time.sleep(0.5)
    assert host.processor_seconds() - before < 0.3
