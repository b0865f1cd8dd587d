"""Host calls: requests that no honest kernel makes, payloads that are too large, answers that nobody reads."""

from __future__ import annotations

import pytest

from .hosts import Box, eventually, goes_on, runs
from .test_frames import MB, _attack

pytestmark = pytest.mark.any_user

_MALFORMED = {
    "a-gigabyte-announced": "struct.pack('!I', 1 << 30)",
    "four-gigabytes-announced": "struct.pack('!I', (1 << 32) - 1) + b'{}'",
    "not-json": "frame(b'garbage')",
    "not-utf-8": "frame(b'\\xff\\xfe\\xfd')",
    "an-empty-frame": "struct.pack('!I', 0)",
    "a-list": "frame([1, 2])",
    "an-empty-object": "frame({})",
    "no-id": "frame({'name': 'note', 'args': [], 'kwargs': {}})",
    "a-list-as-id": "frame({'id': [1], 'name': 'note', 'args': [], 'kwargs': {}})",
    "a-fraction-as-id": "frame({'id': 1.5, 'name': 'note', 'args': [], 'kwargs': {}})",
    "a-giant-id": "frame({'id': 'x' * 100000, 'name': 'note', 'args': [], 'kwargs': {}})",
    "a-giant-number-as-id": 'frame(b\'{"id": \' + b\'9\' * 9000 + b\', "name": "note", "args": [], "kwargs": {}}\')',
    "a-long-number-as-id": 'frame(b\'{"id": \' + b\'9\' * 4000 + b\', "name": "note", "args": [], "kwargs": {}}\')',
    "a-name-that-is-a-list": "frame({'id': 1, 'name': ['note'], 'args': [], 'kwargs': {}})",
    "arguments-that-are-text": "frame({'id': 1, 'name': 'note', 'args': 'abc', 'kwargs': {}})",
    "keywords-that-are-a-list": "frame({'id': 1, 'name': 'note', 'args': [], 'kwargs': []})",
    "deep-arguments": """frame(b'{"id": 1, "name": "note", "kwargs": {}, "args": ' + b'[' * 99999)""",
    "arguments-too-large": "frame({'id': 1, 'name': 'note', 'args': ['x' * (17 << 20)], 'kwargs': {}})",
}


@pytest.mark.parametrize("forged", _MALFORMED)
def test_a_malformed_host_call(host, open_box, forged):
    box = open_box(functions=["note"])
    ended = _attack(box, f"calls.socket.sendall({_MALFORMED[forged]})\ntime.sleep(20)")
    assert ended.death == "ProtocolViolation"
    assert ended.noted == []
    assert eventually(lambda: not runs(box.pid))
    assert host.alive


_NAMES = ["__class__", "__init__", "close", "os.system", "eval", "note.__globals__", "", "NOTE", "note\\x00", "\\ud800"]


@pytest.mark.parametrize("name", _NAMES)
def test_calling_what_the_host_does_not_offer(host, open_box, name):
    box = open_box(functions=["note"])
    ended = _attack(
        box,
        f"try:\n    print('got', calls.call('{name}', ('x',), {{}}))\n"
        "except Exception as error:\n    print('refused', type(error).__name__)",
    )
    assert ended.noted == []
    assert ended.lines[-1] == "refused NameError"
    assert ended.alive


def test_strange_arguments_reach_the_function_as_plain_values_or_not_at_all(host, open_box):
    box = open_box(functions=["note", "length"])
    ended = box.run(
        "def attempt(*args, **kwargs):\n"
        "    try:\n"
        "        note(*args, **kwargs)\n"
        "    except Exception as error:\n"
        "        print(type(error).__name__)\n"
        "attempt(float('inf'))\nattempt('\\ud800')\nattempt(10 ** 4000)\n"
        "attempt(**{'not a name': 1, 'self': 2, '': 3})\n"
        "attempt(object())\nattempt({1: 2})\nattempt({('a',): 2})\nattempt(lambda: 1)\nattempt(b'bytes')\n"
    )
    assert ended.alive
    assert ended.text.count("TypeError") >= 4
    for args, kwargs in ended.noted:
        assert all(isinstance(one, int | float | str | dict) for one in (*args, *kwargs.values()))


def test_an_object_that_lies_while_it_is_encoded(host, open_box):
    box = open_box(functions=["note"])
    ended = box.run(
        "class Text(str):\n    def __str__(self): raise SystemExit\n"
        "class Many(list):\n    def __iter__(self):\n        while True: yield 1\n"
        "class Map(dict):\n    def items(self): return [('name', 'other'), ('id', 0)]\n"
        "for one in (Text('t'), Map(a=1)):\n    note(one)\n'done'"
    )
    assert ended.alive
    assert all(isinstance(args[0], str | dict) for args, _ in ended.noted)


def test_more_calls_than_allowed_past_the_function_that_counts(host, open_box):
    box = open_box(functions=["note"], limits={"host_calls": 5})
    ended = _attack(
        box,
        "for number in range(500):\n"
        "    calls.socket.sendall(frame({'id': 1000 + number, 'name': 'note', 'args': [number], 'kwargs': {}}))\n"
        "time.sleep(0.5)\n",
    )
    assert len(ended.noted) <= 5
    assert ended.made <= 5


