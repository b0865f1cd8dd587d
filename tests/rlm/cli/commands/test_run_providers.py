"""`rlm run` with a provider that refuses, is silent or answers nonsense: what is said, and how long it takes."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest

import rlm.cli
from rlm.models.direct.connection import connections
from tests.support.chat_server import ChatServer, Play, completion, error

LOOK = Play(body=completion("Look.\n```python\nn = 1\n```"))


@pytest.fixture
def server(tmp_path, monkeypatch):
    monkeypatch.setenv("RLM_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("LITELLM_LOCAL_MODEL_COST_MAP", "true")
    monkeypatch.chdir(tmp_path)
    with ChatServer() as server:
        yield server
    connections.close()


def run(server: ChatServer, tmp_path, capfd, **budget: Any) -> tuple[str, str]:
    """Run a task; return standard output and standard error, each in one line."""
    entry = {"model": "openai/of-our-own", "api_base": server.url}
    task = {"signature": "doc: str -> n: int", "inputs": {"doc": "x"}, "models": {"main": entry}, "budget": budget}
    (tmp_path / "task.yaml").write_text(json.dumps(task))
    with pytest.raises(SystemExit):
        rlm.cli.main(["run", "task.yaml"])
    out, err = capfd.readouterr()
    return " ".join(out.split()), " ".join(err.split())


def test_no_provider_is_waited_for_longer_than_the_run_may_take(server, tmp_path, capfd):
    server.plays = [LOOK, Play(429, error("slow down"), {"Retry-After": "30"})]
    out, err = run(server, tmp_path, capfd, max_duration=20)
    assert "too many requests (slow down). The next attempt would be in 3" in out
    assert "after the time of the run (max_duration). Raise it, or go on later." in out
    assert "To continue when the model can be reached: rlm resume" in err
    assert len(server.requests) == 2


def test_a_model_that_never_answers_is_named(server, tmp_path, capfd):
    server.plays = [Play(wait=60)]
    out, _ = run(server, tmp_path, capfd, max_duration=1.5)
    assert "the extraction had no answer in the 0.3 seconds that max_duration left" in out
    assert "openai/of-our-own had not answered its last call for 1 s, either: raise it, or see what the provider" in out


def test_what_was_written_in_place_of_code_is_shown(server, tmp_path, capfd):
    server.plays = [Play(body=completion("")), Play(body=completion("I cannot help with that."))]
    out, err = run(server, tmp_path, capfd, max_iterations=2)
    assert "iteration 1 failed (no code) the reply was empty" in err
    assert "iteration 2 failed (no code) the model wrote: I cannot help with that." in err
    assert "output of the last one: the model wrote: I cannot help with that." in out
    assert re.search("To continue with a larger budget: rlm resume [0-9a-f]{12} --max-iterations 4", err)


def test_a_key_is_asked_for_where_none_was_sent(server, tmp_path, capfd, monkeypatch):
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    server.plays = [Play(401, error("no key"))]
    out, _ = run(server, tmp_path, capfd)
    assert "Set OPENAI_API_KEY, or say which key: `api_key_env:` in a task file" in out
