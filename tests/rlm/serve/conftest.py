"""For the tests of the server: a folder of its own for what is recorded, and a server where nothing is run."""

from __future__ import annotations

import pytest

from tests.support.task_server import COUNT, serving, write_task


@pytest.fixture(autouse=True)
def own_home(tmp_path, monkeypatch):
    monkeypatch.setenv("RLM_HOME", str(tmp_path / "home"))
    return tmp_path / "home"


@pytest.fixture
def task_server(tmp_path, own_home):
    """A server with the task `count`, for requests that are refused."""
    with serving(write_task(tmp_path, COUNT)) as place:
        yield place
