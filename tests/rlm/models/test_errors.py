"""What goes wrong when a model is asked: each fault has its kind, its patience and its words, both ways."""

from __future__ import annotations

import asyncio
import datetime
import email.utils
import json
import re
import socket
import time

import pytest

from rlm.models.client import ModelError, ask
from rlm.models.direct import http1
from rlm.models.direct.connection import connections
from rlm.models.errors import Fault, describe, describe_deadline, read_fault
from rlm.models.requests import on_wait, retry_within
from rlm.models.retry import RetryPolicy
from tests.support.chat_server import Play, completion, error

KEY = "sk-very-secret-key"
QUICK = RetryPolicy(first=0.02, patience=0.0)
PATIENT = RetryPolicy(first=0.02, longest=0.1, patience=30.0)


@pytest.fixture(params=["direct", "dspy"])
def way(request):
    return request.param


async def failed(lm, **options):
    with pytest.raises(ModelError) as caught:
        await ask(lm, [("user", "x")], **{"retry": QUICK} | options)
    message = str(caught.value)
    assert KEY not in message
    assert lm.model in message
    assert caught.value.__cause__ is caught.value.__context__ is None  # which could say more than the message
    return caught.value


async def test_a_rate_limit_passes(chat, lm_for, way):
    limit = Play(429, error("slow down", "rate_limit_exceeded"), {"Retry-After": "0.2"})
    chat.plays = [limit, limit, Play()]
    answer = await ask(lm_for(chat.url, way), [("user", "x")], retry=QUICK)
    assert answer.text == "ok"
    assert answer.waited >= 0.4
    assert len(chat.requests) == 3
    assert {got.direct for got in chat.requests} == {way == "direct"}


async def test_a_date_to_wait_for(chat, lm_for, way):
    date = email.utils.format_datetime(datetime.datetime.now(datetime.UTC) + datetime.timedelta(hours=2), usegmt=True)
    chat.plays = [Play(503, error("down for repairs"), {"Retry-After": date})]
    fault = await failed(lm_for(chat.url, way))
    assert "it asks to wait 7," in str(fault)


async def test_a_rate_limit_that_stays(chat, lm_for, way):
    chat.plays = [Play(429, error("slow down", "rate_limit_exceeded"))]
    fault = await failed(lm_for(chat.url, way))
    assert fault.kind == "rate"
    assert "too many requests, 3 times" in str(fault)
    assert "slow down" in str(fault)
    assert chat.url in str(fault)
    assert fault.waited > 0
    assert len(chat.requests) == 3


async def test_retries_are_as_many_as_the_model_says(chat, lm_for, way):
    chat.plays = [Play(500, error("broken"))]
    await failed(lm_for(chat.url, way, num_retries=0))
    assert len(chat.requests) == 1


async def test_a_server_that_asks_for_hours_is_not_waited_for(chat, lm_for, way):
    chat.plays = [Play(429, error("come back tomorrow"), {"Retry-After": "86400"})]
    fault = await failed(lm_for(chat.url, way))
    assert fault.kind == "rate"
    assert "it asks to wait" in str(fault)
    assert fault.waited == 0
    assert len(chat.requests) == 1


@pytest.mark.parametrize("status", [500, 502, 503, 529])
async def test_a_fault_of_the_server_passes(chat, lm_for, way, status):
    chat.plays = [Play(status, b"<html>bad gateway</html>"), Play()]
    answer = await ask(lm_for(chat.url, way), [("user", "x")], retry=QUICK)
    assert answer.text == "ok"
    assert answer.waited > 0


async def test_a_fault_of_the_server_that_stays(chat, lm_for, way):
    chat.plays = [Play(500, error("out of memory"))]
    fault = await failed(lm_for(chat.url, way))
    assert fault.kind == "server"
    assert "out of memory" in str(fault)
    assert len(chat.requests) == 3


async def test_no_server(lm_for, way):
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        port = unused.getsockname()[1]
        fault = await failed(lm_for(f"http://127.0.0.1:{port}/v1", way))
    assert fault.kind == "transport"
    assert "Is the server running" in str(fault)
    assert fault.waited > 0


async def test_a_name_that_nobody_knows(lm_for, way):
    fault = await failed(lm_for("http://nobody.invalid/v1", way, num_retries=0))
    assert fault.kind == "transport"
    assert "nobody.invalid" in str(fault)


async def test_a_connection_that_breaks_in_the_middle_passes(chat, lm_for, way):
    half = Play().written()[:-20]
    chat.plays = [Play(raw=half, hang_up=True), Play()]
    answer = await ask(lm_for(chat.url, way), [("user", "x")], retry=QUICK)
    assert answer.text == "ok"
    assert answer.waited > 0


