"""Forged and malformed messages, sent by code that has taken the kernel it runs in apart and holds its key."""

from __future__ import annotations

import pytest

from tests.support.hostile_kernel import NOW, TAKE_APART

from .hosts import Box, Ended, Raised, eventually, goes_on, runs

pytestmark = pytest.mark.any_user
MB = 1 << 20


def _attack(box: Box, code: str, **options: object) -> Ended:
    assert box.run(TAKE_APART).value == "'taken apart'"
    ended = box.run(NOW + code, **options)  # type: ignore[arg-type]
    # An attack that fails by its own fault proves nothing.
    own_faults = ("AttributeError", "ImportError", "ModuleNotFoundError", "NameError", "SyntaxError")
    assert ended.error not in own_faults, ended
    return ended


_MALFORMED = {
    "no-delimiter": "[b'garbage']",
    "empty": "[b'']",
    "nothing-after-the-delimiter": "[b'<IDS|MSG>']",
    "too-few-frames": "[b'<IDS|MSG>', b'', b'{}', b'{}']",
    "too-many-frames": "[b'x'] * 100 + sign(header('stream'), parent, b'{}', b'{}')",
    "not-json": "sign(b'{', b'{', b'{', b'{')",
    "not-utf-8": "sign(b'\\xff\\xfe', b'{}', b'{}', b'{}')",
    "a-list-as-header": "sign(b'[]', b'{}', b'{}', b'{}')",
    "a-number-as-content": "sign(header('stream'), parent, b'{}', b'7')",
    "null-as-parent": "sign(header('stream'), b'null', b'{}', b'{}')",
    "no-type": "sign(b'{\"msg_id\": \"x\"}', parent, b'{}', b'{}')",
    "a-number-as-type": "sign(b'{\"msg_type\": 5}', parent, b'{}', b'{}')",
    "deep-json": "sign(header('stream'), parent, b'{}', b'{\"text\":' + b'[' * 200000 + b']' * 200000 + b'}')",
    "deep-objects": "sign(header('stream'), parent, b'{}', b'{\"a\":' * 100000 + b'1' + b'}' * 100000)",
    "a-giant-integer": "sign(header('stream'), parent, b'{}', b'{\"text\": ' + b'9' * 100000 + b'}')",
}


@pytest.mark.parametrize("channel", ["iopub", "shell"])
@pytest.mark.parametrize("forged", _MALFORMED)
def test_a_malformed_message(host, box, forged, channel):
    addressed = "b'stream'," if channel == "iopub" else "*request.identities,"
    ended = _attack(box, f"{channel}.send_multipart([{addressed} *{_MALFORMED[forged]}])\ntime.sleep(20)")
    assert ended.death == "ProtocolViolation"
    assert eventually(lambda: not runs(box.pid))
    assert host.alive


def test_a_session_that_broke_the_protocol_runs_nothing_more(host, box):
    """Not even in the moment before its process is gone."""
    ended = _attack(box, "iopub.send_multipart([b'garbage'])\ntime.sleep(20)")
    assert ended.death == "ProtocolViolation"
    assert not ended.alive
    with pytest.raises(Raised, match="SessionClosed"):
        box.run("1")


