"""What goes on when no cell runs, or a cell has been stopped: threads, processes, and the clocks that hold for them."""

from __future__ import annotations

import time

import pytest

from tests.support.hostile_kernel import TAKE_APART

from .hosts import eventually, goes_on, runs

pytestmark = pytest.mark.any_user

PATIENT = 20.0
"""Seconds for a kernel to stop a cell: it does, and says so; how soon is the machine's affair."""

_LATE = {
    "a-thread": (
        "def go_on():\n    while True:\n        note('late')\n        time.sleep(0.01)\n"
        "threading.Thread(target=go_on, daemon=True).start()\n"
    ),
    "a-thread-that-catches-everything": (
        "def go_on():\n    while True:\n        try:\n            note('late')\n            time.sleep(0.01)\n"
        "        except BaseException:\n            pass\n"
        "threading.Thread(target=go_on, daemon=True).start()\n"
    ),
    "a-bare-thread": (
        "import _thread\n"
        "def go_on():\n    while True:\n        try:\n            note('late')\n            time.sleep(0.01)\n"
        "            _thread.start_new_thread(note, ('later',))\n"
        "        except BaseException:\n            pass\n"
        "_thread.start_new_thread(go_on, ())\n"
    ),
    "a-pool": (
        "from concurrent.futures import ThreadPoolExecutor\n"
        "pool = ThreadPoolExecutor(8)\n"
        "for number in range(5000):\n    pool.submit(lambda: (note('late'), time.sleep(0.01)))\n"
    ),
    "calls-that-wait-their-turn": (
        "for number in range(25):\n"
        "    threading.Thread(target=lambda: (pause(1.0), note('late')), daemon=True).start()\n"
    ),
}


@pytest.mark.parametrize("late", _LATE)
@pytest.mark.parametrize("stopped", ["by-the-clock", "by-the-host"])
def test_threads_of_a_stopped_cell_make_no_calls_in_later_cells(open_box, late, stopped):
    box = open_box(functions=["note", "pause", "stop"], limits={"parallel_calls": 4}, grace=PATIENT)
    begin = f"import threading, time\nkept = 7\n{_LATE[late]}time.sleep(0.3)\n"
    if stopped == "by-the-clock":
        ended = box.run(begin + "time.sleep(20)", timeout=0.8)
        assert (ended.limit, ended.survived) == ("CellTimeLimit", True)
    else:
        assert box.run(begin + "stop()").stopped
    ended = box.run("import time\ntime.sleep(1.5)\nkept")
    assert (ended.value, ended.noted, ended.made) == ("7", [], 0)
    assert box.run("note('mine')").noted == [[["mine"], {}]]


_HELD_UP = """
class HeldUp:
    '''A thread that is held up by the machine, at this very moment, until the next cell runs.'''
    def __init__(self, of):
        self.of = of
    def __enter__(self):
        if threading.current_thread() is not threading.main_thread():
            go_on.wait()
        self.of.__enter__()
    def __exit__(self, *error):
        self.of.__exit__(*error)
go_on, calls._writing = threading.Event(), HeldUp(calls._writing)
kept = 7
threading.Thread(target=note, args=('late',), daemon=True).start()
time.sleep(0.2)
"""


@pytest.mark.parametrize("stopped", ["by-the-clock", "by-the-host"])
def test_a_call_that_was_about_to_be_sent_when_its_cell_was_stopped_is_not_made(open_box, stopped):
    box = open_box(functions=["note", "stop"], grace=PATIENT)
    box.run(TAKE_APART)
    if stopped == "by-the-clock":
        assert box.run(f"{_HELD_UP}time.sleep(20)", timeout=0.8).survived
    else:
        assert box.run(f"{_HELD_UP}stop()").stopped
    ended = box.run("go_on.set()\ntime.sleep(0.5)\nkept")
    assert (ended.value, ended.noted, ended.made) == ("7", [], 0)
    assert box.run("note('mine')").noted == [[["mine"], {}]]


def test_a_thread_of_a_stopped_cell_starts_no_threads_that_call(open_box):
    box = open_box(functions=["note", "stop"])
    ended = box.run(
        "import threading, time\n"
        "def go_on():\n    while True:\n        try:\n"
        "            threading.Thread(target=note, args=('late',), daemon=True).start()\n            time.sleep(0.01)\n"
        "        except BaseException:\n            pass\n"
        "threading.Thread(target=go_on, daemon=True).start()\ntime.sleep(0.3)\nstop()"
    )
    assert ended.stopped
    ended = box.run("time.sleep(1.0)")
    assert (ended.noted, ended.made) == ([], 0)
    assert box.run("t = threading.Thread(target=note, args=('mine',))\nt.start()\nt.join()").noted == [[["mine"], {}]]


