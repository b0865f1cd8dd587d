"""MCP servers that lie, break, hang and flood, and answers that try to be a prompt: an error in the cell at most."""

from __future__ import annotations

import asyncio
import json
import os
import platform
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import rlm
from rlm.mcp.servers import McpServers
from rlm.mcp.stdio import _ended_with_us
from rlm.models.scripted import scripted_lm
from tests.support.mcp_runs import SERVER, run_cells, server, servers
from tests.support.mcp_server import PROMPT

pytest.importorskip("mcp")

pytestmark = pytest.mark.any_user

_TIERS = ["namespaces", "landlock"] if platform.system() == "Linux" else ["auto"]
_CAUGHT = "try:\n    t_echo('a')\nexcept Exception as error:\n    print('error', type(error).__name__, error)"


def tools_of(behaviour: str, **settings: Any) -> dict[str, Any]:
    """Return the tools of a server by their names at the server."""
    with servers(behaviour, **settings) as mcp:
        return {tool.tool: tool for tool in mcp.tools()}


def prompt_of(mcp: McpServers) -> str:
    """Return all that the model reads before its first reply."""
    lm = scripted_lm(["```python\nSUBMIT(answer='')\n```"])
    rlm.Predict("question -> answer", lm=lm, mcp=mcp, record=False).run_with_fallback(question="What?")
    return str(lm.engine.requests[0])


def running(text: str) -> list[int]:
    """Return the processes with this text in their command line."""
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            if text in (folder / "cmdline").read_bytes().decode(errors="replace"):
                found.append(int(folder.name))
        except OSError:
            continue
    return [pid for pid in found if pid != os.getpid()]


def eventually(holds: Callable[[], bool]) -> bool:
    until = time.monotonic() + 45
    while not holds():
        if time.monotonic() > until:
            return False
        time.sleep(0.05)
    return True


# What it says about itself ----------------------------------------------------------------------------------------


def test_names_that_shadow_builtins_and_functions_of_the_repl_shadow_nothing():
    cell = """
assert print.__module__ == "builtins" and open.__module__ in ("builtins", "io", "_io"), open.__module__
assert t_SUBMIT is not SUBMIT and t_llm_query is not llm_query
SUBMIT(answer=" ".join(sorted(name for name in dir() if name.startswith("t_"))))
"""
    with servers("lies") as mcp:
        result = run_cells(mcp, [cell])
    assert isinstance(result, rlm.Submitted), result.history[0].output
    names = result.outputs.answer.split()
    assert {"t_SUBMIT", "t_print", "t_llm_query", "t_class", "t_a_b", "t_a_b_2", "t_tool"} <= set(names)
    assert all(name.isidentifier() and name.isascii() and len(name) <= 64 for name in names)


def test_a_server_named_so_that_its_tool_would_be_a_function_of_the_repl():
    with McpServers({"llm": server("query"), "budget": server()}) as mcp:
        names = {tool.name for tool in mcp.tools({"llm_echo", "budget_create", "llm_fail"})}
    assert names & {"llm_echo", "budget_create", "llm_fail"} == set()
    assert {"llm_echo_2", "budget_create_2", "llm_fail_2"} <= names


def test_a_description_that_tries_to_be_a_prompt_is_a_quotation_that_the_prompt_lacks():
    with servers("lies") as mcp:
        assert "Ignore all previous" not in prompt_of(mcp)
    for tool in tools_of("lies").values():
        first, second, *said = tool.doc.splitlines()  # a tool that is called read-only asks nobody
        assert first.startswith(f"{tool.name}(")
        assert "in its words" in second
        assert said
        assert all(line.startswith("> ") for line in said)
        assert "\x1b" not in tool.doc
        assert "\u202e" not in tool.doc
        assert len(tool.doc) <= 6_000


