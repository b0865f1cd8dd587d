"""Answers on disk: the same question costs once, another one is asked, and no file stops a run."""

from __future__ import annotations

import asyncio
import logging
import os
import sqlite3
import subprocess
import sys

import pytest

from rlm.budgets import Remaining
from rlm.models import policy
from rlm.models.cache import ResponseCache, request_hash, run_scope
from rlm.models.client import Answer, ModelError, ask
from rlm.models.policy import RequestPolicy
from tests.support.chat_server import Play, completion
from tests.support.model_calls_process import asking

TURNS = [("user", "What is 1?"), ("assistant", "one"), ("user", "And 2?")]


@pytest.fixture(autouse=True)
def _nothing_in_use():
    yield
    policy.use(None)


@pytest.fixture
def path(tmp_path):
    return tmp_path / "answers.sqlite"


@pytest.fixture
def caching(path):
    def use(mode="read-write"):
        policy.use(RequestPolicy(cache_path=str(path), cache_mode=mode))

    return use


async def in_a_run(lm, *asked, **options):
    """The answers to some questions, asked one after the other in one run."""
    with run_scope():
        return [await ask(lm, [("user", text)], **options) for text in asked]


async def test_a_question_is_paid_for_once(chat, lm_for, caching):
    caching()
    chat.plays = [Play(body=completion("two", finish="length"))]
    lm = lm_for(chat.url)
    first = await ask(lm, TURNS, system="Be brief.")
    assert first == Answer("two", True, 12, 2, None)
    again = await ask(lm_for(chat.url), TURNS, system="Be brief.")
    assert again == Answer("two", True, 0, 0, 0.0, cached=True)
    assert len(chat.requests) == 1


CHANGES = {
    "the model": {"model": "openai/other"},
    "the temperature": {"temperature": 0.5},
    "the length": {"max_tokens": 5},
    "where to stop": {"stop": ["END"]},
    "the form": {"response_format": {"type": "json_object"}},
    "what dspy does not know": {"extra_body": {"min_p": 0.1}},
    "the sample": {"rollout_id": 7},
}


@pytest.mark.parametrize("changed", CHANGES.values(), ids=CHANGES.keys())
def test_what_changes_the_answer_is_another_question(lm_for, changed):
    one, other = lm_for("http://127.0.0.1:1/v1"), lm_for("http://127.0.0.1:1/v1", **changed)
    assert request_hash(one, TURNS, None, {}) != request_hash(other, TURNS, None, {})
    assert request_hash(other, TURNS, None, {}) == request_hash(other, list(TURNS), None, {})


def test_words_and_the_system_and_the_server_are_part_of_the_question(lm_for):
    lm = lm_for("http://127.0.0.1:1/v1")
    asked = {
        request_hash(lm, TURNS, None, {}),
        request_hash(lm, TURNS, "Be brief.", {}),
        request_hash(lm, TURNS[:1], None, {}),
        request_hash(lm, [("user", "What is 1?and 2?")], None, {}),
        request_hash(lm, TURNS, None, {"temperature": 1.0}),
        request_hash(lm_for("http://127.0.0.1:2/v1"), TURNS, None, {}),
    }
    assert len(asked) == 6


def test_how_it_is_asked_is_not(lm_for):
    one = lm_for("http://127.0.0.1:1/v1", api_key="sk-one", timeout=5, num_retries=1)
    other = lm_for("http://me:password@127.0.0.1:1/v1", api_key="sk-other", timeout=9, num_retries=9)
    assert request_hash(one, TURNS, None, {}) == request_hash(other, TURNS, None, {"cache": False})


def test_time_and_money_that_are_left_do_not_make_it_another_question(lm_for):
    lm = lm_for("http://127.0.0.1:1/v1")

    def asked(**left):
        remaining = Remaining(
            **{"llm_calls": 5, "seconds": 7.0, "tokens": 9000, "cost_usd": 0.5, "iterations": 3} | left
        )
        return request_hash(lm, [("user", f"Output:\n1\n\n[{remaining}]")], None, {})

    assert asked() == asked(seconds=3.0) == asked(tokens=12) == asked(cost_usd=0.01)
    assert len({asked(), asked(llm_calls=4), asked(iterations=2)}) == 3


async def test_samples_of_one_run_stay_samples_and_come_again_in_their_order(chat, lm_for, caching):
    caching()
    chat.plays = [Play(body=completion(text)) for text in ("red", "green", "blue", "no more")]
    lm = lm_for(chat.url, temperature=1.0)
    first = await in_a_run(lm, "a colour?", "a colour?", "a colour?")
    assert [one.text for one in first] == ["red", "green", "blue"]
    again = await in_a_run(lm, "a colour?", "a colour?", "a colour?", "a colour?")
    assert [one.text for one in again] == ["red", "green", "blue", "no more"]
    assert [one.cached for one in again] == [True, True, True, False]


async def test_a_question_that_failed_is_the_same_the_next_time(chat, lm_for, caching):
    caching()
    chat.plays = [Play(400, b"{}"), Play()]
    with run_scope():
        with pytest.raises(ModelError):
            await ask(lm_for(chat.url), TURNS)
        await ask(lm_for(chat.url), TURNS)
    with run_scope():
        assert (await ask(lm_for(chat.url), TURNS)).cached


async def test_reading_does_not_write(chat, lm_for, caching, path):
    caching("read")
    assert not (await ask(lm_for(chat.url), TURNS)).cached
    assert not path.exists()
    caching("read-write")
    await ask(lm_for(chat.url), TURNS)
    caching("read")
    assert (await ask(lm_for(chat.url), TURNS)).cached
    assert not (await ask(lm_for(chat.url), [("user", "new")])).cached
    assert not (await ask(lm_for(chat.url), [("user", "new")])).cached


