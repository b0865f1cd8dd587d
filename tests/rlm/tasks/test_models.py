"""The models of a task that are commands."""

from __future__ import annotations

from pathlib import Path

import pytest

from rlm.tasks import Overrides, TaskError, load

TASK = """\
signature: "question -> answer"
inputs: {question: 'Why?'}
"""


def written(folder: Path, models: str) -> Path:
    path = folder / "task.yaml"
    path.write_text(f"{TASK}models: {models}\n")
    return path


def test_a_known_program_is_named_like_a_model(tmp_path: Path) -> None:
    main = load(written(tmp_path, "{main: cli/llm/gpt-5, sub: {model: cli/claude, timeout: 1m, env: [MY_KEY]}}")).models
    assert main.main.command is not None
    assert (main.main.command.program, main.main.command.model) == ("llm", "gpt-5")
    assert main.sub.command is not None
    assert main.sub.command.env[-1] == "MY_KEY"
    assert main.sub.options == {"timeout": 60.0}
    given = load(written(tmp_path, "openai/gpt-5-mini"), Overrides(models={"main": "cli/claude"})).models
    assert given.main.command is not None


def test_any_other_program_is_a_command(tmp_path: Path) -> None:
    task = load(written(tmp_path, '{main: {command: [./ask, "--prompt={prompt}"], reply: text.0}}'))
    spec = task.models.main
    assert spec.command is not None
    assert (spec.model, spec.command.argv, spec.command.reply) == (
        "command/ask",
        ("./ask", "--prompt={prompt}"),
        "text.0",
    )


@pytest.mark.parametrize(
    ("models", "problem"),
    [
        ("cli/chatgpt", "there are cli/claude, cli/codex, cli/gemini, cli/llm"),
        ("{main: {model: cli/claude, temperature: 1}}", "models.main.temperature has no effect on cli/claude"),
        ("{main: {model: cli/claude, command: [ask]}}", "give either model"),
        ("{main: {command: []}}", "models.main.command"),
        ("{main: {model: openai/gpt-5, reply: a.b}}", "`reply` is for `command`"),
        ("{main: {command: [ask], env: [KEY=sk-123]}}", "values never belong in the file"),
    ],
)
def test_what_is_wrong_is_named(tmp_path: Path, models: str, problem: str) -> None:
    with pytest.raises(TaskError) as raised:
        load(written(tmp_path, models))
    assert problem in str(raised.value)
