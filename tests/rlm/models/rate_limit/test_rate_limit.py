"""The pace: nobody asks more often than a model's limits allow, and "too many" slows everybody, and fails nobody."""

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
from rlm.models.direct.connection_pool import connections
from rlm.models.policy import Traffic
from rlm.models.profile import ModelProfile
from rlm.models.rate_limit import bucket as gauges
from rlm.models.rate_limit import store
from rlm.models.rate_limit.bucket import Gauge, Limit, Place
from rlm.models.rate_limit.limiter import Lane, Pace, TooLate, telling_waits
from rlm.models.rate_limit.store import FileBoard
from tests.support.chat_server import TOO_MANY, ChatServer, LimitedChat, Play, completion, error
from tests.support.model_calls_process import asking


@pytest.fixture(autouse=True)
def _nothing_in_use():
    yield
    policy.use(None)


def take(gauge: Gauge, now: float, limit: Limit, tokens: float = 10, most: float | None = 1) -> tuple[Gauge, Place]:
    return gauges.take(gauge, now, limit, tokens, most)


# One gauge ---------------------------------------------------------------------------------------------------------


@settings(suppress_health_check=[HealthCheck.too_slow])
@given(st.integers(1, 3000), st.lists(st.floats(0, 2), min_size=1, max_size=150))
def test_no_minute_has_more_requests_than_the_limit(limit, pauses):
    gauge, now, due = Gauge(), 1e6, []
    for pause in pauses:
        now += pause * 60 / limit
        gauge, place = take(gauge, now, Limit(requests=limit))
        due.append(now + place.due_in)
    assert due == sorted(due)
    for first, when in enumerate(due):
        assert sum(1 for other in due[first:] if other < when + 60 - 1e-3) <= limit


def test_a_minute_does_not_come_at_its_beginning():
    gauge, due = Gauge(), []
    for _ in range(100):
        gauge, place = take(gauge, 1e6, Limit(requests=100))
        due.append(place.due_in)
    assert sum(1 for one in due if one <= 0) == 3  # one, and the fiftieth part of a minute's
    assert 58 < due[-1] <= 60


@settings(suppress_health_check=[HealthCheck.too_slow])
@given(st.lists(st.integers(1, 400), min_size=1, max_size=100))
def test_no_minute_has_more_tokens_than_the_limit_and_the_one_request_that_is_larger(sizes):
    gauge, due = Gauge(), []
    for size in sizes:
        gauge, place = gauges.take(gauge, 1e6, Limit(tokens=1000), size - 1, 1)
        due.append((place.due_in, size))
    for first, (when, _) in enumerate(due):
        within = [size for other, size in due[first:] if other < when + 60 - 1e-3]
        assert sum(within) <= 1000 + max(within)


def test_tokens_that_were_not_used_let_those_who_wait_come_earlier():
    limit, gauge = Limit(tokens=6000), Gauge()
    gauge, first = gauges.take(gauge, 1e6, limit, 900, 100)
    gauge, second = gauges.take(gauge, 1e6, limit, 900, 100)
    _, before = gauges.look(gauge, 1e6, second)
    gauge, _ = gauges.settle(gauge, 1e6, limit, first, 400, 10)
    _, after = gauges.look(gauge, 1e6, second)
    assert before - after == pytest.approx(590 / (6000 - 120) * 60)
    gauge, _ = gauges.settle(gauge, 1e6, limit, first, 2000, 10)  # more than was thought: later
    assert gauges.look(gauge, 1e6, second)[1] > before


def test_a_place_that_is_left_is_the_next_ones():
    limit, gauge = Limit(requests=10), Gauge()
    for _ in range(2):
        gauge, place = take(gauge, 1e6, limit)
    left, _ = gauges.leave(gauge, 1e6, place)
    assert take(left, 1e6, limit)[1].due_in == place.due_in
    assert take(gauge, 1e6, limit)[1].due_in > place.due_in


@pytest.mark.parametrize("limit", [Limit(requests=60), Limit(tokens=640), Limit()], ids=["requests", "tokens", "none"])
def test_places_that_are_left_make_nobody_wait_longer(limit):
    gauge, now = Gauge(), 1e6
    for _ in range(6):
        gauge, place = take(gauge, now, limit)
        gauge, pause = gauges.slow(gauge, now, limit, place, None)
        now += pause
    gauge, _ = take(gauge, now, limit)
    _, before = take(gauge, now, limit)
    for _ in range(20):
        gauge, place = take(gauge, now, limit)
        gauge, _ = gauges.leave(gauge, now, place)
    assert take(gauge, now, limit)[1].due_in == pytest.approx(before.due_in)


