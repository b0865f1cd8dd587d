"""Sessions and runs over the server's own API."""

from __future__ import annotations

import json

import pytest

from rlm.serve.tasks import ServedTask
from rlm.task_session import task_of_inputs
from tests.support.chat_server import ChatServer, Play, completion
from tests.support.task_server import COUNT, asked, ended, opened, serving, write_task

MORE = "SUBMIT(answer=n + len(log))"


def test_a_second_question_has_the_variables_of_the_first(tmp_path):
    with serving(write_task(tmp_path, COUNT, MORE)) as place, place.client() as client:
        session = opened(client, log="x" * 1000)
        assert asked(client, session)["result"]["outputs"] == {"answer": 1000}
        assert asked(client, session, "And twice?")["result"]["outputs"] == {"answer": 2000}
        shown = client.get(f"/v1/sessions/{session}").json()
    assert [one["asked"] for one in shown["questions"]] == [{"question": "How many?"}, {"question": "And twice?"}]
    assert [one["name"] for one in shown["variables"]] == ["n"]
    assert (shown["title"], shown["bytes"]) == ("How many?", 1019)


def test_a_run_is_followed_and_its_trace_is_fetched(tmp_path):
    with serving(write_task(tmp_path, COUNT)) as place, place.client() as client:
        body = {"model": "count", "inputs": {"log": "abc", "question": "?"}}
        run = client.post("/v1/runs", json=body).json()
        with client.stream("GET", f"/v1/runs/{run['id']}/events") as events:
            lines = list(events.iter_lines())
        kinds = [line.removeprefix("event: ") for line in lines if line.startswith("event: ")]
        assert kinds[0] == "run_started"
        assert "cell_started" in kinds
        assert kinds[-2:] == ["run_ended", "result"]
        last = json.loads([line for line in lines if line.startswith("data: ")][-1].removeprefix("data: "))
        assert last["result"]["outputs"] == {"answer": 3}
        numbers = [int(line.removeprefix("id: ")) for line in lines if line.startswith("id: ")]
        assert numbers == list(range(1, len(numbers) + 1))
        again = client.get(f"/v1/runs/{run['id']}/events", headers={"last-event-id": str(numbers[-2])}).text
        assert again.startswith(f"id: {numbers[-1]}\nevent: result\n")
        trace = client.get(f"/v1/runs/{run['id']}/trace").text.splitlines()
        assert next(json.loads(line)["kind"] for line in trace) == "run_started"
        assert client.get("/v1/runs").json()["data"][0]["id"] == run["id"]


def test_a_run_is_cancelled_and_a_session_goes_on(tmp_path):
    slow = "import time\nn = 5\nprint(n)\ntime.sleep(600)"
    with serving(write_task(tmp_path, "n = 5", slow, MORE)) as place, place.client() as client:
        session = opened(client)
        run = client.post(f"/v1/sessions/{session}/questions", json={"question": "?"}).json()["id"]
        with client.stream("GET", f"/v1/runs/{run}/events") as events:
            for line in events.iter_lines():
                if '"iteration": 2, "code"' in line:
                    assert client.post(f"/v1/runs/{run}/cancel").json()["status"] == "interrupted"
        assert client.get(f"/v1/sessions/{session}").json()["questions"][0]["status"] == "interrupted"
        assert asked(client, session)["result"]["outputs"] == {"answer": 15}


def test_a_busy_session_says_so(tmp_path):
    slow = "import time\ntime.sleep(600)"
    with serving(write_task(tmp_path, slow)) as place, place.client() as client:
        session = opened(client)
        run = client.post(f"/v1/sessions/{session}/questions", json={"question": "?"}).json()["id"]
        for method, path, body in (
            ("POST", "questions", {"question": "?"}),
            ("PUT", "inputs", {"inputs": {"a": 1}}),
            ("POST", "branch", None),
            ("POST", "undo", None),
        ):
            answer = client.request(method, f"/v1/sessions/{session}/{path}", json=body)
            assert (answer.status_code, answer.json()["error"]["code"]) == (409, "session_busy")
        assert client.delete(f"/v1/sessions/{session}").status_code == 409
        client.post(f"/v1/runs/{run}/cancel")


