"""Limits: each with its typed error, and a session that says whether it survived."""

from __future__ import annotations

import pytest

import sandbox
from sandbox import Limits

MB = 1 << 20


@pytest.fixture(params=["namespaces", "landlock"])
def limited(request, open_session):
    """Opens a session with these limits in each tier, policy off."""

    def open_one(**limits):
        return open_session(limits=Limits(**limits), policy="off", isolation=request.param)

    open_one.tier = request.param
    return open_one


@pytest.mark.parametrize("bad", [0, -1, True, "5", None])
def test_a_limit_must_be_a_positive_number(bad):
    with pytest.raises(ValueError, match=r"Limits\(memory_bytes="):
        Limits(memory_bytes=bad)


def test_a_cell_that_runs_too_long_is_stopped_and_its_variables_stay(limited):
    session = limited(cell_seconds=1.0)
    result = session.run("found = [1, 2]\nwhile True:\n    try:\n        pass\n    except BaseException:\n        pass")
    assert isinstance(result.limit, sandbox.CellTimeLimit)
    assert result.limit.survived
    assert result.error.name == "CellTimeLimit"
    assert "while True" in result.error.traceback or "pass" in result.error.traceback
    assert session.run("found").value_repr == "[1, 2]"


def test_a_sleeping_cell_is_stopped(limited):
    result = limited(cell_seconds=1.0).run("import time\ntime.sleep(60)")
    assert isinstance(result.limit, sandbox.CellTimeLimit)
    assert result.limit.survived


def test_a_loop_in_c_that_ignores_signals_is_killed_and_the_next_session_is_not_affected(limited, monkeypatch):
    monkeypatch.setattr("sandbox.exchange.GRACE_SECONDS", 0.5)
    session = limited(cell_seconds=0.5)
    result = session.run("import collections, itertools\ncollections.deque(itertools.repeat(1), maxlen=0)")
    assert isinstance(result.limit, sandbox.CellTimeLimit)
    assert not result.limit.survived
    assert not session.alive
    assert limited(cell_seconds=1.0).run("1").value_repr == "1"


def test_a_timeout_of_one_cell_counts_waiting_too(open_session):
    import threading

    release = threading.Event()
    session = open_session(functions={"slow": lambda: release.wait(20)})
    result = session.run("x = 1\nslow()", timeout=1.0)
    release.set()
    assert isinstance(result.limit, sandbox.CellTimeLimit)
    assert session.run("x").value_repr == "1"


def test_a_session_that_is_too_old_is_ended(limited):
    session = limited(session_seconds=2.0)
    assert session.run("1").ok
    result = session.run("import time\nprint('kept', flush=True)\ntime.sleep(60)")
    assert isinstance(result.limit, sandbox.SessionTimeLimit)
    assert not result.limit.survived
    assert result.stdout == "kept\n"
    assert not session.alive


@pytest.mark.parametrize(
    "code",
    [
        "x = bytearray(600 * 2**20)",
        "x = []\nwhile True:\n    x.append('a' * 2**20)",
        "import numpy\nx = numpy.ones(10**9)",
    ],
    ids=["at once", "bit by bit", "numpy"],
)
def test_too_much_memory_is_a_memory_error_and_the_session_survives(limited, code):
    session = limited(memory_bytes=256 * MB)
    session.run("kept = 1")
    result = session.run(code)
    assert result.error.name in ("MemoryError", "_ArrayMemoryError")
    assert isinstance(result.limit, sandbox.MemoryLimit)
    assert result.limit.survived
    session.run("x = None")
    assert session.run("kept").value_repr == "1"


def test_memory_up_to_the_limit_can_be_used(limited):
    assert limited(memory_bytes=256 * MB).run("len(bytearray(200 * 2**20))").ok


def test_a_large_input_does_not_count_as_memory_of_the_cell(pool):
    text = "x" * (150 * MB)
    with sandbox.Session(inputs={"text": text}, limits=Limits(memory_bytes=100 * MB), pool=pool) as session:
        assert session.run("len(text), len(bytearray(60 * 2**20))").ok
        assert isinstance(session.run("y = bytearray(150 * 2**20)").limit, sandbox.MemoryLimit)


def test_output_past_the_limit_is_dropped_and_counted(limited):
    session = limited(output_bytes=10_000)
    result = session.run("for i in range(10_000):\n    print('x' * 99)\n'end'")
    assert len(result.text) == 10_000
    assert result.dropped_bytes == 990_000
    assert isinstance(result.limit, sandbox.OutputLimit)
    assert result.limit.survived
    assert (result.ok, result.value_repr) == (True, "'end'")
    again = session.run("print('heard again')")
    assert (again.stdout, again.limit) == ("heard again\n", None)


def test_files_past_the_size_limit_are_refused_or_end_the_session(limited):
    session = limited(file_bytes=4 * MB)
    result = session.run(
        "for i in range(100):\n    with open(f'file{i}', 'wb') as f:\n        f.write(b'x' * 2**20)\n"
        "import time; time.sleep(30)"  # where nothing is refused, the session is ended
    )
    assert isinstance(result.limit, sandbox.FileLimit)
    assert result.limit.survived == (limited.tier == "namespaces")
    assert session.alive == result.limit.survived


def test_one_file_past_the_size_limit_is_refused(limited):
    result = limited(file_bytes=4 * MB).run("with open('f', 'wb') as f:\n    f.write(b'x' * (8 * 2**20))")
    assert isinstance(result.limit, sandbox.FileLimit)


def test_too_many_files_are_refused_or_end_the_session(limited):
    session = limited(file_count=50)
    result = session.run("for i in range(5000):\n    open(f'file{i}', 'w').close()\nimport time; time.sleep(30)")
    assert isinstance(result.limit, sandbox.FileLimit)
    assert result.limit.survived == (limited.tier == "namespaces")


def test_too_many_threads_are_refused_and_the_session_survives(open_session):
    session = open_session(limits=Limits(processes=16), policy="off", isolation="namespaces")
    result = session.run(
        "import threading\nstop = threading.Event()\n"
        "for i in range(1000):\n    threading.Thread(target=stop.wait, daemon=True).start()"
    )
    assert isinstance(result.limit, sandbox.ProcessLimit)
    assert result.limit.survived
    assert session.run("stop.set()\n1").value_repr == "1"


def test_processes_are_started_within_the_limit_and_refused_past_it(open_session):
    session = open_session(limits=Limits(processes=16), policy="off", isolation="namespaces")
    assert (
        session.run("import subprocess\nsubprocess.run(['/bin/echo', 'hi'], capture_output=True).stdout").value_repr
        == "b'hi\\n'"
    )
    result = session.run(
        "import os, time\nfor i in range(100):\n    if os.fork() == 0:\n        time.sleep(30)\n        os._exit(0)"
    )
    assert isinstance(result.limit, sandbox.ProcessLimit)
    assert session.alive


def test_without_a_private_pid_namespace_no_process_can_be_started(open_session):
    session = open_session(policy="off", isolation="landlock")
    assert session.run("import os\nos.fork()").error.name == "PermissionError"
