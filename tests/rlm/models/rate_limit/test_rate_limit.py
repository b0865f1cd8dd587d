"""Rate limits: no more requests than a model's limits allow; a refusal slows all callers down, and fails none."""

from __future__ import annotations

import asyncio
import fcntl
import json
import os
import signal
import subprocess
import sys
import time

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from rlm.models import policy
from rlm.models.client import ModelError, ask
from rlm.models.direct.connection import connections
from rlm.models.policy import RequestPolicy
from rlm.models.profile import ModelProfile
from rlm.models.rate_limit import bucket as buckets
from rlm.models.rate_limit import store
from rlm.models.rate_limit.bucket import Bucket, Limit, Slot
from rlm.models.rate_limit.limiter import RateLimiter, SlotAfterDeadline
from rlm.models.rate_limit.store import FallbackStore, FileStore
from rlm.models.requests import on_wait
from tests.support.chat_server import TOO_MANY, ChatServer, LimitedChat, Play, completion, error
from tests.support.model_calls_process import asking


@pytest.fixture(autouse=True)
def _nothing_in_use():
    yield
    policy.use(None)


def reserve(
    bucket: Bucket, now: float, limit: Limit, tokens: float = 10, most: float | None = 1
) -> tuple[Bucket, Slot]:
    return buckets.reserve(bucket, now, limit, tokens, most)


# One bucket ---------------------------------------------------------------------------------------------------------


@settings(suppress_health_check=[HealthCheck.too_slow])
@given(st.integers(1, 3000), st.lists(st.floats(0, 2), min_size=1, max_size=150))
def test_no_minute_has_more_requests_than_the_limit(limit, pauses):
    bucket, now, due = Bucket(), 1e6, []
    for pause in pauses:
        now += pause * 60 / limit
        bucket, slot = reserve(bucket, now, Limit(requests=limit))
        due.append(now + slot.due_in)
    assert due == sorted(due)
    for first, when in enumerate(due):
        assert sum(1 for other in due[first:] if other < when + 60 - 1e-3) <= limit


def test_a_minute_does_not_come_at_its_beginning():
    bucket, due = Bucket(), []
    for _ in range(100):
        bucket, slot = reserve(bucket, 1e6, Limit(requests=100))
        due.append(slot.due_in)
    assert sum(1 for one in due if one <= 0) == 3  # one, and the fiftieth part of a minute's
    assert 58 < due[-1] <= 60


@settings(suppress_health_check=[HealthCheck.too_slow])
@given(st.lists(st.integers(1, 400), min_size=1, max_size=100))
def test_no_minute_has_more_tokens_than_the_limit_and_the_one_request_that_is_larger(sizes):
    bucket, due = Bucket(), []
    for size in sizes:
        bucket, slot = buckets.reserve(bucket, 1e6, Limit(tokens=1000), size - 1, 1)
        due.append((slot.due_in, size))
    for first, (when, _) in enumerate(due):
        within = [size for other, size in due[first:] if other < when + 60 - 1e-3]
        assert sum(within) <= 1000 + max(within)


def test_tokens_that_were_not_used_let_those_who_wait_come_earlier():
    limit, bucket = Limit(tokens=6000), Bucket()
    bucket, first = buckets.reserve(bucket, 1e6, limit, 900, 100)
    bucket, second = buckets.reserve(bucket, 1e6, limit, 900, 100)
    _, before = buckets.remaining(bucket, 1e6, second)
    bucket, _ = buckets.settle(bucket, 1e6, limit, first, 400, 10)
    _, after = buckets.remaining(bucket, 1e6, second)
    assert before - after == pytest.approx(590 / (6000 - 120) * 60)
    bucket, _ = buckets.settle(bucket, 1e6, limit, first, 2000, 10)  # more than was thought: later
    assert buckets.remaining(bucket, 1e6, second)[1] > before


def test_a_place_that_is_left_is_the_next_ones():
    limit, bucket = Limit(requests=10), Bucket()
    for _ in range(2):
        bucket, slot = reserve(bucket, 1e6, limit)
    left, _ = buckets.cancel(bucket, 1e6, slot)
    assert reserve(left, 1e6, limit)[1].due_in == slot.due_in
    assert reserve(bucket, 1e6, limit)[1].due_in > slot.due_in