def test_inputs_branches_and_undo(tmp_path):
    cells = (COUNT, "SUBMIT(answer=len(more['a']) + len(log) + n)", "SUBMIT(answer=n)")
    with serving(write_task(tmp_path, *cells)) as place, place.client() as client:
        session = opened(client)
        asked(client, session)
        given = {"inputs": {"more": {"a": [1, 2]}, "log": "yy"}}
        assert client.put(f"/v1/sessions/{session}/inputs", json=given).status_code == 200
        branch = client.post(f"/v1/sessions/{session}/branch").json()["id"]
        assert asked(client, session)["result"]["outputs"] == {"answer": 14}
        assert asked(client, branch)["result"]["outputs"] == {"answer": 14}
        assert client.post(f"/v1/sessions/{session}/undo").status_code == 200
        assert len(client.get(f"/v1/sessions/{session}").json()["questions"]) == 1
        assert len(client.get(f"/v1/sessions/{branch}").json()["questions"]) == 2
        assert client.delete(f"/v1/sessions/{session}").json()["deleted"] is True
        assert client.get(f"/v1/sessions/{session}").status_code == 404
        assert [one["id"] for one in client.get("/v1/sessions").json()["data"]] == [branch]


def test_sessions_that_wait_for_a_place_are_closed_and_opened_again(tmp_path):
    with serving(write_task(tmp_path, COUNT, MORE), open_sessions=2) as place, place.client() as client:
        sessions = [opened(client, log="x" * number) for number in range(1, 6)]
        for number, session in enumerate(sessions, 1):
            assert asked(client, session)["result"]["outputs"] == {"answer": number}
        assert len(place.server.context.sessions.open_ids) == 2
        for number, session in enumerate(sessions, 1):
            assert asked(client, session)["result"]["outputs"] == {"answer": 2 * number}


def test_a_task_decides_what_is_done(tmp_path):
    with serving(write_task(tmp_path, COUNT)) as place, place.client() as client:
        for body, param in (
            ({"model": "count", "inputs": {"log": 5}}, "inputs"),
            ({"model": "count"}, "inputs"),
            ({"model": "count", "inputs": {"log": "x", "SUBMIT": "x"}}, "inputs"),
            ({"model": "count", "inputs": {"log": "x", "a b": "x"}}, "inputs"),
            ({"model": "count", "inputs": {"log": "x"}, "signature": "a -> b"}, "signature"),
            ({"model": "count", "inputs": {"log": "x"}, "budget": {"max_iterations": 1}}, "budget"),
        ):
            answer = client.post("/v1/sessions", json=body)
            assert (answer.status_code, answer.json()["error"]["param"]) == (400, param), answer.text
        assert client.post("/v1/sessions", json={"model": "other"}).json()["error"]["code"] == "model_not_found"
        assert client.get("/v1/sessions").json()["data"] == []
        # What looks like the reference to a file in a task file is a text here.
        given = {"model": "count", "inputs": {"log": "@/etc/passwd", "question": "?"}}
        run = ended(client, client.post("/v1/runs", json=given).json()["id"])
        assert run["result"]["outputs"] == {"answer": len("@/etc/passwd")}


def test_a_model_without_a_task_file_has_the_inputs_that_are_sent(tmp_path):
    code = "print(a)\nSUBMIT(answer=str(len(a) + b[0] + len(c)))"
    with ChatServer() as chat:
        chat.plays = [Play(body=completion(f"```python\n{code}\n```"))]
        task = task_of_inputs({}, {"main": "openai/local", "api_base": chat.url}, {})
        with serving(free=ServedTask("rlm", task, free=True)) as place, place.client() as client:
            inputs = {"a": "xyz", "b": [4], "c": {"$bytes": "AAECAw=="}}
            session = client.post("/v1/sessions", json={"model": "rlm", "inputs": inputs}).json()["id"]
            assert asked(client, session)["result"]["outputs"] == {"answer": "11"}
            given = {"model": "rlm", "inputs": {**inputs, "question": "How many?"}}
            run = ended(client, client.post("/v1/runs", json=given).json()["id"])
            assert run["result"]["outputs"] == {"answer": "11"}


@pytest.mark.parametrize("text", ["é" * 10, "\U0001f600" * 3, "nul \0 here", "</script>"])
def test_texts_of_all_kinds_arrive_as_they_are(tmp_path, text):
    with serving(write_task(tmp_path, "SUBMIT(answer=len(log.encode()))")) as place, place.client() as client:
        session = opened(client, log=text)
        assert asked(client, session)["result"]["outputs"] == {"answer": len(text.encode())}