_WELL_SIGNED = {
    "a-stream-without-a-name": "publish('stream', {})",
    "a-stream-of-lists": "publish('stream', {'name': ['stdout'], 'text': ['x']})",
    "a-stream-with-lone-surrogates": "publish('stream', {'name': 'stdout', 'text': 'a\\ud800b'})",
    "a-result-that-is-a-list": "publish('execute_result', {'data': ['x']})",
    "a-result-of-another-type": "publish('execute_result', {'data': {'text/plain': {'a': 1}}})",
    "a-result-with-lone-surrogates": "publish('execute_result', {'data': {'text/plain': '\\udfff', 'b': '\\udfff'}})",
    "a-status-nobody-knows": "publish('status', {'execution_state': ['idle']})",
    "a-type-nobody-knows": "publish('os.system', {'command': 'true'})",
    "an-answer-to-nothing": "publish('comm_msg', {'data': {'variables': 1}})",
    "a-request": "publish('execute_request', {'code': 'open(\"/tmp/escaped\", \"w\")'})",
    "an-input-request": "publish('input_request', {'prompt': 'password?', 'password': True})",
    "a-parent-that-is-a-list": "publish('status', {'execution_state': 'idle'}, of=b'{\"msg_id\": [1]}')",
    "facts-that-are-text": "reply({'status': 'ok'}, {'rlm.sandbox': 'text'})",
    "facts-of-wrong-types": (
        "reply({'status': 'error', 'ename': {}, 'evalue': 5, 'traceback': [1, {}, None]},"
        " {'rlm.sandbox': {'dropped': -5, 'line': 'x', 'warnings': {'a': 1}, 'limit': ['memory'], 'stopped': []}})"
    ),
    "facts-beyond-all-measure": (
        "reply({'status': 'error', 'traceback': ['x' * 5000] * 1000, 'ename': 'E' * 10**6},"
        " {'rlm.sandbox': {'dropped': int('9' * 4000), 'line': int('9' * 4000), 'warnings': ['w' * 1000] * 1000}})"
    ),
    "a-status-that-is-a-number": "reply({'status': 5})",
    "infinite-numbers": "reply({'status': 'ok'}, {'rlm.sandbox': {'dropped': float('inf'), 'line': float('nan')}})",
}


@pytest.mark.parametrize("forged", _WELL_SIGNED)
def test_a_well_signed_lie(host, box, forged):
    """The host may be told anything; what it hands on are plain values of the right type, and it goes on."""
    ended = _attack(box, _WELL_SIGNED[forged] + "\n")
    ended.everything.encode()
    assert len(ended.everything) < 16 * MB
    if ended.alive:
        again = box.run("1 + 1")
        assert again.value == "2" or again.error or again.limit
    assert host.alive


def test_a_number_of_lost_bytes_that_cannot_be_written_out(host, open_box):
    """The sum of two counts, one of them forged, is longer than Python turns into text."""
    box = open_box(limits={"output_bytes": 1000})
    ended = _attack(
        box,
        "publish('stream', {'name': 'stdout', 'text': 'x' * 5000})\n"
        "time.sleep(0.3)\n"
        "reply({'status': 'ok'}, {'rlm.sandbox': {'dropped': 10**4300 - 1}})\n"
        "publish('status', {'execution_state': 'idle'})\n"
        "time.sleep(20)",
    )
    assert ended.dropped > 0
    assert goes_on(box)


def test_a_value_larger_than_any_output_may_be(host, open_box):
    box = open_box(limits={"output_bytes": 10_000})
    ended = _attack(box, "publish('execute_result', {'data': {'text/plain': 'x' * 12_000_000}})")
    assert len(ended.everything) < MB
    assert goes_on(box)


def test_a_reply_to_a_request_that_was_not_made_yet(host, open_box):
    box = open_box(limits={"cell_seconds": 0.7})
    _attack(
        box,
        "start, _, number = request.header['msg_id'].rpartition('_')\n"
        "for ahead in range(1, 5):\n"
        "    of = json.dumps({'msg_id': f'{start}_{int(number) + ahead}'}).encode()\n"
        "    reply({'status': 'ok'}, of=of)\n"
        "    publish('status', {'execution_state': 'idle'}, of=of)\n",
    )
    box.run("forged = False")
    box.run("import time\nwhile True: time.sleep(1)")
    box.close()
    assert goes_on(box)


def test_a_reply_before_the_end_of_the_cell(host, open_box):
    """The host has its answer, and the cell goes on: the next one is waited for as long as any."""
    box = open_box(limits={"cell_seconds": 1.0})
    _attack(box, "reply({'status': 'ok'})\nhang()", seconds=15)
    ended = box.run("1 + 1", seconds=15)
    assert (ended.limit, ended.survived) == ("CellTimeLimit", False)
    assert eventually(lambda: not runs(box.pid))
    assert goes_on(box)


