"""Loops that do not want to end: a cell is stopped when its time is up, or the kernel is killed."""

from __future__ import annotations

import pytest

from .hosts import eventually, runs

pytestmark = pytest.mark.any_user

_IGNORE = (
    "import signal\n"
    "for number in range(1, 65):\n"
    "    try:\n        signal.signal(number, signal.SIG_IGN)\n    except (OSError, ValueError):\n        pass\n"
)
# Whether the session outlives it: in Python code a cell can be left where it is. None: it may, or it may not.
_LOOPS = {
    "while-true": (True, "while True: pass"),
    "catches-everything": (True, "while True:\n    try:\n        while True: pass\n    except BaseException: pass"),
    "finally-again": (
        True,
        (
            "def f():\n    while True:\n        try:\n            while True: pass\n        finally:\n"
            "            continue\nf()"
        ),
    ),
    "a-destructor": (True, "class D:\n    def __del__(self):\n        while True: pass\nD()"),
    "a-comparison": (True, "class C:\n    def __eq__(self, o):\n        while True: pass\nC() == 1"),
    "a-generator-that-does-not-close": (
        True,
        (
            "def g():\n    while True:\n        try:\n            yield\n"
            "        except GeneratorExit: pass\nfor _ in g(): pass"
        ),
    ),
    "sleep": (True, "import time\ntime.sleep(1000)"),
    "a-lock-nobody-opens": (True, "import threading\nl = threading.Lock()\nl.acquire()\nl.acquire()"),
    "asyncio": (
        True,
        ("import asyncio\nwhile True:\n    try:\n        await asyncio.sleep(1)\n    except BaseException: pass"),
    ),
    "a-thread-that-never-ends": (
        True,
        "import threading\nt = threading.Thread(target=lambda: [0 for _ in iter(int, 1)])\nt.start()\nt.join()",
    ),
    "an-exception-hook": (
        True,
        ("import sys\nsys.excepthook = sys.unraisablehook = lambda *a: f()\ndef f():\n    while True: pass\nf()"),
    ),
    "one-call-in-c": (False, "sum(range(10**15))"),
    "a-power": (None, "x = 7 ** (10 ** 9)"),
    "a-regular-expression": (None, "import re\nre.match('(a+)+$', 'a' * 60 + 'b')"),
    "an-endless-iterator": (False, "max(iter(int, 1))"),
    "ignores-every-signal": (False, _IGNORE + "while True: pass"),
    "blocks-every-signal": (
        None,
        "import signal\nsignal.pthread_sigmask(signal.SIG_BLOCK, range(1, 65))\nwhile True: pass",
    ),
    "handles-the-signal-itself": (
        False,
        "import signal\nfor n in (10, 12, 15, 2):\n    signal.signal(n, lambda *a: None)\nwhile True: pass",
    ),
    "a-handler-that-loops": (
        False,
        "import signal\ndef h(*a):\n    while True: pass\nsignal.signal(signal.SIGUSR1, h)\nwhile True: pass",
    ),
    "waits-in-the-system": (False, _IGNORE + "import os\nr, w = os.pipe()\nwhile True:\n    os.read(r, 1)"),
    "stops-itself": (None, "import os, signal\nos.kill(os.getpid(), signal.SIGSTOP)\nwhile True: pass"),
    "holds-the-interpreter": (
        None,
        ("import ctypes\nc = ctypes.PyDLL(None)\nc.sleep.argtypes = [ctypes.c_uint]\nwhile True:\n    c.sleep(1000)"),
    ),
    "machine-code": (
        False,
        "import ctypes, mmap\nm = mmap.mmap(-1, 4096, prot=7)\nm.write(b'\\xeb\\xfe')\n"
        "ctypes.CFUNCTYPE(None)(ctypes.addressof(ctypes.c_char.from_buffer(m)))()",
    ),
    "a-trace-function": (
        None,
        "import sys\ndef t(*a):\n    while True: pass\nsys.settrace(t)\nsys.setprofile(t)\nprint(1)",
    ),
    "signals-from-within": (
        None,
        "import signal\ndef h(*a): raise KeyboardInterrupt\nsignal.signal(signal.SIGALRM, h)\n"
        "signal.setitimer(signal.ITIMER_REAL, 0.001, 0.001)\nwhile True:\n    try:\n"
        "        while True: pass\n    except BaseException: pass",
    ),
    "kills-its-own-stop-handler": (
        None,
        "import gc\nk = next(o for o in gc.get_objects() if type(o).__name__ == 'Kernel')\n"
        "type(k)._abandon = type(k)._on_stop = lambda *a: None\nwhile True: pass",
    ),
}


@pytest.mark.parametrize("loop", _LOOPS)
def test_a_loop_that_does_not_end(open_box, host, loop):
    survives, code = _LOOPS[loop]
    box = open_box(limits={"cell_seconds": 0.3}, grace=20.0 if survives else 0.7)
    box.run("kept = 5")
    ended = box.run(code)
    # Its own signal may come where it catches nothing: then it ends by itself, and the session is as good as before.
    own_end = loop == "signals-from-within" and ended.error == "KeyboardInterrupt"
    assert ended.limit == "CellTimeLimit" or ended.death or own_end
    if survives:
        assert ended.survived
    if ended.survived or own_end:
        assert box.run("kept").value == "5"
    else:
        assert survives is not True
        assert eventually(lambda: not runs(box.pid))
    assert host.alive


def test_burning_processor_time_behind_a_host_call(open_box):
    """Waiting for the host is free; computing meanwhile is not."""
    box = open_box(functions=["pause"], limits={"cell_seconds": 1.0})
    ended = box.run(
        "import threading\n"
        "threading.Thread(target=lambda: [0 for _ in iter(int, 1)], daemon=True).start()\n"
        "for _ in range(20):\n    pause(1)",
        seconds=15,
    )
    assert ended.limit == "CellTimeLimit"


def test_a_session_that_is_older_than_it_may_be(open_box):
    box = open_box(limits={"session_seconds": 1.5, "cell_seconds": 60.0})
    box.run("import threading\nthreading.Thread(target=lambda: [0 for _ in iter(int, 1)], daemon=True).start()")
    ended = box.run("while True:\n    try:\n        while True: pass\n    except BaseException: pass", seconds=15)
    assert (ended.limit, ended.survived) == ("SessionTimeLimit", False)
    assert eventually(lambda: not runs(box.pid))


def test_threads_that_go_on_after_their_cell(open_box):
    """They end with the session, whatever they do."""
    box = open_box()
    box.run(
        "import atexit, threading\n"
        "def go_on():\n    while True:\n        try:\n            while True: pass\n"
        "        except BaseException: pass\n"
        "atexit.register(go_on)\n"
        "for _ in range(4):\n    threading.Thread(target=go_on).start()"
    )
    assert runs(box.pid)
    box.close()
    assert eventually(lambda: not runs(box.pid))


def test_closing_while_a_cell_ignores_everything(open_box, host):
    box = open_box()
    box.run(_IGNORE + "import threading\nthreading.Thread(target=lambda: [0 for _ in iter(int, 1)]).start()")
    box.close()
    assert eventually(lambda: not runs(box.pid))
