"""Models behind a command: stand-ins that behave like claude, codex, gemini and llm, and programs that misbehave."""

from __future__ import annotations

import asyncio
import os
import time
from pathlib import Path
from typing import Any

import dspy
import pytest

from rlm.models import command_lm
from rlm.models.client import Answer, ModelError, ask
from rlm.models.command import UnknownProgram
from rlm.models.command.programs import PROGRAMS
from rlm.models.retry import RetryPolicy
from rlm.redaction import Redactor
from tests.support.command_programs import Programs

TURNS = [("user", "What is 2 + 2?")]


@pytest.fixture
def programs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Programs:
    made = Programs(tmp_path / "bin")
    monkeypatch.setenv("PATH", f"{made.folder}{os.pathsep}/usr/bin:/bin")
    return made


def answer_of(lm: Any, turns: Any = TURNS, system: str | None = "Be brief.", **options: Any) -> Answer:
    return asyncio.run(ask(lm, turns, system=system, retry=RetryPolicy(first=0.01, patience=0), **options))


@pytest.mark.parametrize(("program", "tokens_in"), [("claude", 1111), ("codex", 11), ("gemini", 11), ("llm", 1011)])
def test_a_known_program_is_asked_and_its_tokens_are_counted(programs: Programs, program: str, tokens_in: int) -> None:
    programs.write(program)
    answer = answer_of(command_lm(f"cli/{program}"))
    assert (answer.text, answer.tokens_in, answer.tokens_out) == ("four", tokens_in, 3)
    assert answer.cost_usd == (0.0125 if program == "claude" else None)
    (call,) = programs.calls
    assert "What is 2 + 2?" in call["stdin"]
    assert not any("What is 2" in part for part in call["argv"])  # other users can read the arguments of a process


def test_each_known_program_reads_the_system_prompt(programs: Programs) -> None:
    for program in PROGRAMS:
        programs.write(program)
        answer_of(command_lm(f"cli/{program}"))
    claude, codex, gemini, llm = programs.calls
    assert claude["argv"][claude["argv"].index("--system-prompt") + 1] == "Be brief."
    assert codex["stdin"] == "Be brief.\n\nWhat is 2 + 2?"
    assert gemini["files"]["system.md"] == "Be brief."
    assert gemini["env"]["GEMINI_SYSTEM_MD"] == f"{gemini['folder']}/system.md"
    assert llm["argv"][llm["argv"].index("--system") + 1] == "Be brief."


def test_known_programs_get_no_tools(programs: Programs) -> None:
    for program in PROGRAMS:
        programs.write(program)
        answer_of(command_lm(f"cli/{program}"))
    claude, codex, gemini, _ = programs.calls
    assert claude["argv"][claude["argv"].index("--tools") + 1] == ""
    assert "features.shell_tool=false" in codex["argv"]
    assert 'decision = "deny"' in gemini["files"]["no-tools.toml"]


def test_a_model_of_a_program_is_named_to_it(programs: Programs) -> None:
    programs.write("llm")
    answer_of(command_lm("cli/llm/gpt-5/mini"))
    assert programs.calls[0]["argv"][-2:] == ["--model", "gpt-5/mini"]


