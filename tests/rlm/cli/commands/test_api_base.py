"""`--api-base`: the endpoint of the main model, in place of that of the task file."""

from __future__ import annotations

import json

import pytest

from rlm.models.direct.connection import connections
from rlm.tasks import Overrides, load
from tests.support.chat_server import ChatServer, Play, completion


@pytest.fixture
def task(tmp_path, monkeypatch):
    monkeypatch.setenv("RLM_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("LITELLM_LOCAL_MODEL_COST_MAP", "true")
    path = tmp_path / "task.yaml"
    path.write_text(json.dumps({"signature": "doc -> n: int", "inputs": {"doc": "x"}, "models": "openai/small"}))
    return path


def test_a_run_asks_the_model_at_this_endpoint_and_needs_no_key(task, command, monkeypatch):
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    with ChatServer() as server:
        server.plays = [Play(body=completion("```python\nSUBMIT(n=3)\n```"))]
        code, out, err = command("run", "task.yaml", "--api-base", server.url, "--json")
        connections.close()
    assert code == 0, err
    assert json.loads(out)["outputs"] == {"n": 3}
    assert [request.body["model"] for request in server.requests] == ["small"]


def test_it_goes_with_a_model_of_the_command_line(task):
    models = {"main": "openai/other", "api_base": "http://localhost:1/v1"}
    main = load(task, Overrides(models=models)).models.main
    assert (main.model, main.options) == ("openai/other", {"api_base": "http://localhost:1/v1"})


def test_settings_of_the_file_stay(task):
    entry = {"model": "openai/small", "api_base": "http://old/v1", "temperature": 0.5}
    task.write_text(json.dumps({"signature": "doc -> n: int", "inputs": {"doc": "x"}, "models": {"main": entry}}))
    main = load(task, Overrides(models={"api_base": "http://new/v1"})).models.main
    assert main.options == {"api_base": "http://new/v1", "temperature": 0.5}


@pytest.mark.parametrize("url", ["localhost:8000", "http://user:secret@host/v1", "http://host/v1?key=abc"])
def test_what_is_no_endpoint_is_refused(task, command, url):
    code, _, err = command("check", "task.yaml", "--api-base", url)
    assert code == 2
    assert "--api-base" in err
    assert "secret" not in err.replace(url, "")
