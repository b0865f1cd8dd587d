"""Runs that were resumed: they say so, they are linked, and they are not resumed twice by mistake."""

from __future__ import annotations

import json
from typing import Any

import nbformat
import pytest

from rlm.cli.recorded_tasks import complete_run
from rlm.traces import find, load

CELLS = ["x = 1", "y = undefined", "SUBMIT(n=x)"]


@pytest.fixture
def home(tmp_path, monkeypatch):
    monkeypatch.setenv("RLM_HOME", str(tmp_path / "home"))
    replies = {"main": [f"```python\n{cell}\n```" for cell in CELLS], "extraction": ['{"n": null}']}
    (tmp_path / "replies.yaml").write_text(json.dumps(replies))
    task = (
        'signature: "doc -> n: int"\ninputs: {doc: x}\nmodels: {scripted: replies.yaml}\nbudget: {max_iterations: 2}\n'
    )
    (tmp_path / "task.yaml").write_text(task)
    return tmp_path


@pytest.fixture
def ended(home, command) -> str:
    """A run that its budget has ended."""
    _, out, _ = command("run", "task.yaml", "--json")
    return str(json.loads(out)["run_id"])


def resume(command: Any, run: str, *options: str) -> str:
    code, out, err = command("resume", run, "--max-iterations", "3", "--json", *options)
    assert code == 0, err
    return str(json.loads(out)["run_id"])


def test_a_run_that_was_resumed_names_the_later_one_and_is_not_run_again(command, ended):
    later = resume(command, ended)
    code, out, err = command("resume", ended)
    assert (code, out) == (2, "")
    assert f"run {ended} was resumed already, as run {later} (submitted)" in err
    assert f"`rlm runs show {later}`" in err
    assert f"`rlm resume {ended} --again`" in err
    again = resume(command, ended, "--again")
    assert find(ended).resumed_by == again != later


def test_both_are_linked_in_the_list_and_on_their_pages(command, ended):
    later = resume(command, ended)
    assert f"resumed by  run {later}" in command("runs", "show", ended)[1]
    assert f"continues run {ended}" in " ".join(command("runs", "show", later)[1].split())
    lines = command("runs", "list", "--json")[1].splitlines()
    listed = {run["id"]: run for run in map(json.loads, lines)}
    assert listed[ended]["resumed_by"] == later
    assert listed[later]["resumed_by"] is None
    assert listed[ended]["ending"] == "failed"


def test_an_unfinished_run_is_resumed_once_another_has_gone_on(command, ended, monkeypatch):
    record = find(ended)
    with record.file.path.open("r+b"):
        import sqlite3

        with sqlite3.connect(record.file.path) as connection:
            connection.execute("UPDATE runs SET ending = 'unfinished' WHERE id = ?", (ended,))
    assert find(ended).ending == "unfinished"
    later = resume(command, ended)
    assert find(ended).ending == "resumed"
    assert [run.id for run in load().where(ending="unfinished")] == []
    assert ended in command("runs", "list", "--ending", "resumed")[1]
    assert later not in command("runs", "list", "--ending", "resumed")[1]


def test_a_fork_resumes_nothing(command, ended):
    code, _, err = command("fork", ended, "--at", "1", "--max-iterations", "3", "--json")
    assert code == 0, err
    assert find(ended).resumed_by is None


def test_shells_complete_the_ids_of_runs(ended):
    (found,) = complete_run(None, None, ended[:3])
    assert found.value == ended
    assert found.help.startswith("failed, ")
    assert complete_run(None, None, "no such") == []


def test_completion_is_offered_by_the_commands_that_take_a_run(command, ended, monkeypatch):
    from click.shell_completion import BashComplete

    from rlm.cli.main import rlm

    for words in (["resume"], ["replay"], ["fork"], ["runs", "show"], ["runs", "diff", ended], ["runs", "export"]):
        found = BashComplete(rlm, {}, "rlm", "_RLM_COMPLETE").get_completions(words, ended[:2])
        assert [one.value for one in found] == [ended], words


def test_failed_cells_of_a_notebook_let_those_after_them_run(command, ended, tmp_path):
    assert command("runs", "export", ended, "--to", "ipynb", "-o", "run.ipynb")[0] == 0
    notebook = nbformat.read(tmp_path / "run.ipynb", as_version=4)
    nbformat.validate(notebook)
    tags = {cell.source: cell.metadata.get("tags") for cell in notebook.cells if cell.cell_type == "code"}
    assert tags["y = undefined"] == ["raises-exception"]
    assert tags["x = 1"] is None
