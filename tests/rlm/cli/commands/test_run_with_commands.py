"""Tasks whose model is a program of this machine."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

import rlm.cli
from tests.support.command_programs import Programs

TASK = """\
signature: "doc: str -> n: int"
inputs: {doc: "one two three"}
models: {main: cli/claude, sub: {command: [echo-words]}}
"""
REPLY = """I count.
```python
SUBMIT(n=len(llm_query('Say it again: ' + doc).split()))
```"""


@pytest.fixture
def programs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Programs:
    programs = Programs(tmp_path / "bin")
    monkeypatch.setenv("PATH", f"{programs.folder}{os.pathsep}/usr/bin:/bin")
    monkeypatch.setenv("RLM_HOME", str(tmp_path / "home"))
    monkeypatch.chdir(tmp_path)
    (tmp_path / "task.yaml").write_text(TASK)
    return programs


def run(*arguments: str) -> Any:
    with pytest.raises(SystemExit) as ended:
        rlm.cli.main(list(arguments))
    return ended.value.code


def test_a_run_asks_programs_and_counts_what_they_tell(programs: Programs, capfd: Any) -> None:
    answer = {
        "type": "result",
        "result": REPLY,
        "total_cost_usd": 0.5,
        "usage": {"input_tokens": 7, "output_tokens": 5},
    }
    programs.write("claude", f"print({json.dumps(json.dumps(answer))})")
    programs.write("echo-words", "print(call['stdin'].rpartition(': ')[2])")
    assert run("run", "task.yaml", "--json") == 0
    result = json.loads(capfd.readouterr().out)
    assert result["outputs"] == {"n": 3}
    assert (result["llm_calls"], result["usage"]["cost_usd"]) == (1, 0.5)
    main, sub = programs.calls
    assert "SUBMIT(" in main["stdin"] + " ".join(main["argv"])
    assert sub["stdin"].endswith("Say it again: one two three")


def test_a_missing_program_is_named_before_the_run(programs: Programs, capfd: Any) -> None:
    programs.write("echo-words", "print('x')")
    assert run("check", "task.yaml") == 0
    checked = capfd.readouterr()
    assert "the program 'claude', which is not on PATH" in checked.out + checked.err
    assert run("run", "task.yaml") == 4
    assert "install it, and log in with it once" in capfd.readouterr().err
    assert programs.calls == []
