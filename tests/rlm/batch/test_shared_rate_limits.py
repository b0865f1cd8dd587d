"""A batch and the server of its model: "too many" fails no item, and a batch that is run twice asks once."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from rlm.batch.executors.base import WorkerConfig
from rlm.batch.executors.processes import ProcessExecutor
from tests.support import batches
from tests.support.chat_server import LimitedChat, Play, completion

pytestmark = pytest.mark.processes


class Model(LimitedChat):
    """Writes the code that submits, as often as it is allowed to."""

    def next_play(self) -> Play:
        play = super().next_play()
        return Play(body=completion("```python\nSUBMIT(twice=2 * n)\n```")) if play.status == 200 else play


def test_processes_share_the_pace_and_the_answers_of_a_model(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SOME_KEY", "sk-very-secret-key")
    monkeypatch.setenv("LITELLM_LOCAL_MODEL_COST_MAP", "true")
    with Model(4, 0.5) as server:
        entry = {"model": "openai/local", "api_base": server.url, "api_key_env": "SOME_KEY", "num_retries": 0}
        task = {"signature": "n: int, word: str -> twice: int", "models": {"main": entry}}
        traffic = {"rate_limit_folder": str(tmp_path / "pace"), "cache_path": str(tmp_path / "answers.sqlite")}
        setting = WorkerConfig(home=str(tmp_path / "home"), traffic={**traffic, "cache_mode": "read-write"})
        executor = ProcessExecutor(setting, workers=2, at_once=5)
        try:
            first = batches.write_folder(tmp_path / "first", 10, task=json.dumps(task))
            batches.drive(first, executor)
            batches.check_complete(first, 10)
            assert server.refused > 0
            asked = len(server.requests)
            again = batches.write_folder(tmp_path / "again", 10, task=json.dumps(task))
            batches.drive(again, executor)
            batches.check_complete(again, 10)
        finally:
            executor.close()
    assert len(server.requests) == asked
    assert [one["usage"]["cached_calls"] for one in batches.lines(first)] == [0] * 10
    assert [one["usage"]["cached_calls"] for one in batches.lines(again)] == [1] * 10
    assert {one["usage"]["cost_usd"] for one in batches.lines(again)} == {0.0}
