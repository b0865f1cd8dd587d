"""`rlm run`: the plumbing with a run that is made up, and the three examples for real."""

from __future__ import annotations

import asyncio
import json
import os
import pty
import select
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import rlm.cli
from rlm.budgets import MaxIterations
from rlm.events import Event
from rlm.results import Extracted, Failed, FailureCause, Submitted
from rlm.run import Run
from tests.support.events import make_event
from tests.support.repository import EXAMPLES

RUN = [sys.executable, "-m", "rlm.cli", "run"]


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with a task whose models are scripted."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    (tmp_path / "replies.yaml").write_text("main: []\n")
    (tmp_path / "task.yaml").write_text(
        'signature: "doc: str -> n: int"\ninputs: {doc: x}\nmodels: {scripted: replies.yaml}\n'
        "sandbox: {isolation: none}\n"
    )
    return tmp_path


@pytest.fixture
def run(folder: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> Callable[..., Any]:
    """Runs the command with a run that ends as it is told to: exit code, standard output, standard error."""

    def run(ending: Any, *arguments: str) -> tuple[int, str, str]:
        class Loop:
            id = "r1"

            def __init__(self, observe: Callable[[Event], None], task: Any) -> None:
                self.observe, self.task = observe, task

            async def run(self) -> Any:
                self.observe(make_event("run_started", "r1", {"inputs": {}}))
                return await ending(self.task) if callable(ending) else ending

            def partial_result(self) -> Failed:
                return Failed("not ended", cause=FailureCause("interrupted"), run_id=self.id)

        def make_run(task: Any, *, observe: Callable[[Event], None], past: Any) -> Run:
            return Run(lambda observe: Loop(observe, task), observe)

        monkeypatch.setattr("rlm.runner.make_run", make_run)
        with pytest.raises(SystemExit) as ended:
            rlm.cli.main(["run", "task.yaml", *arguments])
        out, err = capfd.readouterr()
        assert isinstance(ended.value.code, int)
        return ended.value.code, out, err

    return run


def outputs(n: int = 3) -> Any:
    from rlm.signatures import Signature

    return Signature.of("doc: str -> n: int").check_outputs({"n": n})


def agreement(agree: int) -> dict[str, Any]:
    return {"agree": agree, "answers": 3, "of": 3, "votes": {"/n": agree}, "runs": []}


# The plumbing ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("ending", "code", "strict_code", "title"),
    [
        (Submitted(outputs(), 2, 0), 0, 0, "Submitted"),
        (Extracted(outputs(), 0.8, MaxIterations(3, 3)), 0, 1, "Extracted, unverified (formula 0.80)"),
        (Failed("no answer"), 1, 1, "Failed"),
        (Submitted(outputs(), 2, 0, agreement=agreement(2)), 0, 0, "Submitted, verified: 2 of 3"),
        (Submitted(outputs(), 2, 0, agreement=agreement(1)), 0, 1, "Submitted, disputed: 1 of 3"),
        (Submitted(outputs(), 2, 0, probability=0.4), 0, 1, "Submitted, probability 0.40"),
        (Extracted(outputs(), 0.9, MaxIterations(3, 3), probability=0.9), 0, 0, "Extracted, probability 0.90"),
    ],
    ids=["submitted", "extracted", "failed", "verified", "disputed", "improbable", "probable"],
)
def test_each_ending_has_its_exit_code(run: Any, ending: Any, code: int, strict_code: int, title: str) -> None:
    ended, out, err = run(ending)
    assert ended == code
    assert out.startswith(title)
    assert "run r1" in err
    assert run(ending, "--strict")[0] == strict_code


def test_json_is_one_object_and_nothing_else_whatever_is_printed(run: Any) -> None:
    async def noisy(task: Any) -> Any:
        print("a tool that prints")
        os.write(1, b"a library that writes to the descriptor\n")
        subprocess.run(["echo", "a child process"], check=True)
        return Submitted(outputs(), 2, 0, run_id="r1")

    code, out, err = run(noisy, "--json")
    assert code == 0
    assert json.loads(out) == Submitted(outputs(), 2, 0, run_id="r1").to_dict()
    assert out.count("\n") == 1
    assert "a tool that prints" in err
    assert "descriptor" in err
    assert "a child process" in err


def test_json_has_nothing_for_a_terminal_to_obey(run: Any) -> None:
    out = run(Failed("\x1b[2J \x9b31m \u202e café"), "--json")[1]
    assert json.loads(out)["reason"] == "\x1b[2J \x9b31m \u202e café"
    assert "café" in out
    assert not any(char in out for char in "\x1b\x9b\u202e")