def test_too_many_stops_everybody_and_halves_the_speed_which_comes_back_slowly():
    limit, gauge = Limit(requests=60), Gauge()
    gauge, one = take(gauge, 1e6, limit)
    gauge, waiting = take(gauge, 1e6, limit)
    gauge, pause = gauges.slow(gauge, 1e6, limit, one, 7.0)
    assert pause == 7.0
    assert gauges.look(gauge, 1e6, waiting)[1] is None  # it takes another place
    dues = []
    for _ in range(5):
        gauge, place = take(gauge, 1e6, limit)
        dues.append(place.due_in)
    assert dues[0] == 7.0
    assert (dues[3] - dues[2]) * 59 / 60 == pytest.approx(2.0, rel=0.15)
    assert gauges.share_at(gauge, 1e6 + 7 + gauges.DOUBLING_S) == pytest.approx(1.0)


@pytest.mark.parametrize("limit", [Limit(requests=60), Limit(tokens=640), Limit()], ids=["requests", "tokens", "none"])
def test_who_stands_far_behind_in_the_line_waits_at_the_speed_there_will_be_then(limit):
    gauge, due = Gauge(), []
    gauge, place = take(gauge, 1e6, limit)
    gauge, _ = gauges.slow(gauge, 1e6, limit, place, 0.0)
    for _ in range(60):
        gauge, place = take(gauge, 1e6, limit)
        due.append(place.due_in)
    assert due[-1] - due[-2] <= 0.7 * (due[3] - due[2])


@pytest.mark.parametrize("limit", [Limit(requests=60), Limit(tokens=640), Limit()], ids=["requests", "tokens", "none"])
def test_nobody_waits_for_minutes_at_the_lowest_speed_once_a_server_is_busy_no_more(limit):
    gauge, now = Gauge(), 1e6
    for _ in range(20):
        gauge, place = take(gauge, now, limit)
        gauge, pause = gauges.slow(gauge, now, limit, place, None)
        now += pause
    for _ in range(3):
        gauge, place = take(gauge, now, limit)
    assert place.due_in < 120


def test_one_refusal_of_a_server_that_was_hardly_asked_is_forgotten_soon():
    limit, gauge, now = Limit(), Gauge(), 1e6
    gauge, place = take(gauge, now, limit)
    gauge, pause = gauges.slow(gauge, now, limit, place, None)
    now += pause
    for _ in range(24):
        gauge, place = take(gauge, now, limit)
        now += place.due_in
    assert now - 1e6 < 24


def test_a_volley_of_refusals_is_one_warning_and_the_next_one_another():
    limit, gauge, places = Limit(requests=6000), Gauge(), []
    for _ in range(5):
        gauge, place = take(gauge, 1e6, limit)
        places.append(place)
    for place in places:
        gauge, _ = gauges.slow(gauge, 1e6, limit, place, None)
    assert gauge.share == 0.5
    now, pauses = 1e6, []
    for _ in range(12):
        now = gauge.not_before
        gauge, place = take(gauge, now, limit)
        gauge, pause = gauges.slow(gauge, now, limit, place, None)
        pauses.append(pause)
    assert gauge.share == gauges.LEAST_SHARE
    # Without a word of the server, the pause grows, and no longer than it can be waited for.
    assert pauses[:3] == pytest.approx([1.0, 2.0, 4.0])
    assert pauses[-2:] == pytest.approx([32.0, 32.0])
    now = gauge.not_before + 60
    gauge, place = take(gauge, now, limit)
    assert gauges.slow(gauge, now, limit, place, None)[1] == pytest.approx(0.5)  # it went well in between


def test_a_later_time_in_the_same_volley_counts():
    limit, gauge = Limit(), Gauge()
    gauge, first = take(gauge, 1e6, limit)
    gauge, second = take(gauge, 1e6, limit)
    gauge, _ = gauges.slow(gauge, 1e6, limit, first, 1.0)
    gauge, pause = gauges.slow(gauge, 1e6, limit, second, 30.0)
    assert pause == 30.0
    assert take(gauge, 1e6, limit)[1].due_in == 30.0


