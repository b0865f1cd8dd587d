"""`rlm replay` and files among the inputs: whether they are what they were."""

from __future__ import annotations

import json

import pytest

import rlm
from rlm.traces import find

TASK = """
signature: "log: File, data: Folder -> answer: int"
inputs: {log: {file: server.log}, data: {folder: folder}}
models: {scripted: replies.yaml}
"""
REPLIES = """
main:
  - |
    ```python
    SUBMIT(answer=len(log.text.splitlines()) + sum(one.size for one in data.files))
    ```
"""


@pytest.fixture
def recorded(command, tmp_path, monkeypatch):
    """The id of a recorded run of a task file with a file and a folder."""
    monkeypatch.setenv("RLM_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("RLM_TRACE", "on")
    (tmp_path / "folder").mkdir()
    (tmp_path / "folder" / "a.txt").write_text("a")
    (tmp_path / "server.log").write_text("one 0\ntwo 0\n")
    (tmp_path / "task.yaml").write_text(TASK)
    (tmp_path / "replies.yaml").write_text(REPLIES)
    code, out, err = command("run", "task.yaml", "--json", "--quiet")
    assert code == 0, err
    assert json.loads(out)["outputs"] == {"answer": 3}
    return json.loads(out)["run_id"]


def test_the_same_files(recorded, command):
    code, out, _ = command("replay", recorded)
    assert code == 0
    assert "Every cell printed what it had printed" in out
    assert "not what they were" not in out


@pytest.mark.parametrize("changed", ["server.log", "folder/a.txt"])
def test_another_file(recorded, command, tmp_path, changed):
    path = tmp_path / changed
    path.write_text(path.read_text().swapcase())
    code, out, _ = command("replay", recorded)
    assert code != 0
    assert "These inputs are not what they were" in out
    assert "the same size" in out
    assert ("  log (" in out, "  data (" in out) == (changed == "server.log", changed != "server.log")


def test_a_file_that_is_gone(recorded, tmp_path):
    (tmp_path / "server.log").unlink()
    with pytest.raises(rlm.errors.InputNotRecorded, match=r"server\.log"):
        find(recorded).inputs()


def test_a_file_from_the_command_line(command, tmp_path, monkeypatch):
    (tmp_path / "other.log").write_text("one\n")
    (tmp_path / "folder").mkdir()
    (tmp_path / "task.yaml").write_text(TASK)
    (tmp_path / "replies.yaml").write_text(REPLIES)
    given = ("-i", "log=@other.log", "-i", "data=@folder")
    code, out, err = command("run", "task.yaml", *given, "--json", "--quiet")
    assert (code, json.loads(out)["outputs"]) == (0, {"answer": 1}), err
    code, _, err = command("run", "task.yaml", "-i", "log=@absent.log", "-i", "data=@folder")
    assert code != 0
    assert "absent.log" in err


def test_a_folder_where_the_signature_has_none(command, tmp_path):
    (tmp_path / "task.yaml").write_text(TASK.replace("data: Folder", "data: str"))
    (tmp_path / "replies.yaml").write_text(REPLIES)
    (tmp_path / "server.log").write_text("")
    (tmp_path / "folder").mkdir()
    code, _, err = command("check", "task.yaml")
    assert code != 0
    assert "data: Folder" in err