def test_arguments_that_are_too_large(host, open_box):
    box = open_box(functions=["note", "length"], limits={"call_bytes": 100_000})
    ended = box.run(
        "try:\n    note('x' * 200_000)\nexcept Exception as error:\n"
        "    print(type(error).__name__)\nlength('x' * 50_000)"
    )
    assert (ended.text, ended.value, ended.noted) == ("HostCallRefused\n", "50000", [])


def test_the_same_id_for_many_calls(host, open_box):
    box = open_box(functions=["note", "length"])
    ended = _attack(
        box,
        "for number in range(100):\n"
        "    calls.socket.sendall(frame({'id': 1, 'name': 'length', 'args': ['abc'], 'kwargs': {}}))\n"
        "print(length('abcd'))\n",
    )
    assert ended.alive
    assert ended.error is None


def test_a_frame_that_never_ends(host, open_box):
    """Half a request; then the kernel waits for the host to wait for it."""
    box = open_box(functions=["note"], limits={"cell_seconds": 1.0})
    ended = _attack(box, "calls.socket.sendall(struct.pack('!I', 1 << 20) + b'{\"id\"')\nhang()", seconds=20)
    assert (ended.limit, ended.survived, ended.noted) == ("CellTimeLimit", False, [])
    assert goes_on(box)


@pytest.mark.needs_root
def test_a_backlog_of_large_calls(fresh_host, variant):
    """Functions that take their time, and a kernel that goes on asking: the arguments must not pile up in the host."""
    limits = {"call_bytes": MB, "parallel_calls": 4}
    box = Box(fresh_host, variant.tier, functions=["block"], limits=limits)
    before = fresh_host.forget_peak()
    _attack(
        box,
        "data = frame({'id': 7, 'name': 'block', 'args': ['x' * (1000 << 10)], 'kwargs': {}})\n"
        "for number in range(400):\n    calls.socket.sendall(data)\nhang()",
        timeout=1.5,
        seconds=30,
    )
    assert fresh_host.peak_memory() - before < 150 * MB
    assert goes_on(box)


@pytest.mark.needs_root
def test_large_answers_that_nobody_reads(fresh_host, variant):
    limits = {"call_bytes": MB, "parallel_calls": 4}
    box = Box(fresh_host, variant.tier, functions=["echo"], limits=limits)
    before = fresh_host.forget_peak()
    _attack(
        box,
        "data = frame({'id': 7, 'name': 'echo', 'args': ['x' * (1000 << 10)], 'kwargs': {}})\n"
        "for number in range(400):\n    calls.socket.sendall(data)\nhang()",
        timeout=1.5,
        seconds=30,
    )
    assert fresh_host.peak_memory() - before < 150 * MB
    assert goes_on(box)


@pytest.mark.needs_root
def test_refusals_that_nobody_reads(fresh_host, variant):
    """Calls that are refused count for nothing, and each is answered."""
    box = Box(fresh_host, variant.tier, functions=["note"], limits={"cell_seconds": 1.5})
    before = fresh_host.forget_peak()
    _attack(
        box,
        "data = frame({'id': 'i' * 100, 'name': 'n' * 100, 'args': [], 'kwargs': {}}) * 1000\n"
        "for number in range(250):\n    calls.socket.sendall(data)\nhang()",
        seconds=30,
    )
    assert fresh_host.peak_memory() - before < 25 * MB
    assert goes_on(box)


@pytest.mark.needs_root
def test_descriptors_sent_to_the_host(host, open_box):
    """A socket pair carries descriptors: the host must not keep any."""
    box = open_box(functions=["length"])
    box.run("1")
    before = len(host.descriptors())
    ended = _attack(
        box,
        "file = os.open('/dev/null', os.O_RDONLY)\n"
        "data = frame({'id': 7, 'name': 'length', 'args': ['x'], 'kwargs': {}})\n"
        "for _ in range(50):\n    socket.send_fds(calls.socket, [data], [file] * 4)\n"
        "print(length('abc'))\n",
    )
    assert ended.lines[-1] == "3"
    assert eventually(lambda: len(host.descriptors()) <= before + 2)  # the pool may be making a kernel


def test_a_host_function_that_ends_the_cell_is_not_survived(host, open_box):
    """`except`, `finally`, threads and patched handlers: nothing of the cell runs after the host said stop."""
    box = open_box(functions=["stop", "note"])
    ended = box.run(
        "import gc, threading\n"
        "def go_on():\n    while True:\n        try:\n            note('still here')\n"
        "        except BaseException: pass\n"
        "try:\n    stop()\nexcept BaseException:\n    note('caught')\nfinally:\n    note('finally')\n"
        "note('after')"
    )
    assert (ended.stopped, ended.noted, ended.error) == (True, [], None)


def test_a_stop_that_the_kernel_hides(host, open_box):
    """The kernel takes itself apart so that it does not stop: the host's clock still ends it."""
    box = open_box(functions=["stop"], limits={"cell_seconds": 1.0})
    ended = _attack(
        box,
        "kernel._interrupts.from_call.__func__\nkernel._interrupts.from_call = lambda: None\n"
        "stop()\nprint('went on', flush=True)\nhang()",
        seconds=20,
    )
    assert (ended.lines, ended.limit, ended.survived) == (["went on"], "CellTimeLimit", False)