@pytest.mark.parametrize("limit", [Limit(requests=60), Limit(tokens=640), Limit()], ids=["requests", "tokens", "none"])
def test_places_that_are_left_make_nobody_wait_longer(limit):
    bucket, now = Bucket(), 1e6
    for _ in range(6):
        bucket, slot = reserve(bucket, now, limit)
        bucket, pause = buckets.slow_down(bucket, now, limit, slot, None)
        now += pause
    bucket, _ = reserve(bucket, now, limit)
    _, before = reserve(bucket, now, limit)
    for _ in range(20):
        bucket, slot = reserve(bucket, now, limit)
        bucket, _ = buckets.cancel(bucket, now, slot)
    assert reserve(bucket, now, limit)[1].due_in == pytest.approx(before.due_in)


def test_too_many_stops_everybody_and_halves_the_speed_which_comes_back_slowly():
    limit, bucket = Limit(requests=60), Bucket()
    bucket, one = reserve(bucket, 1e6, limit)
    bucket, waiting = reserve(bucket, 1e6, limit)
    bucket, pause = buckets.slow_down(bucket, 1e6, limit, one, 7.0)
    assert pause == 7.0
    assert buckets.remaining(bucket, 1e6, waiting)[1] is None  # it takes another slot
    dues = []
    for _ in range(5):
        bucket, slot = reserve(bucket, 1e6, limit)
        dues.append(slot.due_in)
    assert dues[0] == 7.0
    assert (dues[3] - dues[2]) * 59 / 60 == pytest.approx(2.0, rel=0.15)
    assert buckets.share_at(bucket, 1e6 + 7 + buckets.DOUBLING_S) == pytest.approx(1.0)


@pytest.mark.parametrize("limit", [Limit(requests=60), Limit(tokens=640), Limit()], ids=["requests", "tokens", "none"])
def test_who_stands_far_behind_in_the_line_waits_at_the_speed_there_will_be_then(limit):
    bucket, due = Bucket(), []
    bucket, slot = reserve(bucket, 1e6, limit)
    bucket, _ = buckets.slow_down(bucket, 1e6, limit, slot, 0.0)
    for _ in range(60):
        bucket, slot = reserve(bucket, 1e6, limit)
        due.append(slot.due_in)
    assert due[-1] - due[-2] <= 0.7 * (due[3] - due[2])


@pytest.mark.parametrize("limit", [Limit(requests=60), Limit(tokens=640), Limit()], ids=["requests", "tokens", "none"])
def test_nobody_waits_for_minutes_at_the_lowest_speed_once_a_server_is_busy_no_more(limit):
    bucket, now = Bucket(), 1e6
    for _ in range(20):
        bucket, slot = reserve(bucket, now, limit)
        bucket, pause = buckets.slow_down(bucket, now, limit, slot, None)
        now += pause
    for _ in range(3):
        bucket, slot = reserve(bucket, now, limit)
    assert slot.due_in < 120


def test_one_refusal_of_a_server_that_was_hardly_asked_is_forgotten_soon():
    limit, bucket, now = Limit(), Bucket(), 1e6
    bucket, slot = reserve(bucket, now, limit)
    bucket, pause = buckets.slow_down(bucket, now, limit, slot, None)
    now += pause
    for _ in range(24):
        bucket, slot = reserve(bucket, now, limit)
        now += slot.due_in
    assert now - 1e6 < 24


