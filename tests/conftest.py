"""Shared by all tests: one pool of kernels for the whole run, and a session from it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

import sandbox


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
