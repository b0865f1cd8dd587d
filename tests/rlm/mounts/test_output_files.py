"""Files as outputs of a run: what SUBMIT accepts, what the result and the trace have, and where copies go."""

from __future__ import annotations

import hashlib
import json

import pytest

import rlm
from rlm.models.scripted import scripted_lm
from rlm.mounts.output import OutputFile, as_output, save_all, written_in
from rlm.signatures import InvalidOutputs, Signature, SignatureError
from rlm.traces import find


def run(pool, signature, cells, **inputs):
    lm = scripted_lm([f"```python\n{cell}\n```" for cell in cells])
    result = rlm.Predict(signature, lm=lm, pool=pool).run_with_fallback(**inputs)
    prompt = "\n".join(str(turn["content"]) for turn in lm.history[0]["messages"])
    return result, prompt


WRITE = "with open(OUT + '/report.csv', 'w') as file:\n    file.write('a,b\\n')"


def test_a_file_that_code_wrote_is_an_output(pool, tmp_path, monkeypatch):
    monkeypatch.setenv("RLM_HOME", str(tmp_path))
    monkeypatch.setenv("RLM_TRACE", "on")
    cells = [WRITE, "SUBMIT(report=OUT + '/report.csv', n=1)"]
    result, prompt = run(pool, "-> report: File, n: int", cells)
    assert isinstance(result, rlm.Submitted), result
    report = result.outputs.report
    assert (report.name, report.read(), report.media_type) == ("report.csv", b"a,b\n", "text/csv")
    assert report.sha256 == hashlib.sha256(b"a,b\n").hexdigest()
    assert "by its name in the folder OUT" in prompt
    assert json.loads(result.to_json())["outputs"] == {"report": "report.csv", "n": 1}
    record = find(result.run_id)
    (event,) = record.events(kinds=["files_written"])
    (file,) = event.data["files"]
    assert (file["name"], file["size"], file["sha256"]) == ("report.csv", 4, report.sha256)
    assert record.blob(file["body"]) == b"a,b\n"


def test_a_file_that_is_not_there_is_refused_with_what_is(pool):
    cells = [f"{WRITE}\nSUBMIT(report='other.csv', more=[])", "SUBMIT(report='report.csv', more=['report.csv'])"]
    result, _ = run(pool, "-> report: File, more: list[File]", cells)
    assert isinstance(result, rlm.Submitted), result
    assert result.iterations == 2
    assert [file.read() for file in written_in(result.outputs)] == [b"a,b\n", b"a,b\n"]


@pytest.mark.parametrize("name", ["/etc/passwd", "../report.csv", "", 7, None, {"path": "/etc/passwd"}])
def test_a_path_of_the_host_is_no_output(name):
    with pytest.raises(InvalidOutputs):
        Signature.of("-> report: File").check_outputs({"report": name})


@pytest.mark.parametrize("path", ["a.csv", "/out/a.csv", "/tmp/rlm-scratch-7-x_y/out/a.csv"])
def test_names_and_paths_in_the_folder(path):
    assert Signature.of("-> report: File").check_outputs({"report": path}).report.name == "a.csv"


def test_types_of_outputs():
    signature = Signature.of("data: File -> one: File, many: dict[str, File], maybe: File | None")
    assert signature.writes_files
    assert signature.inputs[0].type is rlm.File
    assert [field.type for field in signature.outputs] == [OutputFile, dict[str, OutputFile], OutputFile | None]
    assert as_output(int) is int
    with pytest.raises(SignatureError, match="Folder"):
        Signature.of("-> all: Folder")


def test_runs_without_files_have_no_folder_and_no_event(pool, tmp_path, monkeypatch):
    monkeypatch.setenv("RLM_HOME", str(tmp_path))
    monkeypatch.setenv("RLM_TRACE", "on")
    result, prompt = run(pool, "-> n: int", ["SUBMIT(n='OUT' in globals())", "SUBMIT(n=0)"])
    assert isinstance(result, rlm.Submitted)
    assert "OUT" not in prompt
    assert find(result.run_id).events(kinds=["files_written"]) == []


def test_a_file_is_never_written_over_unasked(tmp_path):
    file = OutputFile("sub/report.csv", b"new")
    (tmp_path / "report.csv").write_text("old")
    assert file.save(tmp_path) == tmp_path / "report-2.csv"
    assert file.save(tmp_path / "report.csv") == tmp_path / "report-3.csv"
    assert (tmp_path / "report.csv").read_text() == "old"
    assert file.save(tmp_path / "report.csv", overwrite=True).read_text() == "new"
    (tmp_path / "link.csv").symlink_to(tmp_path / "absent.csv")
    assert file.save(tmp_path / "link.csv") == tmp_path / "link-2.csv"
    assert not (tmp_path / "absent.csv").exists()


def test_copies_go_where_the_task_says(tmp_path):
    outputs = Signature.of("-> report: File, charts: list[File]").check_outputs(
        {"report": "r.csv", "charts": ["a/1.png", "a/2.png"]}
    )
    for file in written_in(outputs):
        file.content = b"x"
    (tmp_path / "done.csv").write_text("old")
    said = save_all(outputs, {"report": str(tmp_path / "done.csv"), "charts": f"{tmp_path}/charts/"})
    assert sorted(path.name for path in (tmp_path / "charts").iterdir()) == ["1.png", "2.png"]
    assert f"report: saved as {tmp_path}/done-2.csv; {tmp_path}/done.csv was there already" in said


def test_a_result_from_json_has_names_and_no_contents():
    file = Signature.of("-> report: File").outputs_from_json('{"report": "a.csv"}').report
    with pytest.raises(FileNotFoundError, match=r"a\.csv"):
        file.read()