def test_a_volley_of_refusals_is_one_warning_and_the_next_one_another():
    limit, bucket, slots = Limit(requests=6000), Bucket(), []
    for _ in range(5):
        bucket, slot = reserve(bucket, 1e6, limit)
        slots.append(slot)
    for slot in slots:
        bucket, _ = buckets.slow_down(bucket, 1e6, limit, slot, None)
    assert bucket.share == 0.5
    now, pauses = 1e6, []
    for _ in range(12):
        now = bucket.paused_until
        bucket, slot = reserve(bucket, now, limit)
        bucket, pause = buckets.slow_down(bucket, now, limit, slot, None)
        pauses.append(pause)
    assert bucket.share == buckets.LEAST_SHARE
    # Without a word of the server, the pause grows, and no longer than it can be waited for.
    assert pauses[:3] == pytest.approx([1.0, 2.0, 4.0])
    assert pauses[-2:] == pytest.approx([32.0, 32.0])
    now = bucket.paused_until + 60
    bucket, slot = reserve(bucket, now, limit)
    assert buckets.slow_down(bucket, now, limit, slot, None)[1] == pytest.approx(0.5)  # it went well in between


def test_a_later_time_in_the_same_volley_counts():
    limit, bucket = Limit(), Bucket()
    bucket, first = reserve(bucket, 1e6, limit)
    bucket, second = reserve(bucket, 1e6, limit)
    bucket, _ = buckets.slow_down(bucket, 1e6, limit, first, 1.0)
    bucket, pause = buckets.slow_down(bucket, 1e6, limit, second, 30.0)
    assert pause == 30.0
    assert reserve(bucket, 1e6, limit)[1].due_in == 30.0


def test_without_a_limit_the_speed_is_found_out_and_forgotten_when_all_goes_well():
    limit, bucket = Limit(), Bucket()
    for number in range(200):
        bucket, slot = reserve(bucket, 1e6 + number / 10, limit)
        assert slot.due_in == 0
    now = 1e6 + 20
    bucket, _ = buckets.slow_down(bucket, now, limit, slot, 0.0)
    bucket, _ = reserve(bucket, now, limit)
    bucket, slot = reserve(bucket, now, limit)
    assert 1 / 10 < slot.due_in < 1 / 3  # about half of ten a second
    long_after = now + 4 * buckets.DOUBLING_S
    for _ in range(3):
        bucket, slot = reserve(bucket, long_after, limit)
    assert slot.due_in == 0
    assert bucket.measured_rate == 0


# Files -------------------------------------------------------------------------------------------------------------


async def test_a_process_that_is_killed_with_the_lock_does_not_keep_it(tmp_path):
    store_, limit = FileStore(tmp_path), Limit(requests=30)
    await store_.apply("m", "reserve", limit, 1, 1)
    (file,) = tmp_path.iterdir()
    code = "import fcntl, sys; f = open(sys.argv[1]); fcntl.flock(f, 2); print('locked', flush=True); input()"
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
    holder = subprocess.Popen([sys.executable, "-c", code, str(file)], **pipes)
    with holder:
        assert holder.stdout.readline() == "locked\n"
        taking = asyncio.create_task(store_.apply("m", "reserve", limit, 1, 1))
        await asyncio.sleep(0.05)  # the loop goes on meanwhile
        assert not taking.done()
        os.kill(holder.pid, signal.SIGKILL)
        slot = await asyncio.wait_for(taking, 10)
    assert slot.due_in > 0


@pytest.mark.parametrize("content", [b"", b"{", b"\0" * 9, b'{"nothing": 1}', b"[]", b'{"updated_at": 9e99}'], ids=repr)
async def test_a_file_that_cannot_be_read_is_begun_anew(tmp_path, content):
    store_, limit = FileStore(tmp_path), Limit(requests=30)
    await store_.apply("m", "reserve", limit, 1, 1)
    (file,) = tmp_path.iterdir()
    file.write_bytes(content)
    assert (await store_.apply("m", "reserve", limit, 1, 1)).due_in == 0
    assert (await store_.apply("m", "reserve", limit, 1, 1)).due_in > 0


async def test_where_no_file_can_be_written_a_process_keeps_its_own_pace(tmp_path, caplog):
    (tmp_path / "file").write_text("")
    limiter = RateLimiter(FallbackStore(FileStore(tmp_path / "file" / "pace")), "m", Limit(requests=60))
    await limiter.acquire(1, 1, None)
    await limiter.acquire(1, 1, None)  # the second comes at once, too
    with pytest.raises(SlotAfterDeadline):
        await limiter.acquire(1, 1, time.monotonic() + 0.1)
    assert len(caplog.records) == 1


