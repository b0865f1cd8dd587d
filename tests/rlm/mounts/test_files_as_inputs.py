"""Files and folders as inputs of a run: what is accepted, what the model reads, what is on record, and replay."""

from __future__ import annotations

import hashlib
from pathlib import Path

import pytest

import rlm
from rlm.models.scripted import scripted_lm
from rlm.repl.prompts import describe_inputs, long_inputs
from rlm.signatures import InvalidInputs, Signature
from rlm.traces import find

LOG = "".join(f"10:00:{n:02d} GET /{n} {'500' if n % 7 == 0 else '200'}\n" for n in range(60))
SUBMIT = "```python\nSUBMIT(answer=sum(line.endswith('500') for line in log.text.splitlines()))\n```"


@pytest.fixture
def log(tmp_path: Path) -> Path:
    path = tmp_path / "server.log"
    path.write_text(LOG)
    return path


def test_a_path_never_becomes_a_file():
    signature = Signature.of("log: File, more: list[File] -> answer: int")
    for log, more in (("/etc/passwd", []), ({"path": "/etc/passwd"}, []), ("/etc/passwd", ["/etc/passwd"])):
        with pytest.raises(InvalidInputs, match="File"):
            signature.check_inputs({"log": log, "more": more})


def test_a_folder_is_no_file(tmp_path, log):
    signature = Signature.of("data: Folder -> answer: int")
    with pytest.raises(InvalidInputs):
        signature.check_inputs({"data": rlm.File(log)})
    assert signature.check_inputs({"data": rlm.Folder(tmp_path)})["data"].name == tmp_path.name


@pytest.mark.parametrize("signature", ["log: File -> answer", "log -> answer", "log: Any -> answer"])
def test_a_file_stays_a_file_whatever_the_type_of_its_field(log, signature):
    inputs = Signature.of(signature).plain_inputs({"log": rlm.File(log)})
    assert inputs["log"] == rlm.File(log)


def test_dspy_signatures_have_files(log):
    import dspy

    class Count(dspy.Signature):
        """Count."""

        log: rlm.File = dspy.InputField(desc="the log")
        answer: int = dspy.OutputField()

    signature = Signature.of(Count)
    assert signature.check_inputs({"log": rlm.File(log)})["log"].name == "server.log"
    assert "the log" in describe_inputs(signature, {"log": rlm.File(log)})


def test_the_prompt_has_name_size_kind_and_shape_but_no_path(log):
    described = describe_inputs(Signature.of("log: File -> answer"), {"log": rlm.File(log)})
    assert described.startswith("- log (File): 'server.log', text/plain, ")
    assert "log.text" in described
    assert "60 lines" in described
    assert str(log.parent) not in described


def test_the_prompt_counts_the_files_of_a_folder(tmp_path):
    for number in range(30):
        (tmp_path / f"{number:02d}.csv").write_text("a,b\n")
    (tmp_path / "odd\nname.txt").write_text("x")
    described = describe_inputs(Signature.of("data: Folder -> answer"), {"data": rlm.Folder(tmp_path)})
    assert "31 files" in described
    assert "30 .csv, 1 .txt" in described
    assert "'00.csv'" in described
    assert "\nname" not in described


def test_files_have_to_be_read_before_an_answer_counts(log):
    assert long_inputs({"log": rlm.File(log), "docs": [rlm.File(log)], "n": 3}) == ("log", "docs")


def test_code_reads_a_file_and_its_hash_is_on_record(log, pool, tmp_path, monkeypatch):
    monkeypatch.setenv("RLM_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("RLM_TRACE", "on")
    predict = rlm.Predict("log: File -> answer: int", lm=scripted_lm([SUBMIT]), pool=pool)
    result = predict.run_with_fallback(log=rlm.File(log))
    assert isinstance(result, rlm.Submitted), result
    assert result.outputs.answer == 9
    run = find(result.run_id)
    (hashed,) = run.events(kinds=["files_hashed"])
    assert run.resolve(hashed.data)["files"]["log"]["sha256"] == hashlib.sha256(LOG.encode()).hexdigest()
    assert run.inputs() == {"log": rlm.File(log)}
