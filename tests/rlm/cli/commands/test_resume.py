"""`rlm resume`, `replay` and `fork`: runs of real processes that were interrupted, killed or cut off."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

RLM = [sys.executable, "-m", "rlm.cli"]
CELLS = [
    "found = [llm_query(f'page {n}') for n in range(3)]\nprint(found)",
    "import time\nfirst = llm_query('is it so?')\nif wait():\n    time.sleep(6)\nprint('waited')",
    "SUBMIT(n=len(''.join(found)), said=first)",
]
TOOLS = """
from pathlib import Path

HERE = Path(__file__).parent

def wait() -> bool:
    'Whether to wait: the first time only.'
    with (HERE / "asked").open("a") as file:
        file.write("x")
    return (HERE / "asked").stat().st_size == 1
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A task of three cells; the second one sleeps for some seconds where it is told to wait."""
    monkeypatch.setenv("RLM_HOME", str(tmp_path / "home"))
    replies = {
        "main": [f"```python\n{cell}\n```" for cell in CELLS],
        "sub": {"page": "abc", "is it so?": "yes"},
        "extraction": ['{"n": 9, "said": "yes"}'],
    }
    (tmp_path / "replies.yaml").write_text(json.dumps(replies))
    (tmp_path / "aids.py").write_text(TOOLS)
    (tmp_path / "doc.txt").write_text("a long text")
    (tmp_path / "task.yaml").write_text(
        'signature: "doc: str -> n: int, said: str"\ninputs: {doc: {file: doc.txt}}\n'
        "models: {scripted: replies.yaml}\ntools: [aids:wait]\n"
    )
    return tmp_path


def stopped_in_the_second_cell(folder: Path, command: Any, number: int) -> str:
    """Start the task, send it a signal while its second cell sleeps: the id of the run."""
    process = subprocess.Popen(
        [*RLM, "run", "task.yaml"], cwd=folder, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True
    )
    try:
        until = time.monotonic() + 60
        while not (folder / "asked").exists():
            assert time.monotonic() < until, "the second cell never ran"
            assert process.poll() is None, process.stderr.read() if process.stderr else ""
            time.sleep(0.02)
        time.sleep(0.3)  # what is on its way to the record may get there; the rest is what a kill loses
        process.send_signal(number)
        _, said = process.communicate(timeout=60)
    finally:
        if process.poll() is None:
            process.kill()
    listed = [json.loads(line) for line in command("runs", "list", "--json")[1].splitlines()]
    assert len(listed) == 1
    if number == signal.SIGINT:
        assert process.returncode == 130
        assert f"rlm resume {listed[0]['id']}" in said
    return str(listed[0]["id"])


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGKILL])
@pytest.mark.kills
def test_a_run_that_was_stopped_goes_on_and_asks_nothing_twice(folder: Path, command: Any, number: int) -> None:
    run = stopped_in_the_second_cell(folder, command, number)
    (folder / "doc.txt").unlink()  # its inputs are on record
    code, out, err = command("resume", run[:8], "--json")
    assert code == 0, err
    result = json.loads(out)
    assert result["outputs"] == {"n": 9, "said": "yes"}
    assert result["iterations"] == 3
    assert result["usage"]["llm_calls"] == 4
    from rlm.traces import find

    resumed = find(result["run_id"], folder / "home")
    assert resumed.resumed_from == run
    assert [call.role for call in resumed.model_calls if not call.past] == ["main"]


def test_a_submitted_run_has_nothing_to_resume_but_can_be_forked_and_replayed(folder: Path, command: Any) -> None:
    (folder / "asked").write_text("x")
    code, out, err = command("run", "task.yaml", "--json")
    assert code == 0, err
    run = json.loads(out)["run_id"]
    code, _, err = command("resume", run)
    assert code == 2
    assert f"rlm fork {run}" in err

    code, out, err = command("replay", run)
    assert (code, err) == (0, "")
    assert "no model was asked" in out
    assert "It ended as before: submitted" in out

    code, out, err = command("fork", run, "--at", "1", "--json")
    assert code == 0, err
    assert json.loads(out)["outputs"] == {"n": 9, "said": "yes"}
    assert command("fork", run, "--at", "7")[0] == 2


def test_a_replay_reports_what_came_out_otherwise(folder: Path, command: Any) -> None:
    replies = {"main": ["```python\nimport time\nprint(time.time_ns())\nSUBMIT(n=1, said='x')\n```"]}
    (folder / "replies.yaml").write_text(json.dumps(replies))
    run = json.loads(command("run", "task.yaml", "--json")[1])["run_id"]
    code, out, _ = command("replay", run)
    assert code == 1
    assert "Iteration 1 has another output" in out
    assert "It ended as before: submitted" in out
    report = json.loads(command("replay", run, "--json")[1])
    assert report["same"] is False
    assert report["differences"][0]["recorded"] != report["differences"][0]["now"]


def test_a_run_cut_off_by_its_budget_goes_on_with_a_larger_one(folder: Path, command: Any) -> None:
    (folder / "asked").write_text("x")
    code, out, err = command("run", "task.yaml", "--json", "--max-iterations", "1")
    assert code == 0, err
    first: dict[str, Any] = json.loads(out)
    assert first["status"] == "extracted"
    text = (folder / "task.yaml").read_text()
    (folder / "task.yaml").write_text(text.replace("models:", "models :"))
    code, out, err = command("resume", first["run_id"], "--max-iterations", "5", "--json")
    assert code == 0, err
    assert json.loads(out)["status"] == "submitted"
    assert "has changed since" in err


@pytest.mark.usefixtures("folder")
def test_unknown_runs_are_named(command: Any) -> None:
    for name in ("resume", "replay"):
        code, _, err = command(name, "abcdef")
        assert code == 2
        assert "abcdef" in err
        assert "Traceback" not in err


def test_runs_from_python_go_on_in_python(folder: Path, command: Any, pool: Any) -> None:
    import dspy

    import rlm
    from rlm.models.scripted import scripted_lm

    os.environ["RLM_HOME"] = str(folder / "home")
    cells = [f"```python\n{cell}\n```" for cell in ("n = len(llm_query('x'))", "SUBMIT(n=n)")]
    cut_off = rlm.FallbackTrigger(max_iterations=1)
    with dspy.context(lm=scripted_lm(cells[:1])):
        first = rlm.Predict(
            "doc -> n: int",
            sub_lm=scripted_lm(["four"]),
            extraction_lm=scripted_lm(["no"] * 3),
            trigger=cut_off,
            pool=pool,
        ).run_with_fallback(doc="x")
    from rlm.traces.writer import default_observer

    default_observer().flush()  # type: ignore[attr-defined]
    code, _, err = command("resume", first.run_id)
    assert code == 2
    assert f"Predict(...).resume('{first.run_id}')" in err
    with dspy.context(lm=scripted_lm(cells[1:])):
        result = rlm.Predict("doc -> n: int", sub_lm=scripted_lm([]), pool=pool).resume(first.run_id)
    assert result.outputs.n == 4