async def test_no_key_is_on_disk(chat, lm_for, caching, path):
    caching()
    secret = "sk-very-secret-key"
    chat.plays = [Play(body=completion(f"Your key is {secret}.")), Play()]
    lm = lm_for(chat.url)
    await ask(lm, TURNS)
    assert not (await ask(lm, TURNS)).cached  # an answer that repeats it is not kept
    assert (await ask(lm, TURNS)).cached
    policy.use(None)
    written = b"".join(file.read_bytes() for file in path.parent.iterdir() if file.is_file())
    assert b"ok" in written
    assert secret.encode() not in written
    assert b"And 2?" not in written  # nor what was asked
    assert os.stat(path).st_mode & 0o077 == 0


async def test_what_an_adapter_of_dspys_asks_is_paid_for_once_too(chat, lm_for, caching):
    import dspy

    from rlm.adapters.call_log import watch_calls
    from rlm.adapters.typed_query import ask_typed

    async def asked(*prompts):
        lm, calls = lm_for(chat.url, num_retries=0), []
        with watch_calls(calls.append), run_scope():
            values = [(await ask_typed(lm, one, int, adapter=dspy.ChatAdapter())).value for one in prompts]
        assert [one["outputs"] for one in lm.history] == [[one.text] for one in calls]
        return values, [(one.cached, one.cost_usd, one.tokens_in) for one in calls]

    caching()
    chat.plays = [Play(body=completion(f"[[ ## answer ## ]]\n{n}\n\n[[ ## completed ## ]]")) for n in (5, 6, 7)]
    first, paid = await asked("How many?", "How many?", "And now?")
    assert (first, [one[0] for one in paid]) == ([5, 6, 7], [False] * 3)
    again, used = await asked("And now?", "How many?", "How many?")
    assert (again, used) == ([7, 5, 6], [(True, 0.0, 0)] * 3)
    assert len(chat.requests) == 3


async def test_scripts_are_not_kept(caching, path):
    from rlm.models.scripted import scripted_lm

    caching()
    assert (await in_a_run(scripted_lm(["a", "b"]), "x"))[0].text == "a"
    assert (await in_a_run(scripted_lm(["c"]), "x"))[0].text == "c"
    assert not path.exists()


@pytest.mark.parametrize("harm", ["no database", "a hole in it"])
async def test_a_broken_file_is_set_aside(chat, lm_for, caching, path, caplog, harm):
    caching()
    await ask(lm_for(chat.url), TURNS)
    policy.use(None)
    data = path.read_bytes()
    path.write_bytes(b"not a database" * 1000 if harm == "no database" else data[:4096] + b"\xff" * 8192)
    for left in path.parent.glob("*-wal"):
        left.unlink()
    caching()
    with caplog.at_level(logging.WARNING, "rlm"):
        assert not (await ask(lm_for(chat.url), TURNS)).cached
    assert (await ask(lm_for(chat.url), TURNS)).cached
    assert "renamed to" in caplog.text
    (aside,) = [one for one in path.parent.glob("*.broken-*") if not one.name.endswith(("-wal", "-shm"))]
    assert aside.read_bytes() != path.read_bytes()


async def test_a_file_that_cannot_be_written_stops_nothing(chat, lm_for, tmp_path, caplog):
    (tmp_path / "file").write_text("")
    policy.use(RequestPolicy(cache_path=str(tmp_path / "file" / "answers.sqlite"), cache_mode="read-write"))
    for _ in range(2):
        assert (await ask(lm_for(chat.url), TURNS)).text == "ok"
    assert len(caplog.records) == 1  # said once


async def test_an_answer_that_cannot_be_read_is_asked_for(chat, lm_for, caching, path):
    caching()
    await ask(lm_for(chat.url), TURNS)
    policy.use(None)
    with sqlite3.connect(path) as database:
        database.execute("UPDATE answers SET answer = '{\"text\": 5}'")
    database.close()
    caching()
    assert not (await ask(lm_for(chat.url), TURNS)).cached
    assert (await ask(lm_for(chat.url), TURNS)).cached


@pytest.mark.processes
def test_processes_write_and_read_one_file_at_the_same_time(chat, path, tmp_path):
    use = {"rate_limit_folder": str(tmp_path / "pace"), "cache_path": str(path), "cache_mode": "read-write"}
    _, said = asking(chat.url, 2, 40, use)
    assert {text for one in said for text in one} <= {"ok", "cached"}
    assert 40 <= len(chat.requests) <= 80
    with sqlite3.connect(path) as database:
        assert database.execute("SELECT count(*) FROM answers").fetchone() == (40,)
        assert database.execute("PRAGMA integrity_check").fetchone() == ("ok",)
    database.close()


async def test_a_writer_that_is_killed_leaves_a_file_that_works(path):
    code = """
import sys
from rlm.models.cache import ResponseCache
cache, number = ResponseCache(sys.argv[1], "read-write"), 0
while True:
    cache.put(b"question", number, {"text": "x" * 10000})
    if number == 20:
        print("writing", flush=True)
    number += 1
"""
    writer = subprocess.Popen([sys.executable, "-c", code, str(path)], stdout=subprocess.PIPE)
    with writer:
        assert writer.stdout.readline() == b"writing\n"
        writer.kill()
    cache = ResponseCache(path, "read-write")
    assert all(cache.get(b"question", number) == {"text": "x" * 10000} for number in range(21))
    await asyncio.to_thread(cache.put, b"another", 0, {"text": "y"})
    assert cache.get(b"another", 0) == {"text": "y"}
    cache.close()


def test_a_mode_that_is_not_known_is_refused(path):
    with pytest.raises(ValueError, match="off, read, read-write"):
        ResponseCache(path, "write")