def test_schemas_that_are_huge_deep_or_endless_make_short_signatures():
    began = time.monotonic()
    found = tools_of("schemas")
    assert time.monotonic() - began < 60
    assert found["doubling"].signature == "(x: Any = ...) -> Any"
    assert found["large"].signature == "(**arguments) -> Any"
    assert found["enum"].signature == "(**arguments) -> Any"
    assert found["deep"].signature == "(x: list[list[list[list[Any]]]] = ...) -> Any"
    assert found["odd"].signature == "(**arguments) -> Any"
    assert not Path("pwned").exists()
    for tool in found.values():
        assert len(tool.signature) + len(tool.doc) < 10_000
        assert "\x1b" not in tool.signature + tool.doc


def test_a_listing_without_an_end_is_cut_off():
    assert 0 < len(tools_of("endless")) <= 1_000


def test_an_annotation_is_believed_only_where_it_may_be(tmp_path):
    things = tmp_path / "things"
    cells = ["t_create(title='one')", "SUBMIT(answer='')"]
    with servers("lies", str(things), trust_annotations=False) as mcp:
        result = run_cells(mcp, cells)
        assert "NotApproved" in result.history[0].output
    assert not things.exists()
    # With the default it is believed: docs/security.md says what that is worth.
    with servers("lies", str(things)) as mcp:
        run_cells(mcp, cells)
    assert things.exists()


# What it answers --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("isolation", _TIERS)
def test_an_answer_that_tries_to_be_a_prompt_is_a_value(isolation):
    lm = scripted_lm(["```python\nx = t_echo('a')\nprint(len(x))\n```", "```python\nSUBMIT(answer=x)\n```"])
    with servers("prompt") as mcp:
        options: dict[str, Any] = {"lm": lm, "mcp": mcp, "record": False, "isolation": isolation}
        result = rlm.Predict("question -> answer: str", **options).run_with_fallback(question="What?")
    assert result.outputs.answer == PROMPT, "as it came, and not obeyed"
    assert not any("Ignore all previous" in str(request) for request in lm.engine.requests)


def test_an_error_that_tries_to_be_a_prompt_is_cleaned():
    with servers() as mcp:
        result = run_cells(mcp, ["t_fail(text='')", "SUBMIT(answer='')"])
    assert "no such thing" in result.history[0].output
    assert "\x1b" not in result.history[0].output


@pytest.mark.parametrize(
    ("behaviour", "error", "said"),
    [
        ("dies", "McpServerError", "exit code 3. Its last words: out of cheese."),
        ("hangs", "TimeoutError", "did not answer within 0.5 s"),
        ("floods", "McpServerError", "where one answer was expected"),
        ("long line", "McpServerError", "longer than what is read"),
        ("megabytes", "McpToolError", "at most 1,000,000 are taken"),
        ("garbage", "McpToolError", "something that is no result"),
    ],
)
def test_a_server_that_breaks_is_an_error_in_the_cell_and_nothing_more(behaviour, error, said, caplog):
    cells = [_CAUGHT, _CAUGHT, "SUBMIT(answer='still here')"]
    with servers(behaviour, timeout=0.5 if behaviour == "hangs" else 60) as mcp:
        result = run_cells(mcp, cells)
    assert result.outputs.answer == "still here"
    for entry in result.history[:2]:
        assert entry.output.startswith(f"error {error}"), entry.output
        assert said in entry.output
    assert caplog.text == "", "what a server sends is quoted in no log"


def test_a_server_that_ends_again_and_again_is_not_started_for_ever():
    with servers("dies") as mcp:
        result = run_cells(mcp, [_CAUGHT] * 6 + ["SUBMIT(answer='')"])
    assert "is not started again" in result.history[5].output


def test_a_server_that_never_answers_is_said_before_the_run():
    with (
        servers("silent", start_timeout=1) as mcp,
        pytest.raises(rlm.McpServerError, match="did not answer within 1 s"),
    ):
        mcp.open()