def test_quiet_says_nothing_but_the_ending(run: Any) -> None:
    code, out, err = run(Submitted(outputs(), 2, 0), "--quiet")
    assert (code, err) == (0, "")
    assert out.startswith("Submitted")


def test_a_bad_file_leaves_standard_output_empty(run: Any, folder: Path) -> None:
    (folder / "task.yaml").write_text("signature: x\n")
    code, out, err = run(Failed("not run"), "--json")
    assert (code, out) == (2, "")
    assert "task.yaml:1:12: signature: " in err


def test_options_reach_the_task(run: Any) -> None:
    seen = []

    async def look(task: Any) -> Any:
        seen.append(task)
        return Failed("enough")

    run(look, "-i", "doc=other", "--max-iterations", "2", "--max-duration", "5m", "--max-cost-usd", "0.5")
    assert seen[0].inputs == {"doc": "other"}
    assert (seen[0].trigger.max_iterations, seen[0].trigger.max_duration, seen[0].trigger.max_cost_usd) == (2, 300, 0.5)


def test_a_tool_that_cannot_be_imported_is_a_bad_file(run: Any, folder: Path) -> None:
    with (folder / "task.yaml").open("a") as file:
        file.write("tools: ['broken_kit:f']\n")
    (folder / "broken_kit.py").write_text("def f(): pass\nraise RuntimeError('no')\n")
    code, _, err = run(Failed("not run"))
    assert code == 2
    assert "RuntimeError: no" in err


