"""What a stopped cell was in the midst of: other modules' locks, which later cells need."""

from __future__ import annotations

import pytest

import sandbox

_STOPPED_IN = {
    "an import": (
        "import os, sys, threading, time\n"
        "def write(text):\n    with open('slow.py', 'w') as file:\n        file.write(text)\n"
        "write('import time\\nhalf = 1\\ntime.sleep(60)')\nimport slow",
        "write('answer = 42')\nimport importlib\nimportlib.invalidate_caches()\n"
        "def use():\n    import slow\n    return slow.answer",
    ),
    "a pool": (
        "import time\nfrom concurrent.futures import ThreadPoolExecutor\n"
        "class Slow:\n    def put(self, item): time.sleep(60)\n"
        "pool = ThreadPoolExecutor(1)\npool._work_queue = Slow()\npool.submit(int)",
        "def use():\n    with ThreadPoolExecutor(1) as pool:\n        return pool.submit(int, 42).result()",
    ),
    "logging": (
        "import logging, time\n"
        "class Slow(logging.Handler):\n    def emit(self, record): time.sleep(60)\n"
        "slow = Slow()\nlogging.getLogger('a').addHandler(slow)\nlogging.getLogger('a').error('x')",
        "def use():\n    slow.acquire()\n    return 42",
    ),
    "strptime": (
        "import _strptime, time\nfrom datetime import datetime\n"
        "first, _strptime._getlang = _strptime._getlang, lambda: time.sleep(60)\ndatetime.strptime('1', '%d')",
        "_strptime._getlang = first\ndef use():\n    return 41 + datetime.strptime('1', '%d').day",
    ),
}


@pytest.mark.parametrize("where", _STOPPED_IN)
@pytest.mark.parametrize("user", ["the next cell", "a thread of it"])
def test_a_stopped_cell_leaves_no_lock_of_a_module_behind(pool, where, user):
    stopped, then = _STOPPED_IN[where]
    with sandbox.Session(pool=pool, policy="off") as session:
        ended = session.run(stopped, timeout=0.5)
        assert isinstance(ended.limit, sandbox.CellTimeLimit), ended
        assert ended.limit.survived
        code = f"{then}\nfound = []\n"
        if user == "a thread of it":
            code += (
                "import threading\none = threading.Thread(target=lambda: found.append(use()))\none.start()\none.join()"
            )
        else:
            code += "found.append(use())"
        assert session.run(f"{code}\nfound", timeout=20).value == [42]


def test_a_lock_that_another_thread_holds_is_left_to_it(pool):
    """A thread that runs has a lock by which others wait for its end."""
    with sandbox.Session(pool=pool, policy="off") as session:
        begin = "import threading\ngo = threading.Event()\nthread = threading.Thread(target=go.wait)\nthread.start()\n"
        assert session.run(f"{begin}thread.join()", timeout=0.5).limit.survived
        code = "alive = thread.is_alive()\ngo.set()\nthread.join(20)\n[alive, thread.is_alive()]"
        assert session.run(code).value == [True, False]


_WATCHFUL = """
import queue, sys, threading, time
ran = []
class Watchful(queue.Queue):
    @property
    def __dict__(self):
        ran.append("__dict__")
        raise KeyboardInterrupt
    def __getattribute__(self, name):
        if stopped:
            ran.append(name)
        return super().__getattribute__(name)
    def _put(self, item):
        stopped.append(True)
        time.sleep(60)
stopped = []
try:
    Watchful().put(1)
except BaseException:
    ran.append("went on")
"""


def test_no_code_of_the_cell_runs_while_locks_are_looked_for(pool):
    with sandbox.Session(pool=pool, policy="off") as session:
        ended = session.run(_WATCHFUL, timeout=0.5)
        assert ended.limit.survived
        assert session.run("ran").value == []
