"""`rlm init --model`: a task that the model can do; and what is said of a model that is too small to write code."""

from __future__ import annotations

from typing import Any

import pytest
import yaml

from rlm.models.local.embedded import embedded_gguf
from rlm.models.local.gguf import WeightsError
from tests.support.tiny_gguf import write_tiny


def has_embedded() -> bool:
    try:
        return embedded_gguf().exists()
    except WeightsError:
        return False


def test_the_model_is_written_into_the_task(command: Any, tmp_path: Any) -> None:
    assert command("init", "--model", "anthropic/claude-sonnet-4-5")[0] == 0
    assert yaml.safe_load((tmp_path / "task.yaml").read_text())["models"]["main"] == "anthropic/claude-sonnet-4-5"


@pytest.mark.parametrize("name", ["odd: name", "a # b", "openai/x y"])
def test_any_name_is_one_value_of_the_file(command: Any, tmp_path: Any, name: str) -> None:
    command("init", "--model", name)
    assert yaml.safe_load((tmp_path / "task.yaml").read_text())["models"]["main"] == name


def test_a_model_too_small_for_code_gets_a_task_without_iterations(command: Any, tmp_path: Any) -> None:
    assert command("init", "--model", "local/embedded")[0] == 0
    task = yaml.safe_load((tmp_path / "task.yaml").read_text())
    assert (task["models"]["main"], task["budget"]["max_iterations"]) == ("local/embedded", 0)
    code, out, err = command("check", "task.yaml")
    assert (code, err) == (0, "")
    assert "note: str -> chairs: int, euros: float" in out


def test_without_a_key_the_way_that_needs_none_is_named(command: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("OPENAI_API_KEY", "ANTHROPIC_API_KEY"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr("rlm.cli.preflight.keys_set", list)
    assert "`--model local/embedded` needs none" in command("init")[2]
    monkeypatch.setattr("rlm.cli.preflight.keys_set", lambda: ["OPENAI_API_KEY"])
    assert command("init", "other.yaml")[2] == ""


def test_check_and_run_say_beforehand_that_a_model_is_too_small(command: Any, tmp_path: Any) -> None:
    weights = tmp_path / "tiny.gguf"
    write_tiny(weights)
    (tmp_path / "task.yaml").write_text('signature: "doc -> n: int"\ninputs: {doc: x}\nmodels: ./tiny.gguf\n')
    _, _, err = command("check", "task.yaml")
    assert "too few to write code" in err
    assert "max_iterations: 0" in err
    (tmp_path / "task.yaml").write_text(
        'signature: "doc -> n: int"\ninputs: {doc: x}\nmodels: ./tiny.gguf\nbudget: {max_iterations: 0}\n'
    )
    assert "too few" not in command("check", "task.yaml")[2]


@pytest.mark.weights
@pytest.mark.skipif(not has_embedded(), reason="the embedded model is not installed")
def test_the_embedded_model_does_its_task(command: Any) -> None:
    command("init", "--model", "local/embedded")
    code, out, err = command("run", "task.yaml", "--json")
    assert code == 0, err
    result = yaml.safe_load(out)
    assert result["outputs"] == {"chairs": 3, "euros": 49.0}
    assert result["usage"]["seconds"] < 60
    assert "To continue with a larger budget" not in err