def test_without_a_limit_the_speed_is_found_out_and_forgotten_when_all_goes_well():
    limit, gauge = Limit(), Gauge()
    for number in range(200):
        gauge, place = take(gauge, 1e6 + number / 10, limit)
        assert place.due_in == 0
    now = 1e6 + 20
    gauge, _ = gauges.slow(gauge, now, limit, place, 0.0)
    gauge, _ = take(gauge, now, limit)
    gauge, place = take(gauge, now, limit)
    assert 1 / 10 < place.due_in < 1 / 3  # about half of ten a second
    long_after = now + 4 * gauges.DOUBLING_S
    for _ in range(3):
        gauge, place = take(gauge, long_after, limit)
    assert place.due_in == 0
    assert gauge.found == 0


# Files -------------------------------------------------------------------------------------------------------------


async def test_a_process_that_is_killed_with_the_lock_does_not_keep_it(tmp_path):
    board, limit = FileBoard(tmp_path), Limit(requests=30)
    await board.do("m", "take", limit, 1, 1)
    (file,) = tmp_path.iterdir()
    code = "import fcntl, sys; f = open(sys.argv[1]); fcntl.flock(f, 2); print('locked', flush=True); input()"
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
    holder = subprocess.Popen([sys.executable, "-c", code, str(file)], **pipes)
    with holder:
        assert holder.stdout.readline() == "locked\n"
        taking = asyncio.create_task(board.do("m", "take", limit, 1, 1))
        await asyncio.sleep(0.05)  # the loop goes on meanwhile
        assert not taking.done()
        os.kill(holder.pid, signal.SIGKILL)
        place = await asyncio.wait_for(taking, 10)
    assert place.due_in > 0


@pytest.mark.parametrize("content", [b"", b"{", b"\0" * 9, b'{"nothing": 1}', b"[]", b'{"seen_at": 9e99}'], ids=repr)
async def test_a_file_that_cannot_be_read_is_begun_anew(tmp_path, content):
    board, limit = FileBoard(tmp_path), Limit(requests=30)
    await board.do("m", "take", limit, 1, 1)
    (file,) = tmp_path.iterdir()
    file.write_bytes(content)
    assert (await board.do("m", "take", limit, 1, 1)).due_in == 0
    assert (await board.do("m", "take", limit, 1, 1)).due_in > 0


async def test_where_no_file_can_be_written_a_process_keeps_its_own_pace(tmp_path, caplog):
    (tmp_path / "file").write_text("")
    lane = Lane(Pace.at(tmp_path / "file" / "pace"), "m", Limit(requests=60))
    await lane.enter(1, 1, None)
    await lane.enter(1, 1, None)  # the second comes at once, too
    with pytest.raises(TooLate):
        await lane.enter(1, 1, time.monotonic() + 0.1)
    assert len(caplog.records) == 1


async def test_a_lock_that_is_never_given_back_is_not_waited_for_forever(tmp_path, monkeypatch, caplog):
    monkeypatch.setattr(store, "_LOCK_S", 0.05)
    pace = Pace.at(tmp_path)
    await pace.do("m", "take", Limit(), 1, 1)
    (file,) = tmp_path.iterdir()
    with open(file) as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        assert (await pace.do("m", "take", Limit(), 1, 1)).due_in == 0
    assert "is locked by another process" in caplog.text


async def test_who_stops_waiting_leaves_his_place_and_who_waits_is_told(tmp_path):
    lane, told = Lane(Pace.at(tmp_path), "m", Limit(requests=20)), []
    for _ in range(2):
        with telling_waits(told.append):
            waiting = asyncio.create_task(lane.enter(1, 1, None))
        await asyncio.sleep(0.05)
    assert not waiting.done()
    assert told == [2.0]  # three seconds, looked at every two
    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting
    place = await FileBoard(tmp_path).do("m", "take", Limit(requests=20), 1, 1)
    assert 2 < place.due_in < 3


# Servers -----------------------------------------------------------------------------------------------------------


@pytest.mark.processes
def test_processes_together_ask_no_faster_than_the_limit_and_all_are_answered(tmp_path):
    limit, burst, a_second = 1200, 25, (1200 - 24) / 60
    with LimitedChat(limit, 60.0) as server:
        traffic = {"pace": str(tmp_path), "limits": {"openai/local": {"requests": limit}}}
        seconds, said = asking(server.url, 3, 28, traffic)
    assert [set(one) for one in said] == [{"ok"}] * 3
    assert len(server.times) == 84
    # The lower bound cannot fail on a slow machine; the last request was due then.
    assert seconds >= (84 - burst) / a_second
    assert server.refused == 0


