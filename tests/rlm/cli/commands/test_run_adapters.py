"""`adapter:` in a task file: typed questions go through it, and `rlm runs show` says which tier answered them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

CELL = "n = llm_query('how many?', type=int)\nSUBMIT(n=n)"


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, command: Any) -> Any:
    """Runs a task with these answers of its models: what it printed as JSON, and what `rlm runs show` says of it."""
    monkeypatch.setenv("RLM_HOME", str(tmp_path / "home"))

    def answer(*arguments: str) -> str:
        code, out, err = command(*arguments)
        assert code == 0, err
        return str(out)

    def run(adapter: str, sub: list[str], extraction: list[str] | None = None) -> tuple[dict[str, Any], str]:
        replies = {"main": [f"```python\n{CELL}\n```"], "sub": sub, "extraction": extraction or []}
        (tmp_path / "replies.yaml").write_text(json.dumps(replies))
        (tmp_path / "task.yaml").write_text(
            f'signature: "q: str -> n: int"\ninputs: {{q: x}}\nmodels: {{scripted: replies.yaml}}\n{adapter}\n'
        )
        result = json.loads(answer("run", "task.yaml", "--json"))
        return result, answer("runs", "show", result["run_id"])

    return run


def test_the_tiers_of_a_run_are_on_record(run: Any) -> None:
    result, shown = run("adapter: outlines", ["no idea", "41"])
    assert result["outputs"] == {"n": 41}
    assert "Typed answers" in shown
    assert "llm_query: " in shown
    assert "1 of 1 answered (tier 1 0%, tier 2 0%, tier 3 100%)" in shown
    assert "the next step: 1 of 1 answered (tier 1 100%" in shown


def test_two_steps_are_the_words_and_the_values(run: Any) -> None:
    result, shown = run("adapter: two-step", ["I would say that there are forty-one."], ['{"answer": 41}'])
    assert result["outputs"] == {"n": 41}
    assert "1 of 1 answered" in shown


def test_chat_markers_are_what_dspy_asks_for(run: Any) -> None:
    result, _ = run("adapter: chat", ["[[ ## answer ## ]]\n41\n\n[[ ## completed ## ]]"])
    assert result["outputs"] == {"n": 41}


def test_without_the_setting_only_typed_questions_are_counted(run: Any) -> None:
    shown = run("", ["41"])[1]
    assert "llm_query: " in shown
    assert "the next step" not in shown
