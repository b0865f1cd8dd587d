"""Clients of OpenAI's API: their own package, against a real server. A conversation is a session."""

from __future__ import annotations

import base64
import contextlib
from collections.abc import Iterator
from typing import Any

import openai
import pytest

from rlm.serve.conversations import LONG
from tests.support.task_server import COUNT, TaskServer, serving, write_task

MORE = "SUBMIT(answer=n + len(log))"
TEXT = "log: str, question: str -> answer: str"


@contextlib.contextmanager
def client_of(place: TaskServer, name: str = "ann") -> Iterator[openai.OpenAI]:
    with place.client(name):  # makes the token
        pass
    with openai.OpenAI(base_url=f"{place.address}/v1", api_key=place.secrets[name], max_retries=0) as client:
        yield client


def attached(name: str, content: bytes) -> dict[str, Any]:
    data = "data:text/plain;base64," + base64.b64encode(content).decode()
    return {"type": "file", "file": {"filename": name, "file_data": data}}


def own(answer: Any) -> dict[str, Any]:
    """The field `rlm` of an answer."""
    return dict(answer.rlm)


def test_a_chat_that_sends_its_history_goes_on_in_its_session(tmp_path):
    with serving(write_task(tmp_path, COUNT, MORE, MORE)) as place, client_of(place) as client:
        first = {"role": "user", "content": [{"type": "text", "text": "How many?"}, attached("log.txt", b"x" * 77)]}
        one = client.chat.completions.create(model="count", messages=[first])
        assert one.choices[0].message.content == '{"answer": 77}'
        answer = {"role": "assistant", "content": one.choices[0].message.content}
        messages: Any = [first, answer, {"role": "user", "content": "Twice?"}]
        two = client.chat.completions.create(model="count", messages=messages)
        assert two.choices[0].message.content == '{"answer": 154}'
        assert own(two)["session"] == own(one)["session"]
        assert own(two)["trace"] == f"{place.address}/#/run/{own(two)['run']}"
        assert one.usage is not None
        assert one.usage.total_tokens > 0
        with place.client() as plain:
            assert plain.get(f"/api/runs/{own(two)['run']}").json()["run"]["ending"] == "submitted"
        # The same again, as when an answer is regenerated: a branch from there, not a third question.
        again = client.chat.completions.create(model="count", messages=messages)
        assert again.choices[0].message.content == '{"answer": 154}'
        assert own(again)["session"] != own(one)["session"]


def test_a_history_that_is_not_known_is_an_input_and_in_no_prompt(tmp_path):
    cell = "SUBMIT(answer=str(conversation))"
    with serving(write_task(tmp_path, cell, signature="question: str -> answer: str")) as place:
        with client_of(place) as client:
            messages: Any = [
                {"role": "system", "content": "Be brief."},
                {"role": "user", "content": "Who called?"},
                {"role": "assistant", "content": "The harbour master."},
                {"role": "user", "content": "When?"},
            ]
            answer = client.chat.completions.create(model="count", messages=messages)
            earlier = [{"role": "user", "text": "Who called?"}, {"role": "assistant", "text": "The harbour master."}]
            assert answer.choices[0].message.content == str(earlier)
        with place.client() as plain:
            (question,) = plain.get(f"/v1/sessions/{own(answer)['session']}").json()["questions"]
    asked = question["asked"]["question"]
    assert asked.endswith("Instructions of the application: Be brief.\n\nWhen?")
    assert "harbour" not in asked


def test_a_long_message_is_an_input_and_in_no_prompt(tmp_path):
    text = "begin " + "needle " * LONG + " end?"
    cell = "SUBMIT(answer=str(len(message)))"
    with serving(write_task(tmp_path, cell, signature="question: str -> answer: str")) as place:
        with client_of(place) as client:
            answer = client.responses.create(model="count", input=text)
            assert answer.output_text == str(len(text))
        run = own(answer)["run"]
        with place.client() as plain:
            events = plain.get(f"/v1/runs/{run}/trace").text
    assert "needle needle" in events
    assert "needle " * 100 not in events


def test_a_stream_has_progress_and_then_the_answer(tmp_path):
    path = write_task(tmp_path, "print(len(log))", "SUBMIT(answer='word ' * 200)", signature=TEXT)
    with serving(path) as place, client_of(place) as client:
        stream = client.chat.completions.create(
            model="count",
            messages=[{"role": "user", "content": "?"}],
            stream=True,
            stream_options={"include_usage": True},
            extra_body={"rlm": {"inputs": {"log": "abc"}}},
        )
        chunks = list(stream)
    content = [chunk.choices[0].delta.content or "" for chunk in chunks if chunk.choices]
    reasons = [getattr(chunk.choices[0].delta, "reasoning_content", None) or "" for chunk in chunks if chunk.choices]
    assert "".join(content) == "word " * 200
    assert "Running:\nprint(len(log))\n" in "".join(reasons)
    assert "Output:\n3\n" in "".join(reasons)
    assert sum(1 for piece in content if piece) > 1
    assert chunks[-2].choices[0].finish_reason == "stop"
    assert chunks[-1].usage is not None


