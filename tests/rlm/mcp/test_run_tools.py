"""Tools of an MCP server in runs: called from cells, typed, counted, capped, recorded and replayed."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import subprocess
import sys
import warnings
from pathlib import Path
from typing import Any

import pytest

import rlm
from rlm.mcp.run_tools import with_servers
from rlm.mcp.servers import McpServers
from rlm.models.scripted import scripted_lm
from rlm.repl.config import RunConfig
from rlm.repl.replay import RecordedCall, RecordedIteration, RecordedRun
from rlm.signatures import Signature
from tests.support.mcp_runs import run_cells, server, servers

pytest.importorskip("mcp")


def test_a_cell_calls_a_tool_by_place_and_by_name() -> None:
    with servers() as mcp:
        result = run_cells(mcp, ["x = t_echo('a')", "SUBMIT(answer=x + t_echo(times=2, text='b'))"])
    assert result.outputs.answer == "abb"


def test_structured_content_is_a_typed_value() -> None:
    with servers() as mcp:
        result = run_cells(mcp, ["SUBMIT(answer=repr(t_numbers(text='')))"])
    assert result.outputs.answer == "[1, 2]"


def test_the_prompt_has_the_names_and_help_has_the_rest() -> None:
    lm = scripted_lm(["```python\nhelp(t_echo)\n```", "```python\nSUBMIT(answer='')\n```"])
    with servers() as mcp:
        predict = rlm.Predict("question -> answer", lm=lm, mcp=mcp, record=False)
        result = predict.run_with_fallback(question="What?")
    asked = "\n".join(str(message) for request in lm.engine.requests[:1] for message in request.messages)
    system = str(lm.engine.requests[0])
    assert "t_echo" in asked + system
    assert "Return the text." not in asked + system
    assert "t_echo(text: str, times: int = 1) -> Any" in result.history[0].output
    assert "> Return the text." in result.history[0].output


def test_errors_of_a_tool_are_errors_of_the_cell() -> None:
    cell = "try:\n    t_fail(text='')\nexcept Exception as error:\n    SUBMIT(answer=type(error).__name__)"
    with servers() as mcp:
        assert run_cells(mcp, [cell]).outputs.answer == "McpToolError"


def test_calls_of_a_run_are_counted() -> None:
    cells = ["for _ in range(3):\n    t_echo('a')", "SUBMIT(answer='over')"]
    with servers(max_calls=2) as mcp:
        result = run_cells(mcp, cells)
        again = run_cells(mcp, ["SUBMIT(answer=t_echo('a'))"])
    assert "`max_calls`" in result.history[0].output
    assert len(result.history[0].calls) == 3
    assert again.outputs.answer == "a", "another run has calls of its own"


def test_a_large_answer_is_an_error() -> None:
    with servers("megabytes") as mcp:
        result = run_cells(mcp, ["t_echo('a')", "SUBMIT(answer='')"])
    assert "at most 1,000,000 are taken (`max_result_bytes`)" in result.history[0].output


def test_many_calls_in_one() -> None:
    cell = "found = mcp_batch('t_echo', [{'text': str(n)} for n in range(20)])\nSUBMIT(answer=' '.join(found))"
    with servers() as mcp:
        result = run_cells(mcp, [cell])
        failed = run_cells(mcp, ["SUBMIT(answer=mcp_batch('t_fail', [{'text': ''}])[0]['error'][:12])"])
    assert result.outputs.answer == " ".join(map(str, range(20)))
    assert failed.outputs.answer == "McpToolError"


@pytest.mark.parametrize(
    "cell", ["mcp_batch('nothing', [])", "mcp_batch('t_echo', 3)", "mcp_batch('t_echo', [3])", "t_echo(1, 2, 3)"]
)
def test_a_call_that_cannot_be_made_says_how(cell: str) -> None:
    with servers() as mcp:
        result = run_cells(mcp, [cell, "SUBMIT(answer='')"])
    assert "McpToolError" in result.history[0].output


def test_names_of_inputs_and_of_other_tools_are_left_alone() -> None:
    def t_fail() -> str:
        """Say whose tool this is."""
        return "mine"

    replies = ["```python\nSUBMIT(answer=t_fail() + t_echo + t_echo_2(text='!'))\n```"]
    with servers() as mcp:
        options: dict[str, Any] = {"lm": scripted_lm(replies), "mcp": mcp, "tools": [t_fail], "record": False}
        result = rlm.Predict("t_echo: str -> answer: str", **options).run_with_fallback(t_echo="-")
    assert result.outputs.answer == "mine-!"


def test_a_recorded_call_is_answered_without_the_server() -> None:
    with servers() as mcp:
        config = RunConfig(Signature.of("question -> answer: str"), scripted_lm([]))
        listed = with_servers(config, mcp).task["mcp"]  # type: ignore[index]
    assert json.loads(json.dumps(listed)) == listed
    absent = McpServers({"t": {"command": "no-such-program"}}, recorded=listed)
    replayed = with_servers(config, absent)
    call = RecordedCall("t_echo", '[["a"], {}]', answer="as it was")
    past = RecordedRun("r", (RecordedIteration("```python\nSUBMIT(answer=t_echo('a'))\n```", (call,), ""),))
    result = asyncio.run(replayed.run({"question": "What?"}, past=past))
    assert result.outputs.answer == "as it was"


def test_a_server_that_cannot_be_started_is_said_before_the_run() -> None:
    predict = rlm.Predict("question -> answer", lm=scripted_lm([]), mcp={"t": {"command": "no-such-program"}})
    with pytest.raises(rlm.McpServerError, match="no program 'no-such-program'"):
        predict.run_with_fallback(question="What?")


def test_a_task_file_with_servers_is_read_without_the_package(tmp_path: Path) -> None:
    (tmp_path / "replies.yaml").write_text("main: []\n")
    head = "signature: 'question: str -> answer: str'\ninputs: {question: hi}\nmodels: {scripted: replies.yaml}\n"
    (tmp_path / "task.yaml").write_text(f"{head}mcp: {{t: {{command: no-such-program}}}}\n")
    code = "import sys, rlm; rlm.load_task('task.yaml'); print({'mcp', 'dspy'} & set(sys.modules))"
    done = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "set()"


def test_help_says_where_a_person_is_asked() -> None:
    with servers() as mcp:
        asked = {tool.tool: "A person is asked" in tool.doc for tool in mcp.tools()}
    with servers(allow=("create",), trust_annotations=False) as mcp:
        other = {tool.tool: "A person is asked" in tool.doc for tool in mcp.tools()}
    assert asked == {"create": True, "echo": False, "fail": False, "numbers": False}
    assert other == {"create": False, "echo": True, "fail": True, "numbers": True}


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork")
def test_a_forked_process_has_servers_of_its_own() -> None:
    with servers() as mcp:
        (tool,) = [tool for tool in mcp.tools() if tool.tool == "echo"]
        assert asyncio.run(mcp.call(tool, {"text": "parent"})) == "parent"
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # there are threads, which later versions of Python warn of
            child = os.fork()
        if child == 0:
            code = 1
            with contextlib.suppress(BaseException):
                code = 0 if asyncio.run(mcp.call(tool, {"text": "child"})) == "child" else 2
            mcp.close()
            os._exit(code)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
        assert asyncio.run(mcp.call(tool, {"text": "parent"})) == "parent"


def test_the_package_may_be_missing(hide_packages: Any) -> None:
    hide_packages("mcp")
    with pytest.raises(rlm.MissingExtra, match=r"rlm-kernel\[mcp\]"):
        McpServers({"t": server()}).open()


def test_a_task_file_has_servers_and_resources(tmp_path: Path) -> None:
    command = json.dumps(server()["command"])
    (tmp_path / "replies.yaml").write_text('main: ["```python\\nSUBMIT(answer=t_echo(note))\\n```"]\n')
    task = tmp_path / "task.yaml"
    task.write_text(
        "signature: 'note: str -> answer: str'\n"
        "inputs: {note: {mcp: t, uri: 'note://today'}}\n"
        f"mcp: {{t: {{command: {command}, tools: [echo]}}}}\n"
        "models: {scripted: replies.yaml}\n"
    )
    loaded = rlm.load_task(task)
    assert loaded.mcp is not None
    with loaded.mcp:
        assert loaded.inputs == {"note": "the text of note://today"}
        assert [tool.name for tool in loaded.mcp.tools()] == ["t_echo"]
        result = rlm.run_task(loaded, record=False)
    assert result.outputs.answer == "the text of note://today"  # type: ignore[union-attr]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("mcp: {t: {}}", "either a `command`"),
        ("mcp: {t: {command: a, url: 'http://b'}}", "either a `command`"),
        ("mcp: {T-1: {command: a}}", "cannot name an MCP server"),
        ("mcp: {t: {command: a, env: {API_KEY: abc}}}", "`env_from`"),
        ("mcp: {t: {url: 'http://user:pw@host/mcp'}}", "user and password"),
        ("mcp: {t: {url: 'http://example.org/mcp', token_env: TOKEN}}", "https:// only"),
        ("mcp: {t: {command: a, alow: [b]}}", "alow"),
        ("inputs: {note: {mcp: u, uri: x}}", "no MCP server 'u'"),
    ],
)
def test_mistakes_in_a_task_file_are_named(tmp_path: Path, text: str, said: str) -> None:
    task = tmp_path / "task.yaml"
    task.write_text(f"signature: 'note: str -> answer: str'\nmodels: openai/gpt-5-mini\n{text}\n")
    with pytest.raises(rlm.TaskError) as caught:
        rlm.load_task(task)
    assert said in str(caught.value)
