"""Prices in the task file, the limit on the cost, and dspy's cache, which nobody asked for."""

from __future__ import annotations

import json
import os
from typing import Any

import pytest

import rlm.cli
from rlm import dspy_bridge
from rlm.models.direct.connection import connections
from rlm.tasks import TaskError, load
from tests.support.chat_server import ChatServer, Play, completion

SUBMIT = "Done.\n```python\nSUBMIT(n=len(doc))\n```"
USAGE = {"prompt_tokens": 1_000_000, "completion_tokens": 100_000, "total_tokens": 1_100_000}


@pytest.fixture
def server(tmp_path, monkeypatch):
    monkeypatch.setenv("RLM_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("DSPY_CACHEDIR", str(tmp_path / "dspy"))
    monkeypatch.setenv("LITELLM_LOCAL_MODEL_COST_MAP", "true")
    monkeypatch.chdir(tmp_path)
    with ChatServer() as server:
        yield server
    connections.close()


def write(server: ChatServer, tmp_path, **more: Any) -> None:
    entry = {"model": "openai/of-our-own", "api_base": server.url} | more.pop("model", {})
    task = {"signature": "doc: str -> n: int", "inputs": {"doc": "x"}, "models": {"main": entry}}
    (tmp_path / "task.yaml").write_text(json.dumps(task | more))


def run(capfd, *arguments: str) -> tuple[Any, str]:
    with pytest.raises(SystemExit):
        rlm.cli.main(["run", "task.yaml", "--json", *arguments])
    out, err = capfd.readouterr()
    return json.loads(out), err


def test_a_price_of_the_task_file_counts(server, tmp_path, capfd):
    server.plays = [Play(body=completion(SUBMIT, usage=USAGE))]
    write(server, tmp_path, model={"price": {"input": 0.5, "output": 2}})
    result, _ = run(capfd)
    assert result["usage"]["cost_usd"] == pytest.approx(0.5 + 0.2)
    assert result["usage"]["unpriced_calls"] == 0


def test_the_limit_on_the_cost_counts_it(server, tmp_path, capfd):
    look = Play(body=completion("Look.\n```python\nn = 1\n```", usage=USAGE))
    server.plays = [look, look, Play(body=completion('{"n": 1}', usage=USAGE))]
    write(server, tmp_path, model={"price": {"input": 0.5, "output": 2}}, budget={"max_cost_usd": 2.0})
    result, error = run(capfd)
    assert result["status"] == "extracted"
    assert result["reason"]["kind"] == "max_cost"
    assert result["usage"]["cost_usd"] <= 2.1
    assert "no price is known" not in error


def test_questions_through_an_adapter_have_the_price_too(server, tmp_path, capfd):
    ask = "Ask.\n```python\nSUBMIT(n=llm_query('how many?', type='int'))\n```"
    server.plays = [Play(body=completion(ask, usage=USAGE)), Play(body=completion('{"value": 3}', usage=USAGE))]
    write(server, tmp_path, model={"price": {"input": 0.5, "output": 2}}, adapter="json")
    result, _ = run(capfd)
    assert result["usage"]["unpriced_calls"] == 0, result
    assert result["usage"]["cost_usd"] == pytest.approx(0.7 * result["usage"]["model_calls"])


def test_a_limit_on_the_cost_that_counts_nothing_is_said_once(server, tmp_path, capfd):
    look = Play(body=completion("Look.\n```python\nx = 1\n```"))
    server.plays = [look, look, Play(body=completion(SUBMIT))]
    write(server, tmp_path, budget={"max_cost_usd": 0.01})
    result, error = run(capfd)
    assert result["status"] == "submitted"
    assert error.count("max_cost_usd: no price is known for 1 call of this run") == 1
    assert "price: {input: 0.25, output: 2}" in error


def test_without_a_limit_nothing_is_said(server, tmp_path, capfd):
    server.plays = [Play(body=completion(SUBMIT))]
    write(server, tmp_path)
    assert "price" not in run(capfd)[1]


def test_check_warns_of_a_limit_that_probably_counts_nothing(server, tmp_path, capfd):
    write(server, tmp_path, budget={"max_cost_usd": 0.01})
    with pytest.raises(SystemExit) as ended:
        rlm.cli.main(["check", "task.yaml"])
    assert ended.value.code == 0
    assert "its price is probably not known, so max_cost_usd does not count it; give `price:" in capfd.readouterr().err


def test_a_run_that_is_repeated_asks_again(server, tmp_path, capfd):
    server.plays = [Play(body=completion(SUBMIT))]
    write(server, tmp_path)
    run(capfd)
    result, _ = run(capfd)
    assert len(server.requests) == 2
    assert result["usage"]["cached_calls"] == 0


def test_the_cache_of_dspy_is_used_where_the_task_says_so(server, tmp_path, capfd):
    server.plays = [Play(body=completion(SUBMIT))]
    write(server, tmp_path, model={"cache": True})
    run(capfd)
    result, _ = run(capfd)
    assert len(server.requests) == 1
    assert result["usage"]["cached_calls"] == 1


def test_a_price_that_is_none_is_refused_with_its_place(server, tmp_path):
    write(server, tmp_path, model={"price": {"input": -1, "outputs": 2}})
    with pytest.raises(TaskError) as caught:
        load(tmp_path / "task.yaml")
    text = str(caught.value)
    assert "models.main.price.input must be greater than or equal to 0" in text
    assert "models.main.price.outputs is not known; did you mean output?" in text
    assert "models.main.price.output is missing" in text


@pytest.fixture
def fetched(monkeypatch) -> list[str]:
    """What is fetched by a process that has not read any price list yet."""
    from dspy.clients import model_metadata

    urls: list[str] = []

    def fetch(request, **options):
        urls.append(request.full_url)
        raise OSError("no network in tests")

    monkeypatch.setattr(model_metadata, "_data", None)
    monkeypatch.setattr(dspy_bridge, "_priced", {})
    monkeypatch.setattr("urllib.request.urlopen", fetch)
    monkeypatch.delenv("LITELLM_LOCAL_MODEL_COST_MAP")
    return urls


MORE_THAN_TEXT = Play(body=json.dumps({"id": "1", "object": "chat.completion", "created": 1, "choices": []}).encode())


@pytest.mark.parametrize("before", [[], [MORE_THAN_TEXT]], ids=["plain", "read by dspy"])
@pytest.mark.parametrize("price", [{}, {"price": {"input": 0.5, "output": 2}}], ids=["unpriced", "priced"])
def test_no_price_list_is_fetched_that_nobody_asked_for(server, tmp_path, capfd, fetched, price, before):
    server.plays = [*before, Play(body=completion(SUBMIT, usage=USAGE))]
    write(server, tmp_path, model=price)
    result, error = run(capfd)
    assert result["status"] == "submitted"
    assert fetched == []
    assert "prices could not be fetched" not in error
    assert "LITELLM_LOCAL_MODEL_COST_MAP" not in os.environ


def test_the_newest_price_list_is_fetched_when_asked_for(server, tmp_path, capfd, fetched, monkeypatch):
    monkeypatch.setenv("LITELLM_LOCAL_MODEL_COST_MAP", "false")
    server.plays = [Play(body=completion(SUBMIT, usage=USAGE))]
    write(server, tmp_path)
    result, error = run(capfd)
    assert result["status"] == "submitted"
    assert len(fetched) == 1
    assert "prices could not be fetched" in error
