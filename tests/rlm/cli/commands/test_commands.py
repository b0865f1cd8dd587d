"""The commands that run nothing: help, check, init, schema, completion, doctor."""

from __future__ import annotations

import json
import os
import resource
import subprocess
import sys
from pathlib import Path
from typing import Any

import jsonschema_rs
import pytest
import yaml

from rlm import __version__
from rlm.cli import exit_codes
from rlm.tasks import TaskError, TaskProblem
from tests.support.tiny_gguf import write_tiny

COMMANDS = ["run", "batch", "check", "init", "schema", "doctor", "completion"]
HEAVY = ("dspy", "litellm", "pydantic", "rich", "yaml", "sandbox.session")


def test_help_is_quick_and_imports_nothing_heavy() -> None:
    code = (
        "import sys, rlm.cli\n"
        "try: rlm.cli.main(['--help'])\n"
        f"finally: sys.stderr.write(repr([name for name in {HEAVY} if name in sys.modules]))"
    )
    used = []
    for _ in range(3):
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        # The processor's time, which is the same when other tests keep the machine busy.
        used.append(after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)
    assert done.returncode == 0
    assert done.stderr == "[]"
    assert min(used) < 0.4


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_teaches_with_an_example(command: Any, name: str) -> None:
    code, out, _ = command(name, "--help")
    assert code == 0
    assert "Example:" in out
    assert f"rlm {name}" in out


def test_help_lists_every_command_and_the_exit_codes(command: Any) -> None:
    code, out, _ = command("--help")
    assert code == 0
    assert all(command in out for command in COMMANDS)
    assert "130 interrupted" in out


def test_version(command: Any) -> None:
    assert command("--version") == (0, f"rlm {__version__}\n", "")


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["nonsense"], "No such command"),
        (["rnu"], "No such command 'rnu'; did you mean run?"),
        (["runs", "lst"], "did you mean list?"),
        (["eval", "comapre"], "did you mean compare?"),
        (["task.yaml"], "`rlm run task.yaml`"),
        (["run"], "Missing argument"),
        (["run", "t.yaml", "-i", "doc"], "is not NAME=VALUE"),
        (["run", "t.yaml", "-i", "a=1", "-i", "a=2"], "given twice"),
        (["run", "t.yaml", "--max-duration", "soon"], "such as 90s, 5m or 1h30m"),
        (["run", "t.yaml", "--max-iterations", "-1"], "x>=0"),
        (["run", "t.yaml", "--max-cost-usd", "nan"], "'--max-cost-usd': 'nan' is no number that can be used here"),
        (["batch", "t.yaml", "--max-cost", "nan"], "'--max-cost': 'nan' is no number"),
        (["batch", "t.yaml", "--fail-on-error", "NaN"], "'--fail-on-error': 'NaN' is no number"),
        (["eval", "run", "needle", "--error-rate", "nan"], "'--error-rate': 'nan' is no number"),
        (["eval", "run", "needle", "--max-cost", "inf"], "'--max-cost': 'inf' is no number"),
        (["run", "missing.yaml"], "missing.yaml: cannot be read (No such file or directory)"),
    ],
)
def test_wrong_usage_ends_with_2(command: Any, arguments: list[str], said: str) -> None:
    code, out, err = command(*arguments)
    assert (code, out) == (2, "")
    assert said in err


# check, init, schema, completion -----------------------------------------------------------------------------------