@pytest.mark.processes
def test_nobody_fails_where_the_server_says_too_many(tmp_path):
    with LimitedChat(5, 0.5) as server:
        _, said = asking(server.url, 2, 6, {"pace": str(tmp_path)})
    assert said == [["ok"] * 6] * 2  # with num_retries=0
    assert server.refused > 0
    # Those who waited were many; the server was not asked again and again by each of them.
    assert server.refused <= 12


async def test_the_time_in_the_line_is_told_as_waited(chat, lm_for, tmp_path):
    policy.use(Traffic(pace=str(tmp_path)))
    chat.plays = [Play(429, TOO_MANY, {"Retry-After": "1"}), Play()]
    answer = await ask(lm_for(chat.url, num_retries=0), [("user", "x")])
    assert answer.text == "ok"
    assert answer.waited >= 0.9


async def test_a_deadline_ends_the_waiting(chat, lm_for, tmp_path):
    policy.use(Traffic(pace=str(tmp_path)))
    chat.plays = [Play(429, TOO_MANY, {"Retry-After": "30"})]
    began = time.monotonic()
    with pytest.raises(ModelError, match="slow down") as caught:
        await ask(lm_for(chat.url), [("user", "x")], deadline=began + 2)
    assert caught.value.kind == "timeout"
    with pytest.raises(ModelError, match="others are before it"):  # and who asks now is not even asked
        await ask(lm_for(chat.url), [("user", "x")], deadline=time.monotonic() + 2)
    assert len(chat.requests) == 1
    assert time.monotonic() - began < 20


async def test_a_server_that_asks_for_hours_is_not_waited_for(chat, lm_for, tmp_path):
    policy.use(Traffic(pace=str(tmp_path)))
    chat.plays = [Play(429, TOO_MANY, {"Retry-After": "7200"})]
    with pytest.raises(ModelError, match="asks to wait 7,200 seconds") as caught:
        await ask(lm_for(chat.url), [("user", "x")])
    assert caught.value.kind == "rate"


async def test_another_fault_is_tried_as_often_as_ever(chat, lm_for, tmp_path):
    policy.use(Traffic(pace=str(tmp_path)))
    chat.plays = [Play(429, TOO_MANY, {"Retry-After": "0"}), Play(500, error("broken"))]
    with pytest.raises(ModelError) as caught:
        await ask(lm_for(chat.url, num_retries=0), [("user", "x")])
    assert caught.value.kind == "server"
    assert len(chat.requests) == 2


async def test_models_of_one_name_at_two_servers_have_two_lines(lm_for, tmp_path):
    policy.use(Traffic(pace=str(tmp_path), limits={"openai/local": Limit(requests=1)}))
    with ChatServer() as one, ChatServer() as other:
        for server in (one, other):
            assert not (await ask(lm_for(server.url), [("user", "x")])).waited > 5
    connections.close()
    assert len(list(tmp_path.iterdir())) == 2


async def test_nothing_is_paced_where_nothing_was_said(chat, lm_for):
    assert policy.lane_to(lm_for(chat.url)) is None
    lm = lm_for(chat.url)
    lm.profile = ModelProfile(rate_limit=Limit(requests=60))
    assert policy.lane_to(lm).limit == Limit(requests=60)


async def test_scripts_are_paced_only_by_a_limit_of_theirs(tmp_path):
    from rlm.models.scripted import scripted_lm

    policy.use(Traffic(pace=str(tmp_path), limits={"scripted/sub": Limit(requests=1)}))
    assert policy.lane_to(scripted_lm(["a"])) is None
    assert policy.lane_to(scripted_lm(["a"], "scripted/sub")) is not None


@pytest.mark.parametrize("retries", [0, 3])
async def test_what_an_adapter_of_dspys_asks_keeps_the_pace_too(chat, lm_for, tmp_path, retries):
    import dspy

    from rlm.adapters.typed_query import ask_typed

    policy.use(Traffic(pace=str(tmp_path), limits={"openai/local": Limit(tokens=100_000)}))
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
    policy.use(Traffic(pace=str(tmp_path), limits={"scripted/main": Limit(requests=8)}))
    replies = ["```python\nprint(n)\n```", "```python\nSUBMIT(m=n)\n```"]
    driver = RunConfig(
        Signature.of("n: int -> m: int"), scripted_lm(replies), trigger=FallbackTrigger(max_duration=6.0), pool=pool
    )
    result = await driver.run({"n": 1})
    assert isinstance(result, Submitted), result
    assert result.usage.seconds < 6
