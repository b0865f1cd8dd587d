"""`rlm runs` on real records: what is printed, what is refused, and that nothing printed can command a terminal."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from rlm.cli import rlm
from rlm.traces import RunRecord, load
from tests.support.replies import cell

Record = Callable[..., RunRecord]
Command = Callable[..., Result]


@pytest.fixture
def command(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Command:
    monkeypatch.setenv("RLM_HOME", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    return lambda *arguments: CliRunner().invoke(rlm, ["runs", *arguments])


def test_list_shows_filters_and_speaks_json(record: Record, command: Command) -> None:
    assert "No runs are recorded yet" in command("list").stderr
    submitted = record([cell("SUBMIT(n=987654321)")])
    failed = record([])
    shown = command("list").stdout
    assert submitted.id in shown
    assert "n: 987654321" in shown
    assert shown.index(failed.id) < shown.index(submitted.id)
    assert failed.id not in command("list", "--ending", "submitted").stdout
    (line,) = command("list", "--search", "987654321", "--json").stdout.splitlines()
    assert json.loads(line)["id"] == submitted.id


def test_show_tells_the_whole_story(record: Record, command: Command) -> None:
    run = record(
        [cell("n = 38\nprint('there are', n)", "I count."), cell("raise ValueError('oh')")],
        max_iterations=2,
        extraction=["nonsense", '{"n": 38}'],
    )
    page = command("show", run.id[:6]).stdout
    for text in ("extracted", "2 of 2 iterations", "I count.", "there are 38", "ValueError: oh", "+ n ", "nonsense"):
        assert text in page
    assert "variable n: 38" in page
    one = command("show", run.id, "--iteration", "1").stdout
    assert "there are 38" in one
    assert "ValueError" not in one
    assert json.loads(command("show", run.id, "--json").stdout)["result"]["outputs"] == {"n": 38}
    missing = command("show", run.id, "--iteration", "9")
    assert missing.exit_code == 2
    assert "no iteration 9" in missing.stderr


def test_diff_export_and_prune(record: Record, command: Command, tmp_path: Path) -> None:
    first, second = record([cell("SUBMIT(n=1)")]), record([cell("print(5)"), cell("SUBMIT(n=2)")])
    page = command("diff", first.id, second.id).stdout
    assert "diverge at iteration 1" in page
    assert "+print(5)" in page
    assert json.loads(command("diff", first.id, second.id, "--json").stdout)["diverged_at"] == 1
    assert "Wrote" in command("export", first.id, "--to", "ipynb").stderr
    assert json.loads((tmp_path / f"{first.id}.ipynb").read_text())["nbformat"] == 4
    assert len(command("export", first.id, "--to", "jsonl", "-o", "-").stdout.splitlines()) == first.event_count
    assert "Wrote" in command("export", first.id, "--to", "json", "-o", "new/folder/run.json").stderr
    assert json.loads((tmp_path / "new" / "folder" / "run.json").read_text())["result"]["outputs"] == {"n": 1}
    (tmp_path / "file").touch()
    refused = command("export", first.id, "--to", "json", "-o", "file/run.json")
    assert (refused.exit_code, "cannot be written" in refused.stderr) == (2, True)
    assert "Would remove 2 runs" in command("prune", "--older", "0s", "--dry-run").stdout
    assert len(load(tmp_path)) == 2
    assert "Removed 2 runs" in command("prune", "--older", "0s").stdout
    assert len(load(tmp_path)) == 0


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("show", "zzz"), "no recorded run"),
        (("list", "--batch", "nope"), "nope: there is no such file"),
        (("prune",), "Say what to remove"),
        (("prune", "--older", "5x"), "duration"),
        (("prune", "--keep-bytes", "lots"), "size"),
    ],
)
def test_mistakes_are_usage_errors(command: Command, arguments: tuple[str, ...], said: str) -> None:
    result = command(*arguments)
    assert result.exit_code == 2
    assert said in result.stderr


def test_nothing_that_is_printed_can_command_a_terminal(record: Record, command: Command) -> None:
    evil = "\x1b]0;owned\x07\x1b[2J\u202e\x9b31m"
    first = record(
        [cell(f"print({evil!r})\nx = {evil!r}", evil), cell("SUBMIT(s='a\\x1b[31m')")], signature="doc -> s", doc=evil
    )
    second = record([cell(f"print({evil!r}, 1)"), cell("SUBMIT(s='b\\x1b[31m')")], signature="doc -> s", doc=evil)
    for arguments in (("list",), ("show", first.id), ("diff", first.id, second.id), ("show", first.id, "--json")):
        page = command(*arguments).stdout
        assert page
        for character in "\x1b\x07\u202e\x9b":
            assert character not in page


def test_the_command_imports_nothing_heavy() -> None:
    code = (
        "import sys; import rlm.cli.commands.runs, rlm.traces\n"
        "heavy = {'dspy', 'numpy', 'pandas', 'starlette', 'litellm', 'outlines'} & set(sys.modules)\n"
        "sys.exit(f'imported {heavy}' if heavy else 0)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


TASK = """\
signature: "doc: str -> n: int"
inputs: {doc: "one two three"}
models: {main: {scripted: replies.yaml}}
"""


def run_task(folder: Path, replies: dict[str, str] | list[str], more: str = "") -> None:
    (folder / "replies.yaml").write_text(json.dumps({"main": replies}))
    (folder / "task.yaml").write_text(TASK + more)
    assert CliRunner().invoke(rlm, ["run", "task.yaml", "-q"]).exit_code == 0


def test_conversations_of_submitted_runs_are_training_data(
    command: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MY_API_KEY", "sk-secret-secret-secret")
    run_task(
        tmp_path, [cell("print('sk-secret-secret-secret', len(doc))"), cell("SUBMIT(n=len(doc.split()))", "I count.")]
    )
    run_task(tmp_path, [cell("import time\nprint(time.time_ns(), len(doc))\nSUBMIT(n=3)")])
    done = command("training", "--to", "sft", "-o", "train.jsonl")
    assert "2 lines from 2 runs." in done.stderr
    lines = [json.loads(line) for line in (tmp_path / "train.jsonl").read_text().splitlines()]
    roles = sorted([message["role"] for message in line["messages"]] for line in lines)
    assert roles == [["system", "user", "assistant"], ["system", "user", "assistant", "user", "assistant"]]
    assert any(line["messages"][-1]["content"].startswith("I count.") for line in lines)
    assert "sk-secret" not in (tmp_path / "train.jsonl").read_text()
    checked = command("training", "--to", "sft", "-o", "-", "--replay-check")
    assert "1 line from 1 run; 1 run left out by --replay-check." in checked.stderr
    (line,) = map(json.loads, checked.stdout.splitlines())
    assert len(line["messages"]) == 5


def test_tasks_with_their_answers_are_rows_for_environments(command: Command, tmp_path: Path) -> None:
    run_task(tmp_path, [cell("SUBMIT(n=len(doc.split()))")])
    (row,) = map(json.loads, command("training", "--to", "verifiers", "-o", "-").stdout.splitlines())
    assert [message["role"] for message in row["prompt"]] == ["system", "user"]
    assert (json.loads(row["answer"]), row["info"]["inputs"]) == ({"n": 3}, {"doc": "one two three"})


def test_runs_that_agree_are_preferred_to_one_that_does_not(
    command: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from tests.support.skilled_model import skilled_lm

    asked: list[str] = []

    def skill(prompt: str) -> str:
        asked.append(prompt)
        return cell("SUBMIT(n=len(doc))") if len(asked) == 2 else cell("SUBMIT(n=len(doc.split()))")

    lm = skilled_lm(skill)
    monkeypatch.setattr("rlm.runner.make_model", lambda spec, role, had=0: lm)
    run_task(tmp_path, ["-"], "agree: 3\n")
    (pair,) = map(json.loads, command("training", "--to", "preferences", "-o", "-").stdout.splitlines())
    assert "len(doc.split())" in pair["chosen"][-1]["content"]
    assert "len(doc))" in pair["rejected"][-1]["content"]
    taken = [json.loads(line) for line in command("training", "--to", "sft", "-o", "-").stdout.splitlines()]
    assert [line["messages"][-1] for line in taken] == [pair["chosen"][-1]] * 2
