"""`rlm mcp`: what has to be said before anything is served."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from rlm.cli.commands.mcp import command
from rlm.cli.exit_codes import EnvironmentProblem
from tests.support.mcp_questions import write_folder

pytest.importorskip("mcp")

HTTP = ["--http", "127.0.0.1:8765"]


@pytest.fixture
def task(tmp_path: Path) -> str:
    return str(write_folder(tmp_path))


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ([], "Say which model answers"),
        (["--model", "openai/gpt-5-mini", *HTTP], "say which folders may be read"),
        (["--model", "openai/gpt-5-mini", "--token-env", "TOKEN"], "--token-env is for --http"),
        (["--root", "no/such/folder"], "does not exist"),
        (["--parallel", "0"], "0 is not in the range"),
    ],
)
def test_a_call_that_lacks_something_says_what(arguments: list[str], said: str) -> None:
    result = CliRunner().invoke(command, arguments)
    assert result.exit_code == 2
    assert said in " ".join(result.output.split())


@pytest.mark.parametrize("address", ["8765", "127.0.0.1", "127.0.0.1:0", "127.0.0.1:http"])
def test_an_address_has_a_host_and_a_port(task: str, tmp_path: Path, address: str) -> None:
    result = CliRunner().invoke(command, [task, "--root", str(tmp_path), "--http", address])
    assert result.exit_code == 2
    assert "--http is HOST:PORT" in result.output


@pytest.mark.parametrize("token", [None, "short"])
def test_a_token_that_is_none_is_refused(
    task: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, token: str | None
) -> None:
    monkeypatch.delenv("MCP_TOKEN", raising=False)
    if token is not None:
        monkeypatch.setenv("MCP_TOKEN", token)
    result = CliRunner().invoke(command, [task, "--root", str(tmp_path), *HTTP, "--token-env", "MCP_TOKEN"])
    assert isinstance(result.exception, EnvironmentProblem)
    assert "at least 16 characters" in str(result.exception)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("signature: 'x -> y'\nmodels: {scripted: nothing.yaml}\n", "nothing.yaml"),
        ("models: [\n", "task.yaml:"),
        ("- models\n", "models.main is missing"),
    ],
)
def test_a_task_file_with_a_mistake_is_refused_before_anything_is_served(task: str, text: str, said: str) -> None:
    from rlm.tasks import TaskError

    Path(task).write_text(text)
    result = CliRunner().invoke(command, [task])
    assert isinstance(result.exception, TaskError)
    assert said in str(result.exception)


def test_without_the_package_it_says_what_to_install(task: str, hide_packages: Any) -> None:
    import rlm

    hide_packages("mcp")
    result = CliRunner().invoke(command, [task])
    assert isinstance(result.exception, rlm.MissingExtra)
    assert "rlm-kernel[mcp]" in str(result.exception)
