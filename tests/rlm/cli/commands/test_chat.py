"""`rlm chat`, `rlm ask` and `rlm sessions`: questions, commands, exit codes, and what survives."""

from __future__ import annotations

import contextlib
import io
import json
import os
import pty
import re
import select
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

LOG = "error disk\nok\nerror net\nok\n"
TASK = """\
signature: "log: str, question: str -> answer: int"
inputs:
  log: "error disk\\nok\\nerror net\\nok\\n"
models: {scripted: replies.yaml}
"""
FIRST = "hits = [line for line in log.splitlines() if 'error' in line]\nSUBMIT(answer=len(hits))"


@pytest.fixture
def write(tmp_path, monkeypatch):
    """Writes a task whose main model answers with these cells."""
    monkeypatch.setenv("RLM_HOME", str(tmp_path / "home"))

    def make(*cells, extraction=()):
        replies = {"main": [f"```python\n{code}\n```" for code in cells], "extraction": list(extraction)}
        (tmp_path / "replies.yaml").write_text(json.dumps(replies))
        (tmp_path / "task.yaml").write_text(TASK)

    return make


@pytest.fixture
def chat(command, monkeypatch):
    """Runs `rlm chat` with lines on standard input."""

    def run(*lines, arguments=("task.yaml",)):
        monkeypatch.setattr(sys, "stdin", io.StringIO("".join(f"{line}\n" for line in lines)))
        return command("chat", *arguments)

    return run


def sessions(command):
    code, output, _ = command("sessions", "list", "--json")
    assert code == 0
    return [json.loads(line) for line in output.splitlines()]


def test_lines_are_questions_over_the_same_variables(write, chat, command):
    write(FIRST, "SUBMIT(answer=sum('disk' in line for line in hits))")
    code, output, errors = chat("How many errors?", "Of the disk?")
    assert code == 0
    assert re.findall(r"^answer +(\d)$", output, re.M) == ["2", "1"]
    assert "log (" in errors
    (session,) = sessions(command)
    assert (session["questions"], session["title"], session["ending"]) == (2, "How many errors?", "submitted")


def test_commands_show_and_change_the_session(write, chat, tmp_path):
    write(FIRST, "SUBMIT(answer=len(log))")
    code, output, errors = chat(
        "How many?", "/vars", "/cells", "/budget max_iterations=7", "/undo", "/set log=xyz", "Characters?", "/save a.md"
    )
    assert code == 0, errors
    assert "hits" in output.split("/vars")[0]
    assert "in log.splitlines()" in output
    assert "max_iterations=7" in output
    assert "Question 1 is undone" in errors
    assert re.findall(r"^answer +(\d)$", output, re.M) == ["2", "3"]
    assert "Characters?" in (tmp_path / "a.md").read_text()


@pytest.mark.parametrize(
    ("line", "problem"),
    [
        ("/vrs", "did you mean /vars?"),
        ("/undo", "has no question to undo"),
        ("/drop x", "has no variable x"),
        ("/show 3", "nothing was asked yet"),
        ("/set log", "write /set NAME=VALUE"),
        ("/save a.txt", "is none of"),
        ("/budget max_iterations=many", "invalid literal"),
        ("/resume", "no question that was interrupted"),
    ],
)
def test_mistakes_are_said_and_do_not_end_the_session(write, chat, line, problem):
    write(FIRST)
    _, output, errors = chat(line, "How many?")
    assert problem in errors
    assert "answer  2" in output


def test_ask_goes_on_with_the_session_for_scripts(write, chat, command):
    write(FIRST, "SUBMIT(answer=len(hits) * 10)", "SUBMIT(total=len(hits) / 4)")
    chat("How many?")
    (session,) = sessions(command)
    code, output, errors = command("ask", session["id"][:6], "Ten times?", "--json")
    assert (code, json.loads(output)["outputs"]) == (0, {"answer": 20})
    assert json.loads(output)["session"] == session["id"]
    assert "1 cell ran again" in errors
    code, output, _ = command("ask", session["id"], "Share?", "--signature", "... -> total: float", "--json", "-q")
    assert (code, json.loads(output)["outputs"]) == (0, {"total": 0.5})


def test_ask_has_the_exit_codes_of_run(write, chat, command):
    write(FIRST, *["x = 1"] * 20, extraction=['{"answer": 5}'])
    chat("How many?")
    (session,) = sessions(command)
    code, _, _ = command("ask", session["id"], "More?", "--strict", "-q")
    assert code == 1
    code, _, errors = command("ask", "none", "More?")
    assert code == 2
    assert "no session has an id that begins with 'none'" in errors


