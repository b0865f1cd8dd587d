"""`rlm run` and `rlm check`: files among the outputs, and where they are copied to."""

from __future__ import annotations

TASK = """
signature: "-> report: File, n: int"
models: {scripted: replies.yaml}
save: {report: done/}
"""
REPLIES = """
main:
  - |
    ```python
    open(OUT + "/report.csv", "w").write("a,b")
    SUBMIT(report="report.csv", n=1)
    ```
"""


def test_a_copy_is_made_and_an_earlier_one_is_kept(command, tmp_path):
    (tmp_path / "task.yaml").write_text(TASK)
    (tmp_path / "replies.yaml").write_text(REPLIES)
    for _ in range(2):
        code, out, err = command("run", "task.yaml", "--quiet")
        assert code == 0, err
        assert "report.csv" in out
    assert sorted(path.name for path in (tmp_path / "done").iterdir()) == ["report-2.csv", "report.csv"]
    assert "report.csv was there already" in err


def test_only_files_can_be_saved(command, tmp_path):
    (tmp_path / "task.yaml").write_text(TASK.replace("report: done/", "n: done/"))
    (tmp_path / "replies.yaml").write_text(REPLIES)
    code, _, err = command("check", "task.yaml")
    assert code != 0
    assert "save.n is no output that is a File; those are: report" in err
