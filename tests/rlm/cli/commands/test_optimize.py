"""`rlm optimize`, with a model whose skill depends on its instructions."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import rlm.cli
import rlm.runner
from rlm.repl.learned import read_learned
from tests.support.skilled_model import skilled_lm

TASK = 'signature: "doc: str -> n: int"\nmodels: openai/skilled\nbudget: {max_iterations: 1}\n'
PROPOSED = json.dumps({"new_instruction": "Count the words of doc{leak}."})


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("RLM_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("RLM_TRACE", "off")
    monkeypatch.chdir(tmp_path)
    (tmp_path / "task.yaml").write_text(TASK)
    rows = [{"doc": " ".join(["word"] * (100 + n)), "expected": {"n": 100 + n}} for n in range(12)]
    (tmp_path / "rows.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    return tmp_path


def run(monkeypatch: pytest.MonkeyPatch, *arguments: str, leak: str = "") -> Any:
    def skill(prompt: str) -> str:
        if "new_instruction" in prompt:
            return PROPOSED.replace("{leak}", leak)
        return f"```python\nSUBMIT(n=len(doc{'.split()' if 'the words' in prompt else ''}))\n```"

    lm = skilled_lm(skill)
    monkeypatch.setattr(rlm.runner, "make_model", lambda spec, role, had=0: lm)
    with pytest.raises(SystemExit) as ended:
        rlm.cli.main(["optimize", "task.yaml", "--data", "rows.jsonl", "--runs", "12", "--threads", "1", *arguments])
    return ended.value.code


def test_the_result_is_a_file_for_the_task(folder: Path, monkeypatch: pytest.MonkeyPatch, capfd: Any) -> None:
    assert run(monkeypatch) == 0
    out, err = capfd.readouterr()
    assert "learned: task.learned.json" in out
    assert "test, after: 1.000 on 4 rows" in err
    assert read_learned(folder / "task.learned.json").instructions == "Count the words of doc."
    about = json.loads((folder / "task.learned.json").read_text())["about"]
    assert (about["optimizer"], about["test"]["before"], about["test"]["after"]) == ("gepa", 0.0, 1.0)


def test_instructions_that_quote_an_answer_are_not_written(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capfd: Any
) -> None:
    every = ", ".join(str(100 + n) for n in range(12))
    assert run(monkeypatch, leak=f" (they were {every})") == 1
    assert "quote answers of training rows: '10" in capfd.readouterr().out
    assert not (folder / "task.learned.json").exists()
    assert run(monkeypatch, "--allow-leaks", "--json", leak=f" (they were {every})") == 0
    assert json.loads(capfd.readouterr().out)["file"] == "task.learned.json"


def test_bad_rows_are_an_error_of_usage(folder: Path, monkeypatch: pytest.MonkeyPatch, capfd: Any) -> None:
    (folder / "rows.jsonl").write_text('{"doc": "a"}\n')
    assert run(monkeypatch) == 2
    assert "has no right output" in capfd.readouterr().err