async def test_connections_that_always_break(chat, lm_for, way):
    chat.plays = [Play(raw=b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nab", hang_up=True)]
    fault = await failed(lm_for(chat.url, way))
    assert fault.kind == "transport"
    assert len(chat.requests) == 3
    if way == "direct":
        assert "the connection was lost, 3 times" in str(fault)


async def test_a_slow_answer(chat, lm_for, way):
    chat.plays = [Play(wait=30)]
    fault = await failed(lm_for(chat.url, way, timeout=0.1, num_retries=1))
    assert fault.kind == "timeout"
    assert "no answer in time, 2 times" in str(fault)
    assert len(chat.requests) == 2


async def test_a_slow_answer_passes(chat, lm_for, way):
    chat.plays = [Play(wait=30), Play()]
    answer = await ask(lm_for(chat.url, way, timeout=0.3), [("user", "x")], retry=QUICK)
    assert answer.text == "ok"


async def test_the_deadline_ends_an_attempt(chat, lm_for, way):
    chat.plays = [Play(wait=30)]
    began = time.monotonic()
    fault = await failed(lm_for(chat.url, way), deadline=began + 0.3)
    assert fault.kind == "timeout"
    assert re.search(r"timed out after [\d.]+ s; no answer in time", str(fault))
    assert time.monotonic() - began < 15


async def test_nobody_waits_past_the_deadline(chat, lm_for, way):
    chat.plays = [Play(429, error("slow down"), {"Retry-After": "30"})]
    fault = await failed(lm_for(chat.url, way), deadline=time.monotonic() + 20)
    assert fault.kind == "rate"
    assert "timed out after 20 s; too many requests (slow down)" in str(fault)
    assert fault.waited == 0


async def test_a_deadline_that_has_passed(chat, lm_for, way):
    fault = await failed(lm_for(chat.url, way), deadline=time.monotonic() - 1)
    assert fault.kind == "timeout"


LASTING = {
    "a bad key": (401, error(f"Incorrect API key provided: {KEY}", "invalid_api_key"), "key", "OPENAI_API_KEY"),
    "a key without rights": (403, error("not yours"), "key", "OPENAI_API_KEY"),
    "no access": (403, error("Country not supported"), "key", "the server refused access (Country not supported)"),
    "another address": (302, b"", "server", "the server names another address"),
    "no credit": (402, error("pay first"), "billing", "pay first"),
    "no quota": (429, error("You exceeded your quota", "insufficient_quota"), "billing", "Check the account"),
    "an unknown model": (404, error("The model `local` does not exist", "model_not_found"), "model", "does not exist"),
    "an unknown place": (404, b"<html>Not Found</html>", "model", "nothing at this address"),
    "too long": (400, error("maximum context length is 10", "context_length_exceeded"), "context", "Send less"),
    "too long, in words": (400, error("This model's maximum context length is 4096 tokens."), "context", "Send less"),
    "too long for the server": (413, b"", "context", "Send less"),
    "filtered": (400, error("The response was filtered", "content_filter"), "refused", "filtered"),
    "a setting it does not take": (400, error("Unrecognized argument: top_k"), "unknown", "Unrecognized argument"),
}


@pytest.mark.parametrize(("status", "body", "kind", "words"), LASTING.values(), ids=LASTING.keys())
async def test_what_does_not_pass_is_said_at_once(chat, lm_for, way, status, body, kind, words):
    chat.plays = [Play(status, body)]
    fault = await failed(lm_for(chat.url, way))
    assert fault.kind == kind, str(fault)
    assert words in str(fault)
    assert fault.waited == 0
    assert len(chat.requests) == 1


async def test_no_key_at_all(chat, lm_for, way, monkeypatch):
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    fault = await failed(lm_for(chat.url, way, api_key=None))
    assert fault.kind == "key"
    assert "Set OPENAI_API_KEY" in str(fault)
    assert not chat.requests


def test_a_name_without_a_provider_is_no_model(monkeypatch):
    import dspy

    monkeypatch.setenv("LITELLM_LOCAL_MODEL_COST_MAP", "true")
    lm = dspy.LM("some-model", cache=False)
    with pytest.raises(Exception, match="LLM Provider NOT provided") as caught:
        lm("x")
    fault = read_fault(caught.value)
    assert fault.kind == "model"
    assert "as in openai/" in describe(fault, lm, 1)


@pytest.mark.parametrize(
    ("model", "words"),
    [
        ("bedrock/some.model", "Bedrock takes credentials of AWS: AWS_ACCESS_KEY_ID"),
        ("vertex_ai/gemini", "Vertex_ai takes the default credentials of Google Cloud"),
        ("azure/deployment", "with `api_base:` and `api_version:`"),
        ("groq/model", "Set GROQ_API_KEY, or say which key: `api_key_env:` in a task file"),
    ],
)
def test_the_advice_about_a_key_is_that_of_the_provider(model, words):
    import dspy

    fault = Fault("key", "no credentials", passing=False)
    assert words in describe(fault, dspy.LM(model), 1)


@pytest.mark.parametrize(
    ("variable", "settings", "words"),
    [
        ("sk-1", {}, "Check the value of GROQ_API_KEY"),
        (None, {"api_key": "sk-2"}, "Check api_key on the model, or leave it out and set GROQ_API_KEY."),
        (None, {}, "Set GROQ_API_KEY"),
    ],
)
def test_a_key_that_was_sent_is_to_be_checked_and_not_set(monkeypatch, variable, settings, words):
    import dspy

    monkeypatch.delenv("GROQ_API_KEY", raising=False)
    if variable:
        monkeypatch.setenv("GROQ_API_KEY", variable)
    fault = Fault("key", "wrong key", passing=False)
    assert words in describe(fault, dspy.LM("groq/model", **settings), 1)


def test_a_module_that_a_provider_needs_is_named_and_not_waited_for():
    import dspy

    fault = read_fault(ConnectionError("litellm.APIConnectionError: No module named 'google.auth'"))
    assert not fault.passing
    said = describe(fault, dspy.LM("vertex_ai/gemini"), 1)
    assert said.endswith("Install the package with the module 'google.auth', which calls of this provider need.")


async def test_an_answer_that_a_filter_kept_back(chat, lm_for, way):
    chat.plays = [Play(body=completion("", finish="content_filter"))]
    fault = await failed(lm_for(chat.url, way))
    assert fault.kind == "refused"
    assert len(chat.requests) == 1


NOT_ANSWERS = {
    "not JSON": b"<html>Please log in</html>",
    "no object": b"[]",
    "half": completion()[:-10],
    "not text": b"\xff\xfe",
}


@pytest.mark.parametrize("body", NOT_ANSWERS.values(), ids=NOT_ANSWERS.keys())
async def test_a_body_that_is_no_answer(chat, lm_for, way, body):
    chat.plays = [Play(body=body)]
    fault = await failed(lm_for(chat.url, way))
    assert fault.kind in ("server", "unknown")
    assert len(chat.requests) == 1
    if way == "direct":
        assert "the server's response is no completion" in str(fault)
        assert "It usually ends in /v1." in str(fault)


async def test_a_huge_body(chat, lm_for, way, monkeypatch):
    monkeypatch.setattr(http1, "MAX_BODY", 1_000_000)
    chat.plays = [Play(body=b"x" * 3_000_000)]
    fault = await failed(lm_for(chat.url, way))
    assert fault.kind == "server"
    assert len(str(fault)) < 2000
    assert len(chat.requests) == 1


async def test_an_error_that_is_long_is_cut(chat, lm_for, way):
    chat.plays = [Play(400, error("no! " * 100_000))]
    fault = await failed(lm_for(chat.url, way))
    assert len(str(fault)) < 1000


async def test_a_huge_body_is_not_read(chat, lm_for):
    """In a direct call the length alone is enough."""
    chat.plays = [Play(raw=b"HTTP/1.1 200 OK\r\nContent-Length: 99999999999\r\n\r\n{")]
    fault = await failed(lm_for(chat.url))
    assert fault.kind == "server"
    assert "larger than" in str(fault)


async def test_a_server_that_speaks_something_else(chat, lm_for):
    chat.plays = [Play(raw=b"220 smtp.example ESMTP\r\n\r\n")]
    fault = await failed(lm_for(chat.url))
    assert fault.kind == "server"
    assert "not HTTP" in str(fault)
    assert len(chat.requests) == 1


async def test_a_password_in_the_address_is_not_shown(chat, lm_for):
    chat.plays = [Play(400, error("no"))]
    fault = await failed(lm_for(chat.url.replace("http://", "http://user:hunter22@")))
    assert "hunter22" not in str(fault)


async def test_a_failed_call_keeps_no_connection(chat, lm_for):
    chat.plays = [Play(raw=b"HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\n{", hang_up=True)]
    await failed(lm_for(chat.url, num_retries=0))
    assert not connections._idle


async def test_one_failure_among_many(chat, lm_for, way):
    chat.plays = [Play(), Play(400, error("no")), Play()]
    lm = lm_for(chat.url, way)
    calls = (ask(lm, [("user", str(n))]) for n in range(3))
    outcomes = await asyncio.gather(*calls, return_exceptions=True)
    assert sorted(type(outcome).__name__ for outcome in outcomes) == ["Answer", "Answer", "ModelError"]


async def test_through_litellm_retries_are_ours_alone(chat, lm_for):
    """Settings that only LiteLLM carries: there, too, an attempt is one request, and the header is not shown."""
    chat.plays = [Play(500, error("broken by X-Token token-of-mine", kind="server_error"))]
    lm = lm_for(chat.url, headers={"X-Token": "token-of-mine"})
    fault = await failed(lm)
    assert fault.kind == "server"
    assert "token-of-mine" not in str(fault)
    assert [got.headers["x-token"] for got in chat.requests] == ["token-of-mine"] * 3
    assert json.dumps(chat.requests[0].body["messages"]) == json.dumps([{"role": "user", "content": "x"}])


def test_waits_grow_and_differ():
    retry = RetryPolicy(first=1.0, longest=10.0)
    waits = [[retry.delay(failures, None) for _ in range(50)] for failures in (1, 2, 3, 9)]
    for wait, most in zip(waits, (1.0, 2.0, 4.0, 10.0), strict=True):
        assert all(most / 2 <= one <= most for one in wait)
        assert len(set(wait)) > 1
    assert all(5.0 <= retry.delay(1, 5.0) <= 5.5 for _ in range(50))


@pytest.mark.parametrize("asked", [0.0, 0.001])
def test_a_server_that_asks_for_hardly_any_wait_is_asked_ever_less_often(asked):
    retry = RetryPolicy(first=1.0, longest=10.0)
    assert [retry.delay(failures, asked) >= least for failures, least in ((1, 0.5), (3, 2.0), (9, 5.0))] == [True] * 3


@pytest.mark.parametrize("header", ["0", "-5", "Wed, 21 Oct 2015 07:28:00 GMT"])
async def test_a_time_that_is_over_is_no_reason_to_ask_at_once(chat, lm_for, way, header):
    chat.plays = [Play(429, error("slow down"), {"Retry-After": header})]
    fault = await failed(lm_for(chat.url, way, num_retries=1), retry=RetryPolicy(first=0.2, patience=0.9))
    assert fault.kind == "rate"
    assert len(chat.requests) <= 4


async def test_no_attempt_is_waited_for_that_the_run_has_no_time_for(chat, lm_for, way):
    chat.plays = [Play(429, error("slow down"), {"Retry-After": "30"})]
    with retry_within(lambda: 20.0):
        fault = await failed(lm_for(chat.url, way))
    assert fault.kind == "rate"
    assert "too many requests (slow down). The next attempt would be in 3" in str(fault)
    assert "after the time of the run (max_duration)" in str(fault)
    assert fault.waited == fault.queued == 0


@pytest.mark.parametrize("status", [429, 503, 529])
async def test_a_short_outage_is_waited_out_beyond_the_retries(chat, lm_for, way, status):
    busy = Play(status, error("overloaded"))
    chat.plays = [busy] * 5 + [Play()]
    waits = []
    with on_wait(waits.append):
        answer = await ask(lm_for(chat.url, way, num_retries=1), [("user", "x")], retry=PATIENT)
    assert answer.text == "ok"
    assert len(chat.requests) == 6
    assert [one.model for one in waits] == ["openai/local"] * 5
    assert {one.reason for one in waits} == {"too many requests" if status == 429 else "the server failed"}
    assert answer.waited >= sum(one.seconds for one in waits) > 0


async def test_an_outage_is_not_waited_out_longer_than_the_patience(chat, lm_for, way):
    chat.plays = [Play(503, error("overloaded"))]
    retry = RetryPolicy(first=0.02, longest=0.1, patience=0.5)
    fault = await failed(lm_for(chat.url, way, num_retries=1), retry=retry)
    assert fault.kind == "server"
    assert len(chat.requests) > 2


@pytest.mark.parametrize(("status", "retries", "requests"), [(500, 1, 2), (503, 0, 1)])
async def test_other_failures_and_models_without_retries_have_no_patience(chat, lm_for, way, status, retries, requests):
    chat.plays = [Play(status, error("broken"))]
    await failed(lm_for(chat.url, way, num_retries=retries), retry=PATIENT)
    assert len(chat.requests) == requests


def test_a_deadline_in_the_queue_of_a_rate_limit_is_described(lm_for):
    lm = lm_for("http://127.0.0.1:1/v1")
    place = "the rate limit of openai/local at http://127.0.0.1:1/v1"
    assert describe_deadline(None, lm, 0, 60.0, 12) == f"timed out after 60 s waiting for {place} (12 requests ahead)"
    assert describe_deadline(None, lm, 0, 0.5, 1) == f"timed out after 0.5 s waiting for {place} (1 request ahead)"
    assert describe_deadline(None, lm, 0, 60.0, 0) == f"timed out after 60 s waiting for {place}"
