"""Sessions whose process is killed go on with the same answers as those that are not."""

from __future__ import annotations

import pytest

from tests.support.killed_sessions import ANSWERS, go_on, kill_one


@pytest.mark.kills
@pytest.mark.processes
@pytest.mark.parametrize("seconds", [0.0, 0.3, 0.7, 1.2])
def test_a_session_that_is_killed_at_any_moment_goes_on_with_the_same_answers(tmp_path, monkeypatch, seconds):
    """`python -m tests.support.killed_sessions 50` does it at fifty random moments."""
    monkeypatch.setenv("RLM_HOME", str(tmp_path / "home"))
    session_id, code = kill_one(tmp_path, seconds)
    assert code == -9
    assert go_on(tmp_path, session_id) == ANSWERS