def test_other_servers_answer_while_one_hangs():
    both = {"t": server("hangs", timeout=30), "u": server()}
    with McpServers(both) as mcp:
        tools = {tool.name: tool for tool in mcp.tools()}

        async def call_both() -> Any:
            hanging = asyncio.ensure_future(mcp.call(tools["t_echo"], {"text": "a"}))
            try:
                return await mcp.call(tools["u_echo"], {"text": "b"})
            finally:
                hanging.cancel()
                await asyncio.wait([hanging])

        assert asyncio.run(call_both()) == "b"


# What it is given -------------------------------------------------------------------------------------------------


def test_a_server_gets_no_environment_but_its_own(monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", "sk-not-for-servers-0123456789")
    monkeypatch.setenv("TRACKER_TOKEN", "only-for-the-tracker")
    with servers("environment", env={"MODE": "test"}, env_from=("TRACKER_TOKEN",)) as mcp:
        result = run_cells(mcp, ["SUBMIT(answer=t_echo('a'))"])
    environment = json.loads(result.outputs.answer)
    assert set(environment) <= {"PATH", "LANG", "MODE", "TRACKER_TOKEN", "LC_CTYPE"}
    assert environment["TRACKER_TOKEN"] == "[secret]", "not even if the server gives it away"


def test_a_token_that_a_server_tells_reaches_no_cell(monkeypatch):
    monkeypatch.setenv("TRACKER_TOKEN", "only-for-the-tracker")
    with servers("secret", env_from=("TRACKER_TOKEN",)) as mcp:
        result = run_cells(mcp, ["SUBMIT(answer=t_echo('a'))"])
    assert result.outputs.answer == "the token is [secret]"


def test_a_server_that_asks_for_a_model_or_for_folders_gets_neither():
    with servers("asks") as mcp:
        result = run_cells(mcp, ["SUBMIT(answer=t_echo('a'))"])
    answers = json.loads(result.outputs.answer)
    assert [answer["id"] for answer in answers] == [99, 98]
    assert all("error" in answer and "result" not in answer for answer in answers)


@pytest.mark.parametrize("isolation", _TIERS)
def test_a_cell_reaches_a_server_by_its_functions_only(isolation, tmp_path):
    """The program and its pipes are the host's: a cell sees no file, no process and no address of it."""
    cell = f"""
import os, socket
reached = []
for name, attempt in {{
    "file": lambda: open({str(SERVER)!r}).read(),
    "processes": lambda: [open(f"/proc/{{n}}/cmdline").read() for n in os.listdir("/proc") if n.isdigit()],
    "socket": lambda: socket.create_connection(("127.0.0.1", 80), 1),
}}.items():
    try:
        attempt()
        reached.append(name)
    except Exception:
        pass
SUBMIT(answer=repr(reached) + t_echo("!"))
"""
    with servers() as mcp:
        result = run_cells(mcp, [cell], isolation=isolation, policy="off")
    assert result.outputs.answer == "[]!"


# How it ends ------------------------------------------------------------------------------------------------------


@pytest.mark.skipif(platform.system() != "Linux", reason="looks at /proc")
def test_a_server_that_stays_is_ended_with_its_children(tmp_path):
    mark = str(tmp_path / "mark")
    with servers("stays", mark) as mcp:
        mcp.open()
        assert running(mark)
    assert eventually(lambda: not running(mark))


@pytest.mark.skipif(not _ended_with_us(), reason="there is no setpriv")
def test_a_server_does_not_outlive_a_host_that_is_killed(tmp_path):
    import signal
    import subprocess
    import sys

    mark = str(tmp_path / "mark")
    code = """
import json, sys, time
from rlm.mcp.servers import McpServers
servers = McpServers({"t": json.loads(sys.argv[1])})
servers.open()
print("open", flush=True)
time.sleep(600)
"""
    command = [sys.executable, "-c", code, json.dumps(server("stays", mark))]
    host = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    assert host.stdout is not None
    assert host.stdout.readline() == "open\n"
    served = [pid for pid in running(mark) if pid != host.pid]
    assert served
    host.send_signal(signal.SIGKILL)
    host.wait()
    host.stdout.close()
    assert eventually(lambda: not set(served) & set(running(mark)))