def test_idle_and_then_never_a_reply(host, open_box):
    box = open_box(limits={"cell_seconds": 1.0})
    ended = _attack(box, "publish('status', {'execution_state': 'idle'})\nhang()", seconds=15)
    assert (ended.limit, ended.survived) == ("CellTimeLimit", False)
    assert goes_on(box)


def test_a_reply_to_a_question_about_variables_that_is_none(host, open_box):
    """The answer to a cell, sent as the answer to `variables()`, and then silence."""
    box = open_box()
    _attack(
        box,
        "def lie(options):\n"
        "    reply({'status': 'ok'}, of=json.dumps(kernel._request.header).encode())\n"
        "    hang()\n"
        "kernel._variables = lie\n",
    )
    with pytest.raises(Exception, match="CellTimeLimit"):
        box.variables(seconds=15)
    assert goes_on(box)


@pytest.mark.parametrize("forged", ["[1]", "{'variables': 'all of them'}", "{'error': 'x' * 100_000}"])
def test_what_is_no_account_of_the_variables(host, box, forged):
    _attack(box, f"kernel._variables = lambda options: {forged}\n")
    with pytest.raises(Raised, match="could not look at its variables") as raised:
        box.variables()
    assert len(str(raised.value)) < 1000
    assert host.alive


_VARIABLES = {
    "junk": "{'variables': [5, None, {}, {'name': 5}, {'name': '\\ud800', 'type': 7, 'size': ['x'], 'preview': {}}]}",
    "endless": "{'variables': [{'name': f'v{i}', 'preview': 'x' * 1000} for i in range(9000)]}",
    "giant-numbers": "{'variables': [{'name': 'a', 'has_value': True, 'value': int('9' * 4000)}]}",
    "deep": "{'variables': [{'name': 'a', 'has_value': True, 'value': deep}]}",
}


@pytest.mark.parametrize("forged", _VARIABLES)
def test_a_forged_account_of_the_variables(host, box, forged):
    deep = "deep = 1\nfor _ in range(900):\n    deep = [deep]\nsys.setrecursionlimit(10000)\n"
    _attack(box, f"{deep}forged = {_VARIABLES[forged]}\nkernel._variables = lambda options: forged\n")
    found = box.variables()
    assert len(found) <= 2000
    for name, one in found.items():
        assert (name + one["preview"] + one["type"]).encode()
    assert host.alive


def test_an_account_of_the_variables_that_never_ends(host, box):
    _attack(box, "kernel._variables = lambda options: hang()\n")
    with pytest.raises(Exception, match="CellTimeLimit"):
        box.variables(seconds=15)
    assert goes_on(box)


_PATCHES = {
    "json.dumps": "json.dumps = lambda *a, **k: '{'",
    "json.JSONEncoder": "json.JSONEncoder.encode = lambda self, o: 'NaN'",
    "the-wire's-encoder": "sys.modules['sandbox.wire']._encode = lambda o: 'not json'",
    "the-signature": "type(wire)._sign = lambda self, parts: b'0' * 64",
    "the-key": "wire.key = b'another key'",
    "pack": "type(wire).pack = lambda self, *a, **k: ('id', [b'x'])",
    "the-reply": "type(kernel._publisher).reply = lambda self, *a, **k: None",
    "the-builtins": "import builtins; builtins.len = builtins.isinstance = builtins.str = None",
    "the-time": "time.monotonic = time.perf_counter = lambda: 'now'",
}


@pytest.mark.parametrize("patch", _PATCHES)
def test_a_kernel_that_patches_itself(host, open_box, patch):
    box = open_box(limits={"cell_seconds": 0.7})
    ended = _attack(box, _PATCHES[patch] + "\n", seconds=20)
    if ended.alive:
        box.run("1 + 1", seconds=20)
    assert host.alive


# -- the bytes beneath the messages