def test_init_writes_what_check_accepts_and_never_overwrites(
    command: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-secret")
    assert command("init")[0] == 0
    written = (tmp_path / "task.yaml").read_text()
    code, out, _ = command("check", "task.yaml")
    assert code == 0
    assert out.startswith("task.yaml is fine: doc: str, question: str -> answer: str, quotes: list of str")
    (tmp_path / "task.yaml").write_text("mine")
    code, _, err = command("init")
    assert code == 2
    assert "exists already" in err
    assert (tmp_path / "task.yaml").read_text() == "mine"
    assert written.count("# ") > 20


def test_init_writes_into_a_folder_or_says_why_not(command: Any, tmp_path: Path) -> None:
    (tmp_path / "here").mkdir()
    assert command("init", "here")[0] == 0
    assert (tmp_path / "here" / "task.yaml").exists()
    code, _, err = command("init", "nowhere/task.yaml")
    assert code == 2
    assert "No such file or directory" in err


def test_every_line_of_the_example_that_is_commented_out_is_right_too(command: Any, tmp_path: Path) -> None:
    command("init")
    given = yaml.safe_load((tmp_path / "task.yaml").read_text())
    validator = jsonschema_rs.validator_for(json.loads(command("schema")[1]))
    validator.validate(given)
    validator.validate(
        {
            **given,
            "sandbox": {"cell_seconds": 60, "memory_bytes": "1GB", "isolation": "auto"},
            "budget": {"preset": "strict", "max_tokens": 200000, "max_cost_usd": 0.5, "max_consecutive_errors": 5},
            "tools": ["kit:look_up"],
            "depth": 1,
        }
    )


def test_check_says_everything_that_is_wrong(command: Any, tmp_path: Path) -> None:
    (tmp_path / "task.yaml").write_text('signature: "doc: str -> n: int"\nmodels: m\nbudget: {max_iteration: 1}\n')
    code, out, err = command("check", "task.yaml")
    assert (code, out) == (2, "")
    assert err.splitlines() == [
        "task.yaml:1:1: input doc (str) is missing; add it under `inputs:`, or with -i doc=VALUE",
        "task.yaml:3:10: budget.max_iteration is not known; did you mean max_iterations?",
    ]


def test_check_takes_the_options_that_run_takes(command: Any, tmp_path: Path) -> None:
    (tmp_path / "task.yaml").write_text('signature: "doc: str -> n: int"\n')
    code, out, _ = command("check", "task.yaml", "-i", "doc=x", "--model", "openai/a", "--max-duration", "2m")
    assert code == 0
    assert "openai/a; at most 20 iterations, 2:00" in out


def test_check_warns_of_models_that_are_probably_wrong(
    command: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    models = "{main: opnai/gpt-5, sub: gpt-5, extraction: openai/gpt-5}"
    (tmp_path / "task.yaml").write_text(f'signature: "doc: str -> n: int"\ninputs: {{doc: x}}\nmodels: {models}\n')
    code, out, err = command("check", "task.yaml")
    assert code == 0
    assert out.startswith("task.yaml can be run, with 3 warnings: ")
    assert err.splitlines() == [
        "warning: the main model opnai/gpt-5: the provider 'opnai' is not known here; did you mean openai?",
        "warning: the sub model 'gpt-5' has no provider; write it as in openai/gpt-5-mini",
        "warning: openai/gpt-5 needs a key: set OPENAI_API_KEY, or name the variable that holds it with `api_key_env:` "
        "in the task file",
    ]
    monkeypatch.setenv("OPENAI_API_KEY", "sk-secret")
    code, out, err = command("check", "task.yaml", "--model", "openai/a", "--sub-model", "openai/b")
    assert (code, err) == (0, "")
    assert out.startswith("task.yaml is fine: ")


def test_schema_is_json_alone(command: Any) -> None:
    code, out, err = command("schema")
    assert (code, err) == (0, "")
    assert json.loads(out)["title"] == "rlm task"


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion_scripts(command: Any, shell: str) -> None:
    code, out, _ = command("completion", shell)
    assert code == 0
    assert f"_RLM_COMPLETE={shell}_complete" in out


def test_completion_completes_without_importing_anything_heavy() -> None:
    code = (
        "import sys, rlm.cli\n"
        "try: rlm.cli.main()\n"
        f"finally: sys.stderr.write(repr([name for name in {HEAVY} if name in sys.modules]))"
    )
    environment = {**os.environ, "_RLM_COMPLETE": "bash_complete", "COMP_WORDS": "rlm run --max", "COMP_CWORD": "2"}
    done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=False)
    assert "plain,--max-iterations" in done.stdout
    assert done.stderr == "[]"


# doctor ------------------------------------------------------------------------------------------------------------


def test_doctor_names_keys_and_never_shows_them(command: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-very-secret")
    monkeypatch.setenv("EMPTY_API_KEY", "")
    code, out, err = command("doctor", "--json")
    found = {one["name"]: one for one in json.loads(out)["checks"]}
    assert code in (0, 4)
    assert "OPENAI_API_KEY" in found["API keys"]["detail"]
    assert "EMPTY_API_KEY" not in found["API keys"]["detail"]
    assert found["dspy"]["detail"].startswith("dspy ")
    assert "secret" not in out + err


def test_doctor_names_the_extra_of_what_is_not_installed(command: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    from rlm.models.local import backend_choice

    monkeypatch.setattr(backend_choice, "is_installed", lambda module: module not in ("uvicorn", "opentelemetry.sdk"))
    _, out, _ = command("doctor", "--json")
    found = {one["name"]: one for one in json.loads(out)["checks"]}
    assert found["the page"]["ok"] is found["telemetry"]["ok"] is False
    assert found["the page"]["advice"] == "pip install 'rlm-kernel[viewer]'"
    assert found["Ray"]["ok"] is True


def test_check_says_that_a_local_model_cannot_be_run_here(
    command: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from rlm.models.local import backend_choice

    monkeypatch.setattr(backend_choice, "is_installed", lambda module: False)
    write_tiny(tmp_path / "tiny.gguf")
    (tmp_path / "task.yaml").write_text("signature: 'a -> n: int'\ninputs: {a: x}\nmodels: ./tiny.gguf\n")
    code, out, err = command("check", str(tmp_path / "task.yaml"))
    assert code == 0
    assert "warning: tiny.gguf cannot be run here: nothing is installed that runs it: pip install 'rlm-kernel[" in err
    assert "can be run, with" in out


def test_doctor_ends_with_4_where_there_is_no_isolation(command: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    from sandbox import doctor
    from sandbox.isolation.probe import Report

    monkeypatch.setattr(doctor, "probe", lambda: Report((), None))
    code, out, _ = command("doctor")
    assert code == 4
    assert "No isolation works here" in out


# How errors end ----------------------------------------------------------------------------------------------------


def failing(monkeypatch: pytest.MonkeyPatch, error: BaseException) -> None:
    def schema() -> None:
        raise error

    monkeypatch.setattr("rlm.tasks.schema.json_schema", schema)


def test_an_internal_error_is_one_line_and_3(command: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("RLM_DEBUG", raising=False)
    failing(monkeypatch, KeyError("two\nlines"))
    code, out, err = command("schema")
    assert (code, out) == (3, "")
    assert err.startswith("rlm: internal error in rlm/cli/commands/schema.py:")
    assert err.count("\n") == 1
    assert "KeyError" in err
    assert "RLM_DEBUG=1" in err


def test_an_internal_error_shows_its_traceback_when_asked(command: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RLM_DEBUG", "1")
    failing(monkeypatch, KeyError("x"))
    code, _, err = command("schema")
    assert code == 3
    assert "Traceback (most recent call last)" in err


@pytest.mark.parametrize(
    ("error", "code", "said"),
    [
        (ModuleNotFoundError("No module named 'dspy'", name="dspy"), 4, "pip install"),
        (ModuleNotFoundError("No module named 'rlm.gone'", name="rlm.gone"), 3, "internal error"),
        (exit_codes.EnvironmentProblem("no key"), 4, "rlm: no key"),
        (KeyboardInterrupt(), 130, "Interrupted."),
        (TaskError([TaskProblem("task.yaml:1:1", "\x1b[2Jhello is not known")]), 2, "\\x1b[2Jhello is not known"),
    ],
)
def test_errors_and_their_codes(
    command: Any, monkeypatch: pytest.MonkeyPatch, error: BaseException, code: int, said: str
) -> None:
    failing(monkeypatch, error)
    ended, out, err = command("schema")
    assert (ended, out) == (code, "")
    assert said in err


def test_ctrl_c_while_python_ends_leaves_no_traceback() -> None:
    code = (
        "import atexit, os, signal, rlm.cli\n"
        "atexit.register(os.kill, os.getpid(), signal.SIGINT)\n"
        "rlm.cli.main(['--version'])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (130, "")


@pytest.mark.processes
@pytest.mark.parametrize(
    ("redirection", "code"), [(">&-", 0), ("2>&-", 0), ("<&- >&- 2>&-", 0), (">/dev/full", 4), (">/dev/full 2>&1", 4)]
)
def test_streams_that_are_closed_or_full_are_no_internal_error(redirection: str, code: int) -> None:
    command = f"{sys.executable} -m rlm.cli schema {redirection}"
    done = subprocess.run(["bash", "-c", command], capture_output=True, text=True, check=False)
    assert (done.returncode, "internal" in done.stderr) == (code, False)


@pytest.mark.processes
def test_a_reader_that_goes_away_is_no_internal_error() -> None:
    command = f"{sys.executable} -m rlm.cli schema | head -c 10; echo ${{PIPESTATUS[0]}}"
    done = subprocess.run(["bash", "-c", command], capture_output=True, text=True, check=False)
    assert "internal" not in done.stderr
    assert "Traceback" not in done.stderr
