"""The launcher that forks from nothing (macOS): everything but the profile itself can be tried here."""

from __future__ import annotations

import os
import time

import pytest

import sandbox
from sandbox.direct import DirectLauncher
from sandbox.isolation import seatbelt
from sandbox.launch import Setup


@pytest.fixture
def direct_pool(monkeypatch):
    with sandbox.Pool(size=0) as pool:
        monkeypatch.setattr(pool, "launcher", lambda setup: DirectLauncher())
        yield pool


def test_a_session_runs_on_a_kernel_that_was_started_directly(direct_pool):
    with sandbox.Session(
        inputs={"doc": "x" * 300_000}, functions={"double": lambda x: 2 * x}, pool=direct_pool, isolation="none"
    ) as session:
        result = session.run("print(len(doc))\ndouble(21)")
        assert (result.error, result.stdout, result.value_repr) == (None, "300000\n", "42")
        assert session.run("open('f', 'w').write('x')").value_repr == "1"
        assert isinstance(session.run("while True: pass", timeout=0.3).limit, sandbox.CellTimeLimit)


def test_the_environment_of_the_host_is_not_passed_on(direct_pool, monkeypatch):
    monkeypatch.setenv("SECRET_KEY", "hunter2")
    with sandbox.Session(pool=direct_pool, isolation="none", policy="off") as session:
        assert "hunter2" not in session.run("import os, subprocess\nprint(dict(os.environ))").text


def test_nothing_is_left_when_it_is_closed(direct_pool):
    session = sandbox.Session(pool=direct_pool, isolation="none", policy="off")
    child = int(session.run("import subprocess\nsubprocess.Popen(['sleep', '60']).pid").value_repr)
    scratch, pid = session._link.kernel.scratch, session.pid
    session.close()
    for _ in range(200):
        if not any(map(os.path.exists, (scratch, f"/proc/{pid}", f"/proc/{child}"))):
            return
        time.sleep(0.02)
    assert not [path for path in (scratch, f"/proc/{pid}", f"/proc/{child}") if os.path.exists(path)]


def test_a_program_that_cannot_be_started_says_so(monkeypatch):
    monkeypatch.setattr(seatbelt, "SANDBOX_EXEC", "/nonexistent/sandbox-exec")
    setup = Setup("seatbelt", frozenset({"rlimits"}), sandbox.Limits())
    with pytest.raises(sandbox.KernelStartError, match="sandbox-exec"):
        DirectLauncher().spawn(setup, {}, {}, None)


def test_a_pool_starts_seatbelt_kernels_directly():
    with sandbox.Pool(size=0) as pool:
        assert isinstance(pool.launcher(Setup("seatbelt", frozenset(), sandbox.Limits())), DirectLauncher)