async def test_a_lock_that_is_never_given_back_is_not_waited_for_forever(tmp_path, monkeypatch, caplog):
    monkeypatch.setattr(store, "_LOCK_S", 0.05)
    shared = FallbackStore(FileStore(tmp_path))
    await shared.apply("m", "reserve", Limit(), 1, 1)
    (file,) = tmp_path.iterdir()
    with open(file) as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        assert (await shared.apply("m", "reserve", Limit(), 1, 1)).due_in == 0
    assert "is locked by another process" in caplog.text


async def test_who_stops_waiting_leaves_his_place_and_who_waits_is_told(tmp_path):
    limiter, waits = RateLimiter(FallbackStore(FileStore(tmp_path)), "m", Limit(requests=20)), []
    for _ in range(2):
        with on_wait(waits.append):
            waiting = asyncio.create_task(limiter.acquire(1, 1, None))
        await asyncio.sleep(0.05)
    assert not waiting.done()
    assert [one.seconds for one in waits] == [2.0]  # of three seconds, checked every two
    assert waits[0].expected == pytest.approx(3, abs=0.2)
    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting
    slot = await FileStore(tmp_path).apply("m", "reserve", Limit(requests=20), 1, 1)
    assert 2 < slot.due_in < 3


# Servers -----------------------------------------------------------------------------------------------------------


@pytest.mark.processes
def test_processes_together_ask_no_faster_than_the_limit_and_all_are_answered(tmp_path):
    limit, burst, a_second = 1200, 25, (1200 - 24) / 60
    with LimitedChat(limit, 60.0) as server:
        traffic = {"rate_limit_folder": str(tmp_path), "limits": {"openai/local": {"requests": limit}}}
        seconds, said = asking(server.url, 3, 28, traffic)
    assert [set(one) for one in said] == [{"ok"}] * 3
    assert len(server.times) == 84
    # The lower bound cannot fail on a slow machine; the last request was due then.
    assert seconds >= (84 - burst) / a_second
    assert server.refused == 0


@pytest.mark.processes
def test_nobody_fails_where_the_server_says_too_many(tmp_path):
    with LimitedChat(5, 0.5) as server:
        _, said = asking(server.url, 2, 6, {"rate_limit_folder": str(tmp_path)})
    assert said == [["ok"] * 6] * 2  # with num_retries=0
    assert server.refused > 0
    # Those who waited were many; the server was not asked again and again by each of them.
    assert server.refused <= 12


async def test_the_time_in_the_line_is_told_as_waited(chat, lm_for, tmp_path):
    policy.use(RequestPolicy(rate_limit_folder=str(tmp_path)))
    chat.plays = [Play(429, TOO_MANY, {"Retry-After": "1"}), Play()]
    answer = await ask(lm_for(chat.url, num_retries=0), [("user", "x")])
    assert answer.text == "ok"
    assert answer.waited >= 0.9


async def test_a_deadline_ends_the_waiting(chat, lm_for, tmp_path):
    policy.use(RequestPolicy(rate_limit_folder=str(tmp_path)))
    chat.plays = [Play(429, TOO_MANY, {"Retry-After": "30"})]
    began = time.monotonic()
    with pytest.raises(ModelError, match="slow down") as caught:
        await ask(lm_for(chat.url), [("user", "x")], deadline=began + 2)
    assert caught.value.kind == "rate"
    assert "timed out after 2 s; too many requests" in str(caught.value)
    with pytest.raises(ModelError, match="timed out after 2 s waiting for the rate limit of openai/local") as caught:
        await ask(lm_for(chat.url), [("user", "x")], deadline=time.monotonic() + 2)
    assert caught.value.kind == "rate"
    assert len(chat.requests) == 1  # the second call was never sent
    assert time.monotonic() - began < 20