def test_responses_go_on_from_each_other(tmp_path):
    with serving(write_task(tmp_path, COUNT, MORE, MORE)) as place, client_of(place) as client:
        body: Any = {"rlm": {"inputs": {"log": "x" * 5}}}
        one = client.responses.create(model="count", input="How many?", extra_body=body)
        assert one.output_text == '{"answer": 5}'
        two = client.responses.create(model="count", input="Twice?", previous_response_id=one.id)
        assert two.output_text == '{"answer": 10}'
        assert own(two)["session"] == own(one)["session"]
        # From the first one again: its session has gone on, so this is a branch.
        three = client.responses.create(model="count", input="Twice, again?", previous_response_id=one.id)
        assert three.output_text == '{"answer": 10}'
        assert own(three)["session"] != own(one)["session"]
        assert client.responses.retrieve(two.id).output_text == two.output_text
        client.responses.delete(two.id)
        with pytest.raises(openai.NotFoundError):
            client.responses.retrieve(two.id)


def test_a_conversation_is_a_session(tmp_path):
    with serving(write_task(tmp_path, COUNT, MORE)) as place, client_of(place) as client:
        conversation = client.conversations.create()
        body: Any = {"rlm": {"inputs": {"log": "x" * 5}}}
        one = client.responses.create(model="count", input="?", conversation=conversation.id, extra_body=body)
        with client.responses.stream(model="count", input="Twice?", conversation=conversation.id) as stream:
            kinds = [event.type for event in stream]
            two = stream.get_final_response()
        assert two.output_text == '{"answer": 10}'
        assert own(two)["session"] == own(one)["session"]
    assert kinds[0] == "response.created"
    assert kinds[-1] == "response.completed"
    assert "response.reasoning_summary_text.delta" in kinds
    assert "response.output_text.delta" in kinds


def test_a_response_in_the_background_is_fetched_and_cancelled(tmp_path):
    slow = "import time\ntime.sleep(600)"
    with serving(write_task(tmp_path, slow)) as place, client_of(place) as client:
        body: Any = {"rlm": {"inputs": {"log": "x"}}}
        begun = client.responses.create(model="count", input="?", background=True, extra_body=body)
        assert begun.status == "in_progress"
        assert client.responses.retrieve(begun.id).status == "in_progress"
        assert client.responses.cancel(begun.id).status == "cancelled"


def test_a_run_without_an_answer_is_an_error_that_nobody_repeats(tmp_path):
    path = write_task(tmp_path, "x = 1 / 0", more="budget: {max_iterations: 1}\n")
    with serving(path) as place:
        with client_of(place) as client:
            retrying = client.with_options(max_retries=3)
            body: Any = {"rlm": {"inputs": {"log": "x"}}}
            messages: Any = [{"role": "user", "content": "?"}]
            with pytest.raises(openai.UnprocessableEntityError, match="No answer") as caught:
                retrying.chat.completions.create(model="count", messages=messages, extra_body=body)
            assert caught.value.type == "no_answer"
            assert "/#/run/" in caught.value.response.json()["rlm"]["trace"]
            with pytest.raises(openai.APIError, match="No answer"):
                list(client.chat.completions.create(model="count", messages=messages, stream=True, extra_body=body))
            assert client.responses.create(model="count", input="?", extra_body=body).status == "failed"
        with place.client() as plain:
            assert len(plain.get("/v1/runs").json()["data"]) == 3


MEANINGLESS: list[dict[str, Any]] = [
    {"messages": []},
    {"messages": [{"role": "assistant", "content": "hm"}]},
    {"messages": [{"role": "user", "content": " "}]},
    {"messages": [{"role": "tool", "content": "x"}]},
    {"messages": [{"role": "user", "content": [{"type": "image_url", "image_url": {"url": "http://x"}}]}]},
    {"messages": [{"role": "user", "content": [{"type": "file", "file": {"file_id": "f"}}]}]},
    {"messages": [{"role": "user", "content": [{"type": "file", "file": {"file_data": "!"}}]}]},
    {"messages": [{"role": "user", "content": "?"}], "n": 2},
    {"messages": [{"role": "user", "content": "?"}], "tools": [{"type": "function"}]},
    {"messages": [{"role": "user", "content": "?"}], "response_format": {"type": "json_schema"}},
    {"messages": [{"role": "user", "content": "?"}], "rlm": {"inputs": {"__import__": 1}}},
]


def test_what_has_no_meaning_here_is_refused(task_server):
    with task_server.client() as client:
        for body in MEANINGLESS:
            answer = client.post("/v1/chat/completions", json={"model": "count", **body})
            assert answer.status_code == 400, (body, answer.text)
            assert answer.json()["error"]["message"]
        assert client.get("/v1/sessions").json()["data"] == []


def test_the_models_are_the_tasks(task_server):
    with client_of(task_server) as client:
        (model,) = client.models.list().data
        assert model.id == "count"
        assert dict(client.models.retrieve("count").rlm)["outputs"] == [{"name": "answer", "type": "int"}]
        with pytest.raises(openai.NotFoundError, match="this server has count"):
            client.models.retrieve("gpt-5")