def test_an_error_of_the_run_is_internal(run: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("RLM_DEBUG", raising=False)

    async def broken(task: Any) -> Any:
        raise AssertionError("a bug")

    code, out, err = run(broken, "--json")
    assert (code, out) == (3, "")
    assert "internal error" in err
    assert "Traceback" not in err


def test_a_view_that_fails_does_not_end_the_run(run: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("RLM_DEBUG", raising=False)

    def broken(self: Any, event: Any) -> None:
        raise ValueError("cannot draw")

    monkeypatch.setattr("rlm.cli.progress.lines.LineView.observe", broken)
    code, out, err = run(Submitted(outputs(), 2, 0))
    assert code == 0
    assert out.startswith("Submitted")
    assert "the view stopped (ValueError: cannot draw); the run continues" in err


# The environment ---------------------------------------------------------------------------------------------------


@pytest.fixture
def no_keys(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in list(os.environ):
        if name.endswith("_API_KEY"):
            monkeypatch.delenv(name)
    monkeypatch.setattr("rlm.cli.preflight._import_litellm", lambda: None)


@pytest.mark.usefixtures("no_keys")
@pytest.mark.processes
def test_several_files_are_a_batch(folder: Path) -> None:
    done = subprocess.run([*RUN, "task.yaml", "other.yaml"], cwd=folder, capture_output=True, text=True, timeout=60)
    assert done.returncode == 2
    assert "2 files were given; this runs one task. For many: rlm batch *.yaml" in done.stderr


def test_a_missing_key_is_4_and_says_which(run: Any) -> None:
    code, out, err = run(Failed("not run"), "--model", "openai/gpt-5-mini")
    assert (code, out) == (4, "")
    assert "openai/gpt-5-mini needs a key: set OPENAI_API_KEY" in err


@pytest.mark.usefixtures("no_keys")
@pytest.mark.parametrize(
    ("models", "code"),
    [
        ("{main: {model: openai/x, api_base: 'http://localhost:1/v1'}}", 1),
        ("{main: {model: openai/x, api_key_env: MY_OWN_KEY}}", 4),
        ("{main: ollama_chat/llama3}", 1),
        ("{scripted: replies.yaml, sub: anthropic/x}", 4),
        ("{main: {model: openai/x, api_key_env: PATH}, sub: {model: openai/x, api_key_env: MY_OWN_KEY}}", 4),
        ("{main: {model: openai/x, api_key_env: MY_OWN_KEY}, sub: {model: openai/x, api_key_env: PATH}}", 4),
        ("{scripted: replies.yaml}\nadapter: {name: two-step, model: openai/x}", 4),
    ],
)
def test_only_keys_that_are_needed_are_asked_for(run: Any, folder: Path, models: str, code: int) -> None:
    text = (folder / "task.yaml").read_text().replace("{scripted: replies.yaml}", models)
    (folder / "task.yaml").write_text(text)
    assert run(Failed("it ran"))[0] == code


@pytest.mark.processes
def test_an_extraction_model_without_a_server_is_4(folder: Path) -> None:
    (folder / "task.yaml").write_text(
        'signature: "doc: str -> n: int"\ninputs: {doc: x}\nbudget: {max_iterations: 0}\n'
        "models: {scripted: replies.yaml, extraction: "
        "{model: openai/x, api_base: 'http://127.0.0.1:9/v1', num_retries: 0}}\n"
    )
    done = subprocess.run([*RUN, "task.yaml", "-q"], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (4, "")
    assert "could not be asked (transport)" in " ".join(done.stdout.split())  # in whatever width


def test_no_isolation_is_4(run: Any, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from sandbox.isolation import probe

    monkeypatch.setattr(probe, "probe", lambda: probe.Report((), None))
    text = (folder / "task.yaml").read_text().replace("isolation: none", "isolation: auto")
    (folder / "task.yaml").write_text(text)
    code, out, err = run(Failed("not run"))
    assert (code, out) == (4, "")
    assert "No isolation works on this machine" in err
    assert "rlm doctor" in err


# Ctrl-C ------------------------------------------------------------------------------------------------------------


def test_an_interrupt_keeps_the_history_and_is_130(run: Any, folder: Path) -> None:
    async def slow(task: Any) -> Any:
        asyncio.get_running_loop().call_later(0.1, os.kill, os.getpid(), signal.SIGINT)
        await asyncio.sleep(30)

    code, out, err = run(slow, "--json")
    assert code == 130
    assert json.loads(out)["reason"] == "interrupted"
    assert "Run r1" in err
    assert "rlm resume r1" in err


def test_an_interrupt_of_a_run_that_is_not_on_record_says_so(run: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    async def slow(task: Any) -> Any:
        asyncio.get_running_loop().call_later(0.1, os.kill, os.getpid(), signal.SIGINT)
        await asyncio.sleep(30)

    monkeypatch.setenv("RLM_TRACE", "off")
    code, _, err = run(slow)
    assert code == 130
    assert "RLM_TRACE" in err
    assert "rlm run" in err


def test_a_run_that_ends_by_itself_when_interrupted_has_its_own_result(run: Any) -> None:
    async def careful(task: Any) -> Any:
        asyncio.get_running_loop().call_later(0.1, os.kill, os.getpid(), signal.SIGINT)
        try:
            await asyncio.sleep(30)
        except asyncio.CancelledError:
            return Failed("stopped in time", run_id="r1")

    code, out, _ = run(careful)
    assert code == 130
    assert "stopped in time" in out


def test_a_second_interrupt_does_not_wait(run: Any) -> None:
    async def stubborn(task: Any) -> Any:
        loop = asyncio.get_running_loop()
        for after in (0.1, 0.4):
            loop.call_later(after, os.kill, os.getpid(), signal.SIGINT)
        try:
            await asyncio.sleep(30)
        finally:
            await asyncio.sleep(30)

    began = time.monotonic()
    assert run(stubborn)[0] == 130
    assert time.monotonic() - began < 10


# For real ----------------------------------------------------------------------------------------------------------


def example(name: str, *arguments: str, **options: Any) -> subprocess.CompletedProcess[str]:
    command = [*RUN, str(EXAMPLES / f"{name}.yaml"), *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=100, check=False, **options)


def test_the_example_that_submits(tmp_path: Path) -> None:
    done = example("submit", "--json", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    result = json.loads(done.stdout)
    log = (EXAMPLES / "harbour_log.txt").read_text()
    assert result["status"] == "submitted"
    assert result["outputs"]["arrivals"] == log.count("Arrived: ")
    assert result["outputs"]["incidents"] == ["1897-03-19", "1897-06-27", "1897-10-09"]
    assert result["llm_calls"] == 6
    assert "The model is scripted" in done.stderr
    assert "iteration 2 failed" in done.stderr


def test_the_example_that_is_extracted(command: Any) -> None:
    code, out, err = command("run", str(EXAMPLES / "extract.yaml"))
    assert code == 0, err
    assert out.startswith("Extracted, unverified (formula 0.")
    assert "3 of 3 iterations used without SUBMIT" in out
    assert "variable visits: 38" in out
    assert "The model is scripted" in out
    code, out, err = command("run", str(EXAMPLES / "extract.yaml"), "--strict", "--json", "--quiet")
    assert (code, err) == (1, "")
    assert json.loads(out)["status"] == "extracted"


def test_the_example_that_fails(command: Any) -> None:
    code, out, err = command("run", str(EXAMPLES / "fail.yaml"))
    assert code == 1, err
    assert out.startswith("Failed")
    assert '"name": "unknown"' in out


@pytest.mark.processes
def test_a_run_goes_on_where_nobody_can_read_its_progress(tmp_path: Path) -> None:
    command = f"{' '.join(RUN)} {EXAMPLES / 'submit.yaml'} --json 2>/dev/full"
    done = subprocess.run(["bash", "-c", command], capture_output=True, text=True, cwd=tmp_path, check=False)
    assert done.returncode == 0
    assert json.loads(done.stdout)["status"] == "submitted"


@pytest.mark.processes
def test_an_input_is_piped_in(tmp_path: Path) -> None:
    done = example("submit", "--json", "-q", "-i", "log=@-", input="a log without arrivals\n", cwd=tmp_path)
    assert done.returncode == 1, done.stderr
    assert json.loads(done.stdout)["status"] == "failed"


@pytest.mark.processes
def test_on_a_terminal_there_is_a_live_view_and_ctrl_c_ends_it(tmp_path: Path) -> None:
    (tmp_path / "replies.yaml").write_text(
        "main:\n  - |\n    ```python\n    print('hello')\n    ```\n"
        "  - |\n    ```python\n    import time\n    time.sleep(60)\n    ```\n"
    )
    (tmp_path / "task.yaml").write_text(
        'signature: "doc: str -> n: int"\ninputs: {doc: x}\nmodels: {scripted: replies.yaml}\n'
    )
    screen, end = on_a_terminal([*RUN, "task.yaml"], tmp_path, until=b"running the code")
    assert end == 130
    assert "hello" in screen
    assert "sleep" in screen
    assert "Interrupted. Run " in screen
    assert "rlm resume " in screen


def on_a_terminal(command: list[str], folder: Path, until: bytes) -> tuple[str, int]:
    """What a command shows on a terminal; it is interrupted once it sleeps in its second cell."""
    environment = {
        **os.environ,
        "TERM": "xterm",
        "COLUMNS": "100",
        "LINES": "30",
        "RLM_HOME": str(folder / "home"),
    }
    pid, terminal = pty.fork()
    if pid == 0:
        os.chdir(folder)
        os.execve(command[0], command, environment)
    screen, interrupted = b"", False
    deadline = time.monotonic() + 90
    while time.monotonic() < deadline:
        if select.select([terminal], [], [], 0.2)[0]:
            try:
                screen += os.read(terminal, 65536)
            except OSError:
                break
        if not interrupted and b"iteration 2" in screen and until in screen[screen.rindex(b"iteration 2") :]:
            interrupted = True
            os.write(terminal, b"\x03")
    os.close(terminal)
    return screen.decode(errors="replace"), os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


def test_a_signature_class_of_a_module_beside_the_file(tmp_path: Path, command: Any) -> None:
    (tmp_path / "invoices.py").write_text(
        "import datetime\nfrom typing import Literal, Optional\nimport dspy\nfrom pydantic import BaseModel\n\n"
        "class Line(BaseModel):\n    name: str\n    cents: int\n\n"
        'class Invoice(dspy.Signature):\n    """Read the invoice."""\n\n    text: str = dspy.InputField()\n'
        "    day: datetime.date = dspy.OutputField()\n    lines: list[Line] = dspy.OutputField()\n"
        "    kind: Literal['paid', 'open'] = dspy.OutputField()\n    note: Optional[str] = dspy.OutputField()\n"
    )
    submit = "SUBMIT(day='2026-03-04', lines=[{'name': 'tea', 'cents': 250}], kind='open', note=None)"
    (tmp_path / "replies.yaml").write_text(f"main:\n  - |\n    ```python\n    {submit}\n    ```\n")
    (tmp_path / "task.yaml").write_text(
        "signature: invoices:Invoice\ninputs: {text: tea 2.50}\nmodels: {scripted: replies.yaml}\n"
    )
    code, out, err = command("run", "task.yaml", "--json")
    assert code == 0, err
    assert json.loads(out)["outputs"] == {
        "day": "2026-03-04",
        "lines": [{"name": "tea", "cents": 250}],
        "kind": "open",
        "note": None,
    }