def test_garbage_beneath_the_messages(host, open_box):
    """The bytes of the connections themselves, not messages in them."""
    box = open_box(limits={"cell_seconds": 1.0})
    ended = _attack(
        box,
        (
            "for one in connections():\n    one.setblocking(False)\n"
            "    one.send(b'\\xff' * 100 + bytes(range(256)) * 10)\n"
        ),
        seconds=20,
    )
    assert not ended.alive or ended.error is None
    assert goes_on(box)


def test_closing_the_connections(host, open_box):
    box = open_box(limits={"cell_seconds": 1.0})
    ended = _attack(box, "for one in connections():\n    one.shutdown(socket.SHUT_RDWR)\n", seconds=20)
    assert not ended.alive or ended.limit
    assert goes_on(box)


def test_closing_every_descriptor(host, open_box):
    box = open_box(limits={"cell_seconds": 1.0})
    ended = box.run("import os\nos.closerange(0, 256)\nimport time\ntime.sleep(20)", seconds=20)
    assert not ended.alive
    assert goes_on(box)


def test_closing_the_call_socket(host, box):
    ended = _attack(box, "calls.socket.close()\ntime.sleep(20)")
    assert ended.death == "KernelDied"
    assert goes_on(box)


@pytest.mark.needs_root
@pytest.mark.parametrize("channel", ["iopub", "shell"])
def test_a_message_that_is_too_large(fresh_host, variant, channel):
    box = Box(fresh_host, variant.tier, limits={"cell_seconds": 15.0})
    before = fresh_host.forget_peak()
    send = f"{channel}.send_multipart([{'' if channel == 'iopub' else '*request.identities,'} bytes(120 << 20)])"
    _attack(box, f"{send}\ntime.sleep(20)", seconds=20)
    assert fresh_host.peak_memory() - before < 100 * MB
    assert eventually(lambda: not runs(box.pid))
    assert goes_on(box)


@pytest.mark.needs_root
@pytest.mark.parametrize("channel", ["iopub", "shell"])
def test_a_message_without_an_end(fresh_host, variant, channel):
    """Every part is small enough, but there are always more of them: nothing is received until the last one."""
    box = Box(fresh_host, variant.tier, limits={"cell_seconds": 2.0})
    before = fresh_host.forget_peak()
    _attack(
        box,
        "part = b'\\x03' + struct.pack('!Q', 10 << 20) + bytes(10 << 20)\n"  # a long one, and more to come
        f"{channel}.socket.setblocking(True)\n"
        "for _ in range(40):\n"
        f"    {channel}.socket.sendall(part)\n"
        f"{channel}.socket.sendall(bytes(2))\n"
        "time.sleep(20)",
        seconds=20,
    )
    assert fresh_host.peak_memory() - before < 200 * MB
    assert eventually(lambda: not runs(box.pid))
    assert goes_on(box)


@pytest.mark.needs_root
def test_a_flood_of_messages(fresh_host, variant):
    box = Box(fresh_host, variant.tier)
    before = fresh_host.forget_peak()
    ended = _attack(box, "while True:\n    publish('stream', {'name': 'stdout', 'text': 'x' * 200000})")
    assert ended.death == "ProtocolViolation"
    assert fresh_host.peak_memory() - before < 150 * MB
    assert goes_on(box)


@pytest.mark.needs_root
def test_a_flood_between_two_cells(fresh_host, variant):
    """Nobody listens, and the host must not collect what is said meanwhile."""
    box = Box(fresh_host, variant.tier)
    before = fresh_host.forget_peak()
    _attack(
        box,
        "def flood():\n"
        "    while True:\n"
        "        iopub.send_multipart([bytes(10 << 20)])\n"
        "kernel._publisher._send = lambda channel, frames: channel.send_multipart(frames)\n"
        "threading.Thread(target=lambda: (time.sleep(0.3), flood()), daemon=True).start()\n",
    )
    other = Box(fresh_host, variant.tier)
    other.run("import time; time.sleep(1.5)")
    assert fresh_host.peak_memory() - before < 150 * MB
    assert goes_on(box)