async def test_a_server_that_asks_for_hours_is_not_waited_for(chat, lm_for, tmp_path):
    policy.use(RequestPolicy(rate_limit_folder=str(tmp_path)))
    chat.plays = [Play(429, TOO_MANY, {"Retry-After": "7200"})]
    with pytest.raises(ModelError, match="asks to wait 7,200 seconds") as caught:
        await ask(lm_for(chat.url), [("user", "x")])
    assert caught.value.kind == "rate"


async def test_another_fault_is_tried_as_often_as_ever(chat, lm_for, tmp_path):
    policy.use(RequestPolicy(rate_limit_folder=str(tmp_path)))
    chat.plays = [Play(429, TOO_MANY, {"Retry-After": "0"}), Play(500, error("broken"))]
    with pytest.raises(ModelError) as caught:
        await ask(lm_for(chat.url, num_retries=0), [("user", "x")])
    assert caught.value.kind == "server"
    assert len(chat.requests) == 2


async def test_models_of_one_name_at_two_servers_have_two_lines(lm_for, tmp_path):
    policy.use(RequestPolicy(rate_limit_folder=str(tmp_path), limits={"openai/local": Limit(requests=1)}))
    with ChatServer() as one, ChatServer() as other:
        for server in (one, other):
            assert not (await ask(lm_for(server.url), [("user", "x")])).waited > 5
    connections.close()
    assert len(list(tmp_path.iterdir())) == 2


async def test_nothing_is_paced_where_nothing_was_said(chat, lm_for):
    assert policy.rate_limiter_for(lm_for(chat.url)) is None
    lm = lm_for(chat.url)
    lm.profile = ModelProfile(rate_limit=Limit(requests=60))
    assert policy.rate_limiter_for(lm).limit == Limit(requests=60)


async def test_scripts_are_paced_only_by_a_limit_of_theirs(tmp_path):
    from rlm.models.scripted import scripted_lm

    policy.use(RequestPolicy(rate_limit_folder=str(tmp_path), limits={"scripted/sub": Limit(requests=1)}))
    assert policy.rate_limiter_for(scripted_lm(["a"])) is None
    assert policy.rate_limiter_for(scripted_lm(["a"], "scripted/sub")) is not None


@pytest.mark.parametrize("retries", [0, 3])
async def test_what_an_adapter_of_dspys_asks_keeps_the_pace_too(chat, lm_for, tmp_path, retries):
    import dspy

    from rlm.adapters.typed_query import ask_typed

    policy.use(RequestPolicy(rate_limit_folder=str(tmp_path), limits={"openai/local": Limit(tokens=100_000)}))
    said = completion("[[ ## answer ## ]]\n5\n\n[[ ## completed ## ]]")
    broken = [Play(500, error("broken"), {"Retry-After": "0"})] if retries else []
    chat.plays = [Play(429, TOO_MANY, {"Retry-After": "0"}), *broken, Play(body=said)]
    lm = lm_for(chat.url, num_retries=retries)
    answer = await ask_typed(lm, "How many?", int, adapter=dspy.ChatAdapter())
    assert answer.value == 5
    assert len(chat.requests) == 2 + len(broken)
    assert [one["outputs"] for one in lm.history] == [["[[ ## answer ## ]]\n5\n\n[[ ## completed ## ]]"]]
    (file,) = tmp_path.iterdir()
    assert json.loads(file.read_bytes())["share"] == 0.5


async def test_time_in_the_line_is_no_time_of_the_run(pool, tmp_path):
    from rlm.budgets import FallbackTrigger
    from rlm.models.scripted import scripted_lm
    from rlm.repl.config import RunConfig
    from rlm.results import Submitted
    from rlm.signatures import Signature

    # The second question is due after seven and a half seconds, and the run has six.
    policy.use(RequestPolicy(rate_limit_folder=str(tmp_path), limits={"scripted/main": Limit(requests=8)}))
    replies = ["```python\nprint(n)\n```", "```python\nSUBMIT(m=n)\n```"]
    driver = RunConfig(
        Signature.of("n: int -> m: int"), scripted_lm(replies), trigger=FallbackTrigger(max_duration=6.0), pool=pool
    )
    result = await driver.run({"n": 1})
    assert isinstance(result, Submitted), result
    assert result.usage.seconds < 6
