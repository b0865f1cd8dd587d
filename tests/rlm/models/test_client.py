"""Asking a model: a direct call gives what dspy gives, and whatever it cannot give is left to dspy."""

from __future__ import annotations

import asyncio
import io
import socket
import threading
import time

import dspy
import pytest
from dspy.utils.callback import BaseCallback

from rlm.models.client import Answer, ModelError, ask
from rlm.models.direct import connection
from rlm.models.direct.connection import connections
from rlm.models.direct.routing import direct_client
from tests.support.chat_server import CERTIFICATE, USAGE, ChatServer, Play, completion

TURNS = [("user", "What is 1?"), ("assistant", "one"), ("user", "And 2? \u2603")]

SETTINGS = {
    "none": {},
    "sampling": {"temperature": 0.5, "max_tokens": 7, "top_p": 0.9, "seed": 3, "stop": ["END"]},
    "penalties": {"frequency_penalty": 0.1, "presence_penalty": 0.2, "logit_bias": {"5": 1}},
    "what dspy does not know": {"extra_body": {"min_p": 0.1}, "repetition_penalty": 1.1},
    "a key from the environment": {"api_key": None},
    "a timeout": {"timeout": 20},
}


async def both(chat, lm_for, monkeypatch, **settings):
    """Both ways, one after the other: their answers, what the server got, their histories, what trackers counted."""
    monkeypatch.setenv("OPENAI_API_KEY", "sk-from-the-environment")
    answers, histories, counted = [], [], []
    for way in ("direct", "dspy"):
        lm = lm_for(chat.url, way, **settings)
        with dspy.track_usage() as tracker:
            answers.append(await ask(lm, TURNS, system="Be brief."))
        histories.append(lm.history)
        counted.append(tracker.get_total_tokens())
    direct, by_dspy = chat.requests
    assert direct.direct
    assert not by_dspy.direct
    return answers, (direct, by_dspy), histories, counted


@pytest.mark.parametrize("settings", SETTINGS.values(), ids=SETTINGS.keys())
async def test_both_ways_send_the_same_and_say_the_same(chat, lm_for, monkeypatch, settings):
    answers, (direct, by_dspy), histories, counted = await both(chat, lm_for, monkeypatch, **settings)
    assert answers[0] == answers[1] == Answer("ok", False, 12, 2, None)
    assert direct.body == by_dspy.body
    assert direct.target == by_dspy.target == "/v1/chat/completions"
    assert direct.headers["authorization"] == by_dspy.headers["authorization"]
    assert direct.body["messages"][-1] == {"role": "user", "content": "And 2? \u2603"}
    assert counted[0] == counted[1] == {"openai/local": counted[0]["openai/local"]}
    assert counted[0]["openai/local"]["prompt_tokens"] == 12

    ((entry,), (other,)) = histories
    assert entry.pop("response") == other.pop("response").provider_data
    assert other.pop("request")
    for changing in ("timestamp", "uuid", "cost_details"):
        assert entry.pop(changing)
        assert other.pop(changing)
    assert entry == other


async def test_settings_reach_the_server(chat, lm_for):
    await ask(lm_for(chat.url, **SETTINGS["sampling"], extra_body={"min_p": 0.1}), [("user", "x")])
    sent = chat.requests[0].body
    expected = {"temperature": 0.5, "top_p": 0.9, "seed": 3, "stop": ["END"], "min_p": 0.1}
    assert {name: sent[name] for name in expected} == expected
    assert 7 in (sent.get("max_tokens"), sent.get("max_completion_tokens"))