_STOPPED_IN = {
    "waiting-for-an-answer": "pause(2)",
    "waiting-for-an-answer-beside-others": (
        "import threading\nfor _ in range(4):\n"
        "    threading.Thread(target=pause, args=(1,), daemon=True).start()\npause(2)"
    ),
    "sending-what-the-host-does-not-read": (
        "import threading\nwhile True:\n    threading.Thread(target=echo, args=('x' * 500_000,), daemon=True).start()\n"
        "    echo('x' * 500_000)"
    ),
    "printing": "while True:\n    print('x')",
    "printing-beside-others": (
        "import threading\ndef work():\n    while True:\n        print('y')\n"
        "threading.Thread(target=work, daemon=True).start()\nwhile True:\n    print('x')"
    ),
}


@pytest.mark.parametrize("where", _STOPPED_IN)
def test_a_stopped_cell_leaves_no_lock_behind(open_box, where):
    """Threads of later cells call and print."""
    box = open_box(functions=["pause", "echo"], limits={"parallel_calls": 2}, grace=PATIENT)
    for _ in range(3):
        ended = box.run(_STOPPED_IN[where], timeout=0.5)
        assert (ended.limit, ended.survived) == ("CellTimeLimit", True), ended
    ended = box.run(
        "from concurrent.futures import ThreadPoolExecutor\n"
        "def work(number):\n    print(f'{number}\\n', end='')\n    return echo(number)\n"
        "with ThreadPoolExecutor(8) as pool:\n    done = list(pool.map(work, range(20)))\nsum(done)",
        timeout=20,
    )
    # The interpreter itself may say on the process's own stderr that a thread of a stopped cell has ended.
    assert (ended.value, {str(number) for number in range(20)} <= set(ended.text.split())) == ("190", True), ended


def test_threads_of_a_cell_that_ended_by_itself_go_on(open_box):
    box = open_box(functions=["note"])
    box.run(
        "import threading, time\nthread = threading.Thread(target=lambda: (time.sleep(0.5), note('mine')))\n"
        "thread.start()"
    )
    assert box.run("thread.join()").noted == [[["mine"], {}]]


def test_output_of_threads_of_a_stopped_cell_is_not_that_of_later_cells(open_box):
    box = open_box(grace=PATIENT)
    ended = box.run(
        "import threading, time\n"
        "def go_on():\n    while True:\n        print('late', flush=True)\n        time.sleep(0.01)\n"
        "threading.Thread(target=go_on, daemon=True).start()\ntime.sleep(20)",
        timeout=0.5,
    )
    assert ended.survived
    assert box.run("time.sleep(0.5)\nprint('mine')").text == "mine\n"


def test_threads_that_go_on_between_cells_use_up_the_time_of_a_cell(open_box):
    box = open_box(limits={"cell_seconds": 1.0})
    ended = box.run("import threading\nthreading.Thread(target=lambda: [0 for _ in iter(int, 1)], daemon=True).start()")
    assert ended.error is None
    assert eventually(lambda: not runs(box.pid), 15)
    ended = box.run("1")
    assert (ended.limit, ended.survived, ended.alive) == ("CellTimeLimit", False, False)
    assert goes_on(box)


def test_a_session_that_waits_between_cells_ends_when_it_is_too_old(open_box):
    box = open_box(limits={"session_seconds": 1.5})
    began = time.monotonic()
    assert box.run("1").value == "1"
    assert eventually(lambda: not runs(box.pid), 10)
    assert time.monotonic() - began > 1.3
    ended = box.run("1")
    assert (ended.limit, ended.survived) == ("SessionTimeLimit", False)


def test_a_session_that_does_nothing_between_cells_is_left_alone(open_box):
    box = open_box(limits={"cell_seconds": 1.0})
    box.run("kept = 5\nimport threading\nthreading.Thread(target=threading.Event().wait, daemon=True).start()")
    time.sleep(1.7)
    assert box.run("kept").value == "5"


_CHILDREN = {
    "a-fork": "if os.fork() == 0:\n    while True: pass\n",
    "a-program": "import subprocess, sys\nsubprocess.Popen([sys.executable, '-c', 'while True: pass'])\n",
    "many-that-nobody-waits-for": (
        "import signal\nsignal.signal(signal.SIGCHLD, signal.SIG_IGN)\n"
        "def work():\n    while True:\n"
        "        if os.fork() == 0:\n            sum(range(10**6))\n            os._exit(0)\n"
        "        time.sleep(0.01)\n"
        "import threading\nthreading.Thread(target=work, daemon=True).start()\n"
    ),
}


@pytest.mark.needs_cgroup
@pytest.mark.parametrize("way", _CHILDREN)
def test_processes_behind_a_slow_host_call_count(open_box, variant, way):
    if variant.tier != "namespaces":
        pytest.skip("no process can be started there: see test_bombs.py")
    box = open_box(functions=["pause"], limits={"cell_seconds": 1.0})
    ended = box.run(f"import os, time\n{_CHILDREN[way]}pause(10)", seconds=30)
    assert ended.limit == "CellTimeLimit", ended
