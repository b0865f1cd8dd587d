"""Sessions that are opened again: the kernel is rebuilt by replay, and what came out different is named."""

from __future__ import annotations

import os
import signal
import stat

import pytest

from rlm.chat.journal import Journal, find_journal
from rlm.chat.skippable import names_bound, only_reads
from rlm.errors import SessionError, SessionInUse, UnknownSession


def test_a_reopened_session_asks_no_model_again(asked):
    one = asked(
        ["found = [llm_query(f'{n}?') for n in range(3)]\nSUBMIT(answer=len(log))", "SUBMIT(answer=len(found))"],
        sub=["a", "b", "c"],
    )
    with one.predict.session(log="x") as chat:
        chat.ask(question="1")
    with one.predict.reopen(chat.id[:8]) as again:
        assert again.ask(question="2").outputs.answer == 3
        assert again.rebuilt.different == ()
        assert [record.outputs for record in again.questions] == [{"answer": 1}, {"answer": 3}]
    assert len(one.sub._engine_spec.requests) == 3


def test_tools_are_not_called_again(asked):
    calls = []

    def look_up(name: str) -> str:
        calls.append(name)
        return name.upper()

    one = asked(["a = look_up('x')\nSUBMIT(answer=len(log))", "SUBMIT(answer=len(a + look_up('y')))"], tools=[look_up])
    with one.predict.session(log="x") as chat:
        chat.ask(question="1")
    with one.predict.reopen(chat.id) as again:
        assert again.ask(question="2").outputs.answer == 2
    assert calls == ["x", "y"]


def test_variables_that_came_out_different_are_named_to_user_and_model(asked):
    cells = [
        "import random, time\nr = random.random()\nsame = 5\nt = time.time()\nSUBMIT(answer=len(log))",
        "print(r)",
        "SUBMIT(answer=same)",
    ]
    one = asked(cells)
    with one.predict.session(log="x") as chat:
        chat.ask(question="1")
    with one.predict.reopen(chat.id) as again:
        again.ask(question="2")
        assert again.rebuilt.different == ("r", "t")
    assert "These variables came out different (time or randomness, for example): r, t." in one.prompts()[2]


def test_what_follows_an_accepted_submit_does_not_run_in_a_replay(asked):
    one = asked(["n = [1]\nSUBMIT(answer=len(log))\nn.append(2)", "SUBMIT(answer=len(n))"])
    with one.predict.session(log="x") as chat:
        chat.ask(question="1")
    with one.predict.reopen(chat.id) as again:
        assert again.ask(question="2").outputs.answer == 1


def test_a_kernel_that_is_killed_between_questions_is_rebuilt(asked):
    one = asked(["n = [llm_query('a')]\nSUBMIT(answer=len(log))", "SUBMIT(answer=len(n))"])
    with one.predict.session(log="x") as chat:
        chat.ask(question="1")
        os.kill(chat._kernel._session.pid, signal.SIGKILL)
        assert chat.ask(question="2").outputs.answer == 1
        assert chat.rebuilt.cells == 1
    assert len(one.sub._engine_spec.requests) == 1


def test_a_kernel_that_dies_in_a_question_is_rebuilt_with_earlier_questions(asked):
    one = asked(
        ["n = [1, 2]\nSUBMIT(answer=len(log))", "m = 3", "import os\nos.abort()", "SUBMIT(answer=len(n) + m)"],
        policy="off",
    )
    with one.predict.session(log="x") as chat:
        chat.ask(question="1")
        assert chat.ask(question="2").outputs.answer == 5


def test_an_interrupted_question_is_resumed_without_asking_again(asked):
    cells = [
        "a = llm_query('a')\nprint(a)",
        "import time\nb = llm_query('b')\ntime.sleep(60 * (llm_query('slow?') == 'yes'))",
        "SUBMIT(answer=len(a + b))",
    ]
    one = asked(cells, sub=["A", "BB", "yes", "no"])
    with one.predict.session(log="x") as chat:
        run = chat.start(question="1")
        for event in run:
            if event.kind == "call_ended" and event.id == 3:
                run.cancel()
        assert run.result().status == "failed"
        # The third call was answered: it has the same answer, and the cell sleeps again. It is taken out of the record.
        chat._journal._connection.execute("DELETE FROM steps WHERE data LIKE '%slow?%' AND kind = 'call'")
    with one.predict.reopen(chat.id) as again:
        assert again.unfinished.number == 1
        result = again.resume()
        assert result.outputs.answer == 3
        assert again.unfinished is None
        assert [record.ending for record in again.questions] == ["submitted"]
    assert len(one.sub._engine_spec.requests) == 4
    assert len(one.prompts()) == 3


