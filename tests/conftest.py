"""Shared by all tests: one pool of kernels for the whole run, and a session from it."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable, Iterator
from typing import Any

import hypothesis
import pytest

import sandbox

pytest.register_assert_rewrite("tests.support")

# A machine that is busy is slow, which says nothing about the code.
# With `--hypothesis-profile=thorough` it looks longer; `hours` is for a test that is run by hand.
hypothesis.settings.register_profile("rlm", deadline=None, max_examples=40)
hypothesis.settings.register_profile("thorough", deadline=None, max_examples=1_000)
hypothesis.settings.register_profile("hours", deadline=None, max_examples=100_000)
hypothesis.settings.load_profile("rlm")

# Processes that tests start inherit what whoever started the tests had set: `nohup` ignores SIGHUP, jobs in the
# background ignore SIGINT, and readline leaves the size of a terminal that is none to xdist's workers.
for _number, _usual in ((signal.SIGHUP, signal.SIG_DFL), (signal.SIGINT, signal.default_int_handler)):
    if signal.getsignal(_number) is signal.SIG_IGN:
        signal.signal(_number, _usual)
for _name in ("COLUMNS", "LINES"):
    os.environ.pop(_name, None)


_TIMEOUTS = {"browser": 120, "ray": 300, "weights": 400}
"""Seconds for a test that needs what is started once: tests with the same of these markers share one process."""


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        for name, seconds in _TIMEOUTS.items():
            if item.get_closest_marker(name):
                item.add_marker(pytest.mark.xdist_group(name))
                item.add_marker(pytest.mark.timeout(seconds))


@pytest.fixture(scope="session", autouse=True)
def rlm_home(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """What runs record goes to a directory of this test run, also from the processes that tests start."""
    before = os.environ.get("RLM_HOME")
    os.environ["RLM_HOME"] = str(tmp_path_factory.mktemp("rlm-home"))
    yield
    if before is None:
        del os.environ["RLM_HOME"]
    else:
        os.environ["RLM_HOME"] = before


@pytest.fixture(autouse=True)
def runs_are_still_recorded() -> Iterator[None]:
    """Fail the test that makes the shared trace writer give up: later tests would miss their runs."""
    yield
    default_writer = sys.modules.get("rlm.traces.writer")
    for writer in default_writer._writers if default_writer else ():
        if writer.folder.is_relative_to(os.environ["RLM_HOME"]):
            assert writer.problem is None


@pytest.fixture(scope="session")
def pool() -> Iterator[sandbox.Pool]:
    with sandbox.Pool(size=2) as pool:
        yield pool


@pytest.fixture
def open_session(pool: sandbox.Pool) -> Iterator[Callable[..., sandbox.Session]]:
    """Opens sessions that are closed when the test ends."""
    opened: list[sandbox.Session] = []

    def open_one(*args: Any, **options: Any) -> sandbox.Session:
        session = sandbox.Session(*args, **{"pool": pool} | options)
        opened.append(session)
        return session

    yield open_one
    for session in opened:
        session.close()


@pytest.fixture
def session(open_session: Callable[..., sandbox.Session]) -> sandbox.Session:
    return open_session()
