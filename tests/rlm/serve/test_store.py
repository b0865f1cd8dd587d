"""The server's own records: what is kept of them, and for whom."""

from __future__ import annotations

import time

import pytest

from rlm.errors import RlmError, ServerInUse
from rlm.serve import store as store_module
from rlm.serve.store import ServerStore, SessionRow


@pytest.fixture
def store(tmp_path):
    made = ServerStore(tmp_path)
    yield made
    made.close()


def test_every_row_is_found_by_its_owner_only(store):
    now = time.time()
    store.add_session(SessionRow("s", "ann", "m", "", now, now, 0))
    store.add_run("r", "ann", "m", "s")
    store.add_response("resp", "ann", "s", "r")
    store.add_turn("ann", "hash", "s", "r")
    for owner, found in (("ann", True), ("bob", False)):
        answers = (store.session(owner, "s"), store.run(owner, "r"), store.response(owner, "resp"))
        assert [answer is not None for answer in (*answers, store.turn(owner, "hash"))] == [found] * 4
        assert (len(store.sessions(owner)), len(store.runs(owner)), store.owns_run(owner, "r")) == (found, found, found)


def test_old_rows_are_forgotten_and_those_of_others_are_not(store, monkeypatch):
    monkeypatch.setattr(store_module, "KEPT", 3)
    store.add_response("of-bob", "bob", "s", "r")
    for number in range(6):
        store.add_response(f"resp-{number}", "ann", "s", "r")
        store.add_turn("ann", f"hash-{number}", "s", "r")
        store.add_run(f"run-{number}", "ann", "m", None)
    assert [store.response("ann", f"resp-{number}") is not None for number in range(6)] == [False] * 3 + [True] * 3
    assert [store.turn("ann", f"hash-{number}") is not None for number in range(6)] == [False] * 3 + [True] * 3
    assert store.response("bob", "of-bob") is not None
    assert len(store.runs("ann")) == 6  # those of a day count for its limit


def test_the_seconds_of_a_day_are_those_of_its_runs(store):
    assert store.day_seconds("ann") == 0
    store.add_run("r", "ann", "m", None)
    time.sleep(0.05)
    assert 0 < store.day_seconds("ann") < 60
    store.end_run("r", "submitted", {"status": "submitted"})
    ended = store.day_seconds("ann")
    time.sleep(0.05)
    assert store.day_seconds("ann") == pytest.approx(ended)
    assert store.day_seconds("bob") == 0


def test_a_run_that_was_cut_off_is_interrupted_when_the_file_is_opened_again(tmp_path):
    first = ServerStore(tmp_path)
    first.add_run("r", "ann", "m", None)
    with pytest.raises(ServerInUse):
        ServerStore(tmp_path)
    first.close()
    again = ServerStore(tmp_path)
    row = again.run("ann", "r")
    assert row is not None
    assert row.ending == "interrupted"
    again.close()


def test_a_file_of_a_later_version_is_refused_and_left_alone(tmp_path):
    first = ServerStore(tmp_path)
    first._connection.execute("PRAGMA user_version = 99")
    first.close()
    for _ in range(2):  # the lock is let go of
        with pytest.raises(RlmError, match="later rlm"):
            ServerStore(tmp_path)