def test_one_process_writes(asked):
    one = asked(["SUBMIT(answer=len(log))"])
    with one.predict.session(log="x") as chat, pytest.raises(SessionInUse, match=f"session {chat.id} is open already"):
        one.predict.reopen(chat.id)


def test_a_session_is_opened_with_its_own_signature(asked):
    one, other = asked([]), asked([], "text -> title: str")
    with one.predict.session(log="x") as chat:
        pass
    with pytest.raises(SessionError, match=r"was opened for 'log: str, question: str -> answer: int', not for"):
        other.predict.reopen(chat.id)
    with pytest.raises(UnknownSession, match="begins with 'zz'"):
        one.predict.reopen("zz")


def test_the_journal_is_for_its_owner_and_has_no_secrets(asked, monkeypatch, tmp_path):
    monkeypatch.setenv("MY_API_KEY", "sesame-open-0123456789")
    one = asked(["k = 'sesame-open-0123456789'\nSUBMIT(answer=len(log))"])
    with one.predict.session(log="with sesame-open-0123456789 in it") as chat:
        chat.ask(question="1")
        path = find_journal(chat.id)
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
        assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700
        files = [file.read_bytes() for file in path.parent.iterdir()]
    journal = Journal.open(path, read_only=True)
    steps = [str(step.data) for number in (0, 1) for step in journal.steps(number)]
    journal.close()
    assert not any(b"sesame-open" in content for content in files)
    assert not any("sesame-open" in text for text in steps)
    assert any("[secret]" in text for text in steps)


def test_a_file_that_is_no_journal_is_refused(tmp_path):
    (tmp_path / "a.sqlite").write_bytes(b"not a database, but long enough to be looked at" * 50)
    with pytest.raises(SessionError, match="not the journal of a session"):
        Journal.open(tmp_path / "a.sqlite")
    (tmp_path / "b.sqlite").write_bytes(b"")
    with pytest.raises(SessionError, match="was not finished when it was created"):
        Journal.open(tmp_path / "b.sqlite")


@pytest.mark.parametrize(
    ("code", "skipped"),
    [
        ("print(len(doc), doc[:100])", True),
        ("x = = 1", True),
        ("doc.count('a') + 1", True),
        ("print(f'{doc.upper()!r:>10}')", True),
        ("SUBMIT(answer=n)", True),
        ("x = len(doc)", False),
        ("print(obj)", False),  # its __repr__ may do anything
        ("items.append(1)", False),
        ("print(next(rows))", False),
        ("import re", False),
        ("print(sorted(doc, key=obj))", False),
        ("(y := 5)", False),
        ("[obj for obj in doc]", False),
        ("print(doc.__class__)", False),
        ("del n", False),
        ("doc[0] = 1", False),
    ],
)
def test_only_cells_that_provably_leave_nothing_are_left_out(code, skipped):
    assert only_reads(code, {"doc", "n"}, names_bound(["n = 1"])) is skipped


def test_a_builtin_that_the_session_has_rebound_proves_nothing():
    assert not only_reads("print(len(doc))", {"doc"}, names_bound(["def len(x):\n    return 1"]))
    assert not only_reads("print(len(doc))", {"doc"}, names_bound(["from x import *"]))
    assert not only_reads("print(len(doc))", {"doc"}, names_bound(["globals()['print'] = 5"]))


def test_cells_that_only_looked_do_not_run_again(asked):
    one = asked(
        ["print(log[:10], len(log))", "n = len(log)\nprint(n)", "print(n)\nSUBMIT(answer=n)", "SUBMIT(answer=n + 1)"]
    )
    with one.predict.session(log="abc") as chat:
        chat.ask(question="1")
    with one.predict.reopen(chat.id) as again:
        assert again.ask(question="2").outputs.answer == 4
        assert (again.rebuilt.cells, again.rebuilt.skipped) == (1, 2)