def test_sessions_are_shown_closed_and_deleted(write, chat, command):
    write(FIRST)
    chat("How many?")
    (session,) = sessions(command)
    code, output, _ = command("sessions", "show", session["id"], "--cells")
    assert code == 0
    assert "1. How many?" in output
    assert "log.splitlines()" in output
    code, output, _ = command("sessions", "show", session["id"], "--json")
    assert json.loads(output)["questions"][0]["outputs"] == {"answer": 2}
    assert command("sessions", "close", session["id"])[0] == 0
    assert sessions(command) == []
    assert command("sessions", "close", session["id"], "--delete")[0] == 0
    assert command("sessions", "show", session["id"])[0] == 2


def test_an_exported_notebook_runs_again_without_a_model(write, chat, command):
    write(FIRST, "same = hits == [line for line in hits if line in log]\nSUBMIT(answer=len(hits) + same)")
    chat("How many?", "And one?")
    (session,) = sessions(command)
    code, output, _ = command("sessions", "export", session["id"], "--to", "ipynb", "-o", "-")
    assert code == 0
    names: dict[str, object] = {}
    for cell in json.loads(output)["cells"]:
        if cell["cell_type"] == "code":
            exec(cell["source"], names)
    assert (names["hits"], names["same"]) == (["error disk", "error net"], True)


def test_inputs_without_a_task_file_are_texts_or_files(tmp_path, chat, monkeypatch, write):
    write(FIRST)
    (tmp_path / "server.log").write_text("x" * 1234)
    monkeypatch.setenv("OPENAI_API_KEY", "none")
    arguments = ("--input", "log=server.log", "--input", "day=Monday", "--model", "openai/none")
    code, _, errors = chat("/vars", arguments=arguments)
    assert code == 0
    assert 'log (1,234 characters), day ("Monday")' in errors
    code, _, errors = chat(arguments=("--input", "log=server.log"))
    assert code == 2
    assert "--model" in errors


def test_a_task_with_plans_is_refused(write, chat, tmp_path):
    write(FIRST)
    (tmp_path / "task.yaml").write_text(TASK + "agree: 3\n")
    code, _, errors = chat("How many?")
    assert code == 2
    assert "a session has no plans" in errors


class Terminal:
    """A process on a terminal of its own."""

    def __init__(self, arguments, folder: Path):
        self.master, slave = pty.openpty()
        self.process = subprocess.Popen(
            arguments,
            stdin=slave,
            stdout=slave,
            stderr=slave,
            cwd=folder,
            start_new_session=True,
            preexec_fn=_control_terminal,
            env={**os.environ, "TERM": "xterm", "COLUMNS": "100", "LINES": "30"},
        )
        os.close(slave)
        self._raw = ""

    @property
    def text(self) -> str:
        """What was written, without colors and movements of the cursor."""
        return re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", self._raw)

    def wait_for(self, pattern: str, after: int = 0) -> int:
        """Wait for what matches the pattern; return where it ends."""
        until = time.monotonic() + 60
        while (found := re.compile(pattern).search(self.text, after)) is None:
            assert time.monotonic() < until, self.text
            if select.select([self.master], [], [], 1)[0]:
                try:
                    self._raw += os.read(self.master, 65536).decode(errors="replace")
                except OSError:
                    raise AssertionError(self.text) from None
        return found.end()

    def type(self, text: str) -> None:
        os.write(self.master, text.encode())

    def close(self) -> None:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()
        os.close(self.master)


def _control_terminal() -> None:
    import fcntl
    import termios

    fcntl.ioctl(0, termios.TIOCSCTTY, 0)


@pytest.mark.processes
def test_ctrl_c_stops_the_question_and_not_the_session(write, tmp_path):
    write(FIRST, "import time\nprint('begun')\ntime.sleep(300)", "SUBMIT(answer=len(hits) + 5)")
    terminal = Terminal([sys.executable, "-m", "rlm.cli", "chat", "task.yaml"], tmp_path)
    try:
        terminal.wait_for(r"\[1\] ")
        terminal.type("How many?\r")
        seen = terminal.wait_for(r"\[2\] ")
        terminal.type("Slowly?\r")
        seen = terminal.wait_for("running the code", seen)
        terminal.type("\x03")
        seen = terminal.wait_for(r"Stopped\.", seen)
        terminal.wait_for(r"\[3\] ", seen)
        terminal.type("Five more?\r")
        seen = terminal.wait_for(r"answer +7", seen)
        terminal.wait_for(r"\[4\] ", seen)
        terminal.type("\x04")
        terminal.wait_for(r"rlm sessions resume \w+")
        assert terminal.process.wait(60) == 0
    finally:
        terminal.close()