def test_a_program_starts_in_an_empty_folder_with_few_variables(
    programs: Programs, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DATABASE_PASSWORD", "hunter2-hunter2")
    monkeypatch.setenv("MY_TOKEN", "token-of-the-program")
    tool = programs.write("tool", "print('four')")
    assert answer_of(command_lm([str(tool)], env=["MY_TOKEN"])).text == "four"
    (call,) = programs.calls
    assert call["files"] == {}
    assert not Path(call["folder"]).exists()
    assert "DATABASE_PASSWORD" not in call["env"]
    assert call["env"]["MY_TOKEN"] == "token-of-the-program"
    assert "token-of-the-program" not in Redactor().text("it printed token-of-the-program")


def test_a_command_with_places_for_the_prompt_and_the_system_prompt(programs: Programs) -> None:
    tool = programs.write("tool", "print(json.dumps({'choices': [{'text': 'four'}]}))")
    lm = command_lm([str(tool), "--about", "{system}", "--ask={system} {prompt}"], reply="choices.0.text")
    turns = [("user", "Say {system} and {prompt}.")]
    assert answer_of(lm, turns).text == "four"
    (call,) = programs.calls
    assert call["argv"] == ["--about", "Be brief.", "--ask=Be brief. Say {system} and {prompt}."]
    assert call["stdin"] == ""


def test_a_conversation_is_one_text(programs: Programs) -> None:
    tool = programs.write("tool", "print('four')")
    turns = [("user", "What is 2 + 2?"), ("assistant", "five"), ("user", "Look again.")]
    answer_of(command_lm([str(tool)]), turns, None)
    text = programs.calls[0]["stdin"]
    assert "[user]\nWhat is 2 + 2?\n\n[assistant]\nfive\n\n[user]\nLook again." in text


def test_a_long_system_prompt_is_part_of_the_prompt(programs: Programs) -> None:
    programs.write("llm")
    answer_of(command_lm("cli/llm"), TURNS, "x" * 200_000)
    assert programs.calls[0]["stdin"].startswith("x" * 200_000)


_FAILURES = {
    "not-logged-in": (
        "print(json.dumps({'type': 'result', 'is_error': True, 'result': 'Not logged in · Please run /login'}))",
        "claude",
        "key",
        "Not logged in",
    ),
    "usage-limit": (
        "print(json.dumps({'type': 'error', 'message': \"You've hit your usage limit.\"}))\n"
        "print(json.dumps({'type': 'turn.failed', 'error': {'message': \"You've hit your usage limit.\"}}))",
        "codex",
        "rate",
        "usage limit",
    ),
    "no-auth-method": (
        "print(json.dumps({'error': {'message': 'Please set an Auth method', 'code': 41}})); sys.exit(41)",
        "gemini",
        "key",
        "Auth method",
    ),
    "unknown-model": ("sys.exit(\"Error: 'Unknown model: nope'\")", "llm", "model", "Unknown model"),
    "no-json": ("print('Welcome!')", "claude", "server", "not JSON"),
    "nothing": ("sys.exit(3)", "llm", "unknown", "exit code 3"),
    "killed": ("os.kill(os.getpid(), 9)", "llm", "unknown", "signal 9"),
    "deep-json": ("print('{\"a\":' * 100_000)", "gemini", "server", "not JSON"),
    "too-much": ("while True: sys.stdout.write('x' * 1_000_000)", "llm", "server", "more than 8 MB"),
}


@pytest.mark.parametrize("failure", _FAILURES)
def test_a_program_that_gives_no_answer(programs: Programs, failure: str) -> None:
    body, program, kind, words = _FAILURES[failure]
    programs.write(program, body)
    with pytest.raises(ModelError) as raised:
        answer_of(command_lm(f"cli/{program}", num_retries=0))
    assert raised.value.kind == kind
    assert words in str(raised.value)
    assert f"cli/{program}" in str(raised.value)


def test_a_program_that_is_missing_is_named(programs: Programs) -> None:
    with pytest.raises(ModelError, match=r"'claude' is not installed, or not on PATH") as raised:
        answer_of(command_lm("cli/claude"))
    assert raised.value.kind == "model"
    with pytest.raises(UnknownProgram, match=r"cli/claude, cli/codex, cli/gemini, cli/llm"):
        command_lm("cli/chatgpt")


def _is_running(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


@pytest.mark.parametrize("how", ["timeout", "deadline"])
def test_a_program_that_hangs_is_ended_with_all_that_it_has_started(
    programs: Programs, tmp_path: Path, how: str
) -> None:
    pids = tmp_path / "pids"
    tool = programs.write(
        "tool",
        "import subprocess, time\nchild = subprocess.Popen(['sleep', '600'])\n"
        f"pathlib.Path({str(pids)!r}).write_text(f'{{os.getpid()}} {{child.pid}}')\ntime.sleep(600)",
    )
    lm = command_lm([str(tool)], timeout=3.0 if how == "timeout" else None, num_retries=0)
    deadline = {} if how == "timeout" else {"deadline": time.monotonic() + 3.0}
    with pytest.raises(ModelError) as raised:
        answer_of(lm, **deadline)
    assert raised.value.kind == "timeout"
    end = time.monotonic() + 30
    while any(map(_is_running, map(int, pids.read_text().split()))):
        assert time.monotonic() < end
        time.sleep(0.02)


def test_dspy_asks_a_command_as_any_other_model(programs: Programs) -> None:
    programs.write("claude")
    lm = command_lm("cli/claude")
    assert lm("What is 2 + 2?") == ["four"]
    tool = programs.write("tool", "print('[[ ## answer ## ]]\\nfour\\n\\n[[ ## completed ## ]]')")
    with dspy.context(lm=command_lm([str(tool)])):
        assert dspy.Predict("question -> answer")(question="What is 2 + 2?").answer == "four"
