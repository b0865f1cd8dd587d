"""`rlm run --cache`: a run that is done again asks nobody, and says so; and the limits that a task file names."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import rlm.cli
from rlm.cli import exit_codes
from rlm.models.direct.connection import connections
from rlm.models.profile import profile_of
from rlm.models.rate_limit.bucket import Limit
from tests.support.chat_server import ChatServer, Play, completion, error

LOOK = "Look.\n```python\nprint(llm_query('a colour?'), llm_query('a colour?'))\n```"
SUBMIT = "Done.\n```python\nSUBMIT(n=3)\n```"


class Model(ChatServer):
    """Writes code when it reads a task, and a new colour each time it is asked for one."""

    def __init__(self) -> None:
        super().__init__()
        self.colours = 0

    def next_play(self) -> Play:
        turns = [one for one in self.requests[-1].body["messages"] if one["role"] in ("user", "assistant")]
        if turns[-1]["content"] == "a colour?":
            self.colours += 1
            return Play(body=completion(f"colour {self.colours}"))
        return Play(body=completion(LOOK if len(turns) == 1 else SUBMIT))


@pytest.fixture
def model(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.setenv("RLM_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("LITELLM_LOCAL_MODEL_COST_MAP", "true")
    monkeypatch.setenv("SOME_KEY", "sk-very-secret-key")
    monkeypatch.chdir(tmp_path)
    with Model() as server:
        entry = {"model": "openai/local", "api_base": server.url, "api_key_env": "SOME_KEY"}
        entry |= {"requests_per_minute": 6000, "tokens_per_minute": 1e7}
        task = {"signature": "doc: str -> n: int", "inputs": {"doc": "x"}, "models": {"main": entry}}
        (tmp_path / "task.yaml").write_text(json.dumps(task))
        yield server
    connections.close()


def run(capfd: Any, *arguments: str) -> Any:
    with pytest.raises(SystemExit) as ended:
        rlm.cli.main(["run", "task.yaml", "--json", *arguments])
    out, err = capfd.readouterr()
    assert ended.value.code == 0, err
    return json.loads(out)


def test_a_run_twice_costs_once(model: Any, capfd: Any, tmp_path: Path) -> None:
    first = run(capfd, "--cache", "read-write")
    assert first["outputs"] == {"n": 3}
    assert first["usage"]["cached_calls"] == 0
    assert first["usage"]["tokens_in"] > 0
    asked = len(model.requests)
    assert asked == 4
    again = run(capfd, "--cache", "read")
    assert again["outputs"] == {"n": 3}
    assert len(model.requests) == asked
    used = again["usage"]
    assert (used["cached_calls"], used["model_calls"], used["llm_calls"]) == (4, 4, 2)
    assert (used["tokens_in"], used["tokens_out"], used["cost_usd"]) == (0, 0, 0.0)

    from rlm.traces import find

    printed = [find(one["run_id"]).iterations[0].output for one in (first, again)]
    assert printed == ["colour 1 colour 2"] * 2  # samples stay samples, in their order
    assert [call.cached for call in find(again["run_id"]).model_calls] == [True] * 4
    assert not any(call.cached for call in find(first["run_id"]).model_calls)
    assert (tmp_path / "home" / "pace").is_dir()

    assert run(capfd, "--cache", "off")["usage"]["cached_calls"] == 0
    assert len(model.requests) == 2 * asked


def test_a_task_file_names_the_limits_of_a_model(model: Any, tmp_path: Path) -> None:
    from rlm.runner import make_model
    from rlm.tasks import load

    spec = load(tmp_path / "task.yaml").models.main
    assert spec.limit == Limit(6000, 1e7)
    assert "requests_per_minute" not in spec.options
    assert profile_of(make_model(spec, "main")).rate_limit == Limit(6000, 1e7)


@pytest.mark.parametrize("wrong", [0, -1, "many"])
def test_a_limit_is_a_number_above_nothing(model: Any, tmp_path: Path, capfd: Any, wrong: Any) -> None:
    task = json.loads((tmp_path / "task.yaml").read_text())
    task["models"]["main"]["tokens_per_minute"] = wrong
    (tmp_path / "task.yaml").write_text(json.dumps(task))
    with pytest.raises(SystemExit) as ended:
        rlm.cli.main(["run", "task.yaml"])
    assert ended.value.code == 2
    assert "tokens_per_minute" in capfd.readouterr().err


def test_a_run_that_its_provider_breaks_off_names_the_command_that_continues_it(
    model: Any, capfd: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    plays = [Play(body=completion("```python\nprint(1)\n```")), Play(503, error("down"), {"Retry-After": "3600"})]
    monkeypatch.setattr(model, "next_play", lambda: plays.pop(0) if len(plays) > 1 else plays[0])
    with pytest.raises(SystemExit) as ended:
        rlm.cli.main(["run", "task.yaml", "--json"])
    out, err = capfd.readouterr()
    result = json.loads(out)
    assert ended.value.code == exit_codes.NO_ANSWER
    assert "it asks to wait 3,600 seconds" in result["reason"]
    assert f"rlm resume {result['run_id']}" in err