ANSWERS = {
    "cut": (completion("half an ans", finish="length"), "half an ans", True),
    "nothing": (completion(None), "", False),
    "in parts": (completion([{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]), "ab", False),
    "with thoughts": (completion("done", reasoning_content="hm"), "done", False),
    "not ASCII": (completion("\u2603 \U0001f600"), "\u2603 \U0001f600", False),
    "empty": (completion(""), "", False),
    "with details": (completion("d", usage=USAGE | {"prompt_tokens_details": {"cached_tokens": 5}}), "d", False),
    "details that say nothing": (completion("n", usage=USAGE | {"prompt_tokens_details": None}), "n", False),
    "no usage": (completion("u", usage=None), "u", False),
    "half a usage": (completion("h", usage={"prompt_tokens": 3}), "h", False),
    "no reason to stop": (completion("r", finish=None), "r", False),
    "an odd reason to stop": (completion("o", finish="tired"), "o", False),
    "no model": (completion("m", model=""), "m", False),
    "a call of a tool": (
        completion("t", tool_calls=[{"id": "1", "type": "function", "function": {"name": "f", "arguments": "{}"}}]),
        "t",
        False,
    ),
}


@pytest.mark.parametrize(("body", "text", "truncated"), ANSWERS.values(), ids=ANSWERS.keys())
async def test_both_ways_read_the_same_from_an_answer(chat, lm_for, monkeypatch, body, text, truncated):
    chat.plays = [Play(body=body)]
    answers, _, histories, counted = await both(chat, lm_for, monkeypatch)
    assert answers[0] == answers[1]
    assert (answers[0].text, answers[0].truncated) == (text, truncated)
    assert counted[0] == counted[1]
    for key in ("outputs", "usage", "response_model", "messages"):
        assert histories[0][0][key] == histories[1][0][key]


async def test_a_price_that_dspy_knows_is_the_cost(chat, lm_for, monkeypatch):
    chat.plays = [Play(body=completion(model="gpt-4o-mini-2024-07-18"))]
    answers, _, histories, _ = await both(chat, lm_for, monkeypatch, model="openai/gpt-4o-mini")
    assert answers[0] == answers[1]
    assert answers[0].cost_usd == pytest.approx(12 * 0.15e-6 + 2 * 0.6e-6)
    assert histories[0][0]["cost_details"] == histories[1][0]["cost_details"]


async def test_a_reasoning_model_is_told_its_limit(chat, lm_for, monkeypatch):
    _, (direct, by_dspy), _, _ = await both(chat, lm_for, monkeypatch, model="openai/gpt-5-mini", max_tokens=20000)
    assert direct.body == by_dspy.body
    assert direct.body["max_completion_tokens"] == 20000


async def test_an_answer_in_chunks(chat, lm_for, monkeypatch):
    body = completion("in pieces")
    chunks = b"%x\r\n%s\r\n5;name=value\r\n%s\r\n%x\r\n%s\r\n0\r\nX: y\r\n\r\n" % (
        *(10, body[:10], body[10:15], len(body) - 15, body[15:]),
    )
    raw = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n" + chunks
    chat.plays = [Play(raw=raw)]
    answers, _, _, _ = await both(chat, lm_for, monkeypatch)
    assert answers[0] == answers[1] == Answer("in pieces", False, 12, 2)


async def test_an_answer_that_ends_with_the_connection(chat, lm_for, monkeypatch):
    chat.plays = [Play(raw=b"HTTP/1.0 200 OK\r\n\r\n" + completion("to the end"), hang_up=True)]
    answers, _, _, _ = await both(chat, lm_for, monkeypatch)
    assert answers[0] == answers[1] == Answer("to the end", False, 12, 2)


async def test_a_text_that_is_empty_is_left_to_dspy(chat, lm_for):
    answer = await ask(lm_for(chat.url), [("user", "x"), ("assistant", ""), ("user", "y")])
    assert answer.text == "ok"
    assert not chat.requests[0].direct


async def test_histories_of_dspy_are_kept(chat, lm_for):
    lm, shown = lm_for(chat.url), io.StringIO()
    await ask(lm, [("user", "What is it?")], system="Be brief.")
    lm.inspect_history(file=shown)
    assert "What is it?" in shown.getvalue()
    assert dspy.clients.base_lm.GLOBAL_HISTORY[-1] is lm.history[-1]
    with dspy.context(disable_history=True):
        await ask(lm, [("user", "x")])
    assert len(lm.history) == 1
    assert "sk-very-secret-key" not in repr(lm.history)


async def test_a_changed_setting_is_seen(chat, lm_for):
    lm = lm_for(chat.url, temperature=0.1)
    await ask(lm, [("user", "x")])
    lm.kwargs["temperature"] = 0.7
    await ask(lm, [("user", "x")])
    assert [got.body["temperature"] for got in chat.requests] == [0.1, 0.7]
    assert all(got.direct for got in chat.requests)


async def test_options_of_a_call_come_first(chat, lm_for):
    await ask(lm_for(chat.url, temperature=0.1), [("user", "x")], temperature=0.9)
    assert chat.requests[0].body["temperature"] == 0.9


async def test_callbacks_are_called(chat, lm_for):
    class Noting(BaseCallback):
        started = 0

        def on_lm_start(self, call_id, instance, inputs):
            self.started += 1

    noting = Noting()
    with dspy.context(callbacks=[noting]):
        await ask(lm_for(chat.url), [("user", "x")])
    assert noting.started == 1


async def test_the_cache_of_dspy_is_used(chat, lm_for, monkeypatch):
    monkeypatch.setattr(dspy, "cache", dspy.clients.Cache(False, True, None))
    lm = lm_for(chat.url, cache=True)
    first, second = [await ask(lm, [("user", "x")]) for _ in range(2)]
    assert first.text == second.text == "ok"
    assert len(chat.requests) == 1
    assert (first.cached, first.tokens_in > 0) == (False, True)
    assert (second.cached, second.tokens_in, second.tokens_out, second.cost_usd) == (True, 0, 0, 0.0)


async def test_the_cache_of_dspy_is_free_behind_an_adapter_too(chat, lm_for, monkeypatch):
    from rlm.adapters import ask_typed, watch_calls

    monkeypatch.setattr(dspy, "cache", dspy.clients.Cache(False, True, None))
    chat.plays = [Play(body=completion("[[ ## answer ## ]]\n5\n\n[[ ## completed ## ]]"))]
    lm, calls = lm_for(chat.url, model="openai/gpt-4o-mini", cache=True), []
    with watch_calls(calls.append):
        for _ in range(2):
            assert (await ask_typed(lm, "How many?", int, adapter=dspy.ChatAdapter())).value == 5
    first, second = calls
    assert (first.cached, first.tokens_in > 0, first.cost_usd > 0) == (False, True, True)
    assert (second.cached, second.tokens_in, second.cost_usd) == (True, 0, 0.0)


def test_what_is_not_certainly_such_a_server_is_called_through_dspy(lm_for, monkeypatch):
    url = "http://127.0.0.1:9/v1"
    assert direct_client(lm_for(url), {}) is not None
    assert direct_client(lm_for(url), {"temperature": 0.5}) is None
    for settings in (
        *({"cache": True}, {"engine": "litellm"}, {"headers": {"X": "y"}}, {"model": "anthropic/claude-sonnet-4-5"}),
        *({"model_type": "responses"}, {"api_key": lambda: "key"}, {"timeout": -1}),
    ):
        assert direct_client(lm_for(url, **settings), {}) is None, settings
    assert direct_client(lm_for("http://user:password@127.0.0.1:9/v1"), {}) is None
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:9")
    assert direct_client(lm_for(url), {}) is None
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    assert direct_client(lm_for(url), {}) is not None
    monkeypatch.setenv("OPENAI_BASE_URL", "http://127.0.0.1:9/v1")
    assert direct_client(lm_for(url), {}) is None


def test_a_client_does_not_show_its_key(lm_for):
    assert "sk-very-secret-key" not in repr(direct_client(lm_for("http://127.0.0.1:9/v1"), {}))


def test_connections_outlive_an_event_loop(chat, lm_for):
    async def three():
        lm = lm_for(chat.url)
        await asyncio.gather(*(ask(lm, [("user", str(n))]) for n in range(3)))

    asyncio.run(three())
    asyncio.run(three())
    assert len(chat.requests) == 6
    assert chat.connections <= 3


async def test_a_connection_that_the_server_closed_is_not_used(chat, lm_for):
    lm = lm_for(chat.url)
    await ask(lm, [("user", "x")])
    await asyncio.to_thread(chat.hang_up)
    answer = await ask(lm, [("user", "y")])
    assert (answer.text, answer.waited) == ("ok", 0.0)
    assert chat.connections == 2


async def test_a_server_that_hangs_up_when_a_connection_is_used_again_is_asked_anew(chat, lm_for):
    chat.plays = [Play(), Play(raw=b"", hang_up=True), Play()]
    lm = lm_for(chat.url, num_retries=0)
    answers = [await ask(lm, [("user", "x")]) for _ in range(2)]
    assert [answer.waited for answer in answers] == [0.0, 0.0]
    assert len(chat.requests) == 3


async def test_idle_connections_are_closed_after_a_while(chat, lm_for, monkeypatch):
    monkeypatch.setattr(connection, "_IDLE_SECONDS", 0.05)
    await ask(lm_for(chat.url), [("user", "x")])
    until = time.monotonic() + 20
    while connections._idle and time.monotonic() < until:
        await asyncio.sleep(0.01)
    assert not connections._idle


async def test_a_cancelled_call_leaves_nothing_behind(chat, lm_for):
    chat.plays = [Play(wait=30)]
    task = asyncio.create_task(ask(lm_for(chat.url), [("user", "x")]))
    while not chat.requests:
        await asyncio.sleep(0.01)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert not connections._idle


async def test_tls_with_a_certificate_that_is_trusted(lm_for, monkeypatch, server_context):
    monkeypatch.setenv("SSL_CERT_FILE", str(CERTIFICATE))
    connection._tls_context.cache_clear()
    with ChatServer(server_context) as chat:
        chat.plays = [Play(body=completion("x" * 300_000))]
        for way in ("direct", "dspy"):
            lm = lm_for(chat.url, way)
            answers = [await ask(lm, [("user", "y" * 300_000)]) for _ in range(2)]
            assert [len(answer.text) for answer in answers] == [300_000] * 2
        assert [got.direct for got in chat.requests] == [True, True, False, False]
        assert chat.connections == 2
        connections.close()
    connection._tls_context.cache_clear()


@pytest.mark.parametrize("way", ["direct", "dspy"])
async def test_tls_with_a_certificate_that_is_not_trusted(lm_for, server_context, way):
    connection._tls_context.cache_clear()
    with ChatServer(server_context) as chat, pytest.raises(ModelError, match="certificate") as caught:
        await ask(lm_for(chat.url, way, num_retries=0), [("user", "x")])
    assert caught.value.kind == "transport"
    assert not chat.requests


@pytest.fixture
def server_context():
    import ssl

    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(CERTIFICATE)
    return context


async def test_an_address_that_refuses_is_passed_over(chat, lm_for, monkeypatch):
    """A name with two addresses, as `localhost` often has."""
    look_up = socket.getaddrinfo

    def two(host, port, *args, **options):
        if host != "two.example":
            return look_up(host, port, *args, **options)
        if options.get("flags"):
            raise socket.gaierror
        refused = (socket.AF_INET, socket.SOCK_STREAM, 6, "", ("127.0.0.2", 9))
        return [refused, *look_up("127.0.0.1", port, *args, **options)]

    monkeypatch.setattr(socket, "getaddrinfo", two)
    answer = await ask(lm_for(f"http://two.example:{chat.port}/v1", num_retries=0), [("user", "x")])
    assert answer.text == "ok"
    assert chat.requests[0].headers["host"] == f"two.example:{chat.port}"


def test_threads_with_loops_of_their_own(chat, lm_for):
    """Each loop keeps its connections while it lives: none is taken, or closed, from another thread."""
    lm, failures = lm_for(chat.url, num_retries=0), []
    start = threading.Barrier(4)

    async def many():
        for _ in range(10):
            answers = await asyncio.gather(*(ask(lm, [("user", str(n))]) for n in range(5)))
            assert [answer.text for answer in answers] == ["ok"] * 5

    def work():
        start.wait(30)
        try:
            for _ in range(3):
                asyncio.run(many())
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failures == []
    assert len(chat.requests) == 4 * 3 * 10 * 5
    assert chat.connections <= 4 * 3 * 5


def test_a_connection_of_a_living_loop_is_closed_there(chat, lm_for):
    async def asked():
        await ask(lm_for(chat.url), [("user", "x")])
        await asyncio.to_thread(connections.close)  # from another thread
        await asyncio.sleep(0)
        await ask(lm_for(chat.url), [("user", "x")])

    asyncio.run(asked())
    assert chat.connections == 2


def test_true_and_one_are_different_settings() -> None:
    from rlm.models.requests import config_for

    assert config_for({"think": 1}).extensions["think"] is not True
    assert config_for({"think": True}).extensions["think"] is True
