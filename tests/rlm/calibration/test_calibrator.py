"""A calibrator in use: in `Predict`, in a task file, and as a rule that refuses answers."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import dspy
import pytest

import rlm
from rlm import results
from rlm.calibration import Calibrator, load, save
from rlm.calibration.calibrator import Logistic, Whole
from rlm.cli import rlm as group
from rlm.cli.main import guard
from rlm.evals.config import EvalSettings, Evaluation
from rlm.evals.simulated import Oracle, oracle_lm
from rlm.evals.suites import SUITES
from rlm.models.scripted import scripted_lm
from rlm.results import Extracted, Failed, Submitted
from rlm.signatures import Signature

NAMED = "```python\nweight = sum(map(int, doc.split()))\n```"
NOTHING = "```python\nx = len(doc)\n```"
ANSWER = '{"weight": 5010, "lost": false}'
HELD_OUT = tuple((0.85, True) for _ in range(200)) + tuple((0.1, False) for _ in range(200))


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """A calibrator that believes in variables with the field's name, and in little else."""
    curve = Logistic(-1.0, {"named": 4.0, "boolean": 3.0})
    save(Calibrator(curve, Whole("least"), held_out=HELD_OUT), tmp_path / "c.json")
    return tmp_path / "c.json"


def predict(pool: Any, main: str, **options: Any) -> Any:
    made = rlm.Predict(
        "doc: str -> weight: int, lost: bool",
        trigger=rlm.FallbackTrigger(max_iterations=1),
        extraction_lm=scripted_lm([ANSWER]),
        pool=pool,
        **options,
    )
    with dspy.context(lm=scripted_lm([main])):
        return made.run_with_fallback(doc="5000 10")


def test_a_calibrated_confidence_takes_the_place_of_the_formula(pool: Any, file: Path) -> None:
    result = predict(pool, NAMED, confidence=str(file))
    assert isinstance(result, Extracted)
    assert result.field_confidence == pytest.approx({"weight": 0.9526, "lost": 0.8808}, abs=1e-3)
    assert result.confidence == min(result.field_confidence.values())
    assert predict(pool, NOTHING, confidence=load(file)).confidence == pytest.approx(0.2689, abs=1e-3)
    plain = predict(pool, NAMED)
    assert (plain.confidence, plain.field_confidence) == (pytest.approx(0.8), {})
    assert plain.features == result.features


def test_an_answer_below_the_threshold_is_not_acceptable(pool: Any, file: Path) -> None:
    good = predict(pool, NAMED, confidence=file, accept_at={"error": 0.1})
    assert isinstance(good, Extracted)
    bad = predict(pool, NOTHING, confidence=file, accept_at={"error": 0.1})
    assert isinstance(bad, Failed)
    assert bad.partial_outputs == {"weight": 5010, "lost": False}
    assert bad.reason == (
        "1 of 1 iteration used without SUBMIT; the confidence in the answer is 0.27, "
        "and an error of at most 10% needs 0.85"
    )
    assert (len(bad.history), bad.confidence) == (1, pytest.approx(0.2689, abs=1e-3))


def test_other_models_than_it_was_fitted_on_are_noted(pool: Any, file: Path) -> None:
    known, other = (
        replace(load(file), fitted_on={"models": [name]}) for name in ("scripted/main", "openai/gpt-5-mini")
    )
    assert predict(pool, NAMED, confidence=known).extraction_notes is None
    noted = predict(pool, NAMED, confidence=other)
    assert isinstance(noted, Extracted)
    assert noted.confidence == predict(pool, NAMED, confidence=file).confidence
    assert noted.extraction_notes == (
        "The confidence is by a calibrator that was fitted on openai/gpt-5-mini, not on scripted/main: "
        "for these it may be far off."
    )
    refused = predict(pool, NOTHING, confidence=other, accept_at={"error": 0.1})
    assert isinstance(refused, Failed)
    assert "needs 0.85 (The confidence is by a calibrator that was fitted on openai/gpt-5-mini" in refused.reason


def test_the_oracle_is_the_same_model_in_a_log_and_from_python(pool: Any, file: Path) -> None:
    sample = next(SUITES["needle"].generate(3, 4_000, 1))
    logged = Evaluation(("needle",), EvalSettings(models={"main": "oracle"})).header()["models"]
    made = rlm.Predict(
        Signature.of(sample.signature, instructions=sample.instructions),
        trigger=rlm.FallbackTrigger(max_iterations=2),
        confidence=replace(load(file), fitted_on={"models": sorted(set(logged.values()))}),
        pool=pool,
    )
    with dspy.context(lm=oracle_lm(Oracle(bad_code=0.0, wrong_code=0.0))):
        result = made.run_with_fallback(**sample.inputs)
    assert isinstance(result, Extracted)
    assert result.extraction_notes is None


def test_what_was_submitted_is_judged_as_what_was_extracted(pool: Any, tmp_path: Path) -> None:
    curve = Logistic(0.0, {"computed": 3.0, "typed": -3.0})
    calibrator = Calibrator(curve, Whole("least"), {"endings": ["submitted"]}, held_out=HELD_OUT)
    typed, computed = (
        f"```python\nSUBMIT(weight={weight}, lost={lost})\n```"
        for weight, lost in (("5010", "True"), ("sum(map(int, doc.split()))", "'lost' in doc"))
    )
    good = predict(pool, computed, confidence=calibrator, accept_at={"error": 0.1})
    assert isinstance(good, Submitted)
    assert (good.confidence, good.trust, good.notes) == (pytest.approx(0.9526, abs=1e-3), "probability 0.95", None)
    bad = predict(pool, typed, confidence=calibrator, accept_at={"error": 0.1})
    assert isinstance(bad, Failed)
    assert bad.partial_outputs == {"weight": 5010, "lost": True}
    assert "the confidence in the answer is 0.05" in bad.reason
    assert bad.evidence, "why it is doubtful stays"


def test_a_calibrator_says_what_it_has_never_seen(pool: Any) -> None:
    submit = "```python\nSUBMIT(weight=len(doc), lost=not doc)\n```"
    known = Calibrator(Logistic(0.0, {}), Whole("least"), {"endings": ["extracted"], "kinds": ["number", "boolean"]})
    result = predict(pool, submit, confidence=known)
    assert isinstance(result, Submitted)
    assert "has never seen submitted answers:" in (result.notes or "")
    kinds = replace(known, fitted_on={"endings": ["submitted"], "kinds": ["number"]})
    noted = predict(pool, submit, confidence=kinds)
    assert isinstance(noted, Submitted)
    assert "has never seen values of the kind boolean:" in (noted.notes or "")
    read = results.from_json(noted.to_json(), Signature.of("doc: str -> weight: int, lost: bool"))
    assert read.to_dict() == noted.to_dict()


def test_a_calibrated_result_comes_back_from_json(pool: Any, file: Path) -> None:
    result = predict(pool, NAMED, confidence=file)
    signature = Signature.of("doc: str -> weight: int, lost: bool")
    read = results.from_json(result.to_json(), signature)
    assert isinstance(read, Extracted)
    assert (read.field_confidence, read.features) == (result.field_confidence, result.features)
    assert read.to_dict() == result.to_dict()
    older = {key: value for key, value in result.to_dict().items() if key not in ("features", "field_confidence")}
    read = results.from_dict(older, signature)
    assert isinstance(read, Extracted)
    assert (read.field_confidence, read.features) == ({}, {})


def test_a_bad_calibrator_is_refused_before_anything_runs(tmp_path: Path) -> None:
    with pytest.raises(rlm.calibration.CalibratorError, match="No such file"):
        rlm.Predict("doc -> n: int", confidence=tmp_path / "none.json")
    with pytest.raises(ValueError, match="accept_at needs a calibrator"):
        rlm.Predict("doc -> n: int", accept_at={"error": 0.1})
    for wrong in (None, 0.5, {"calibrator": "c.json"}):
        with pytest.raises(TypeError, match=r"confidence must be a function .* confidence='calibrator\.json'"):
            rlm.Predict("doc -> n: int", confidence=wrong)


def test_an_error_to_accept_that_is_no_number_is_refused(file: Path) -> None:
    with pytest.raises(TypeError, match=r"accept_at: error must be a number between 0 and 1, such as 0\.1, not '0\.1'"):
        rlm.Predict("doc -> n: int", confidence=file, accept_at={"error": "0.1"})


TASK = """signature: "doc: str -> weight: int, lost: bool"
inputs: {doc: "5000 10"}
models: {scripted: replies.yaml}
budget: {max_iterations: 1}
confidence:
  calibrator: c.json
  accept_at: {error: 0.1}
"""


@pytest.mark.parametrize(("main", "status", "code"), [(NAMED, "extracted", 0), (NOTHING, "failed", 1)])
def test_a_task_file_takes_a_calibrator(
    file: Path, main: str, status: str, code: int, capfd: pytest.CaptureFixture[str]
) -> None:
    folder = file.parent
    save(replace(load(file), fitted_on={"models": ["oracle"]}), file)
    (folder / "task.yaml").write_text(TASK)
    (folder / "replies.yaml").write_text(json.dumps({"main": [main], "extraction": [ANSWER]}))
    assert guard(group, ["run", str(folder / "task.yaml"), "--json"]) == code
    result = json.loads(capfd.readouterr().out)
    assert result["status"] == status
    if status == "failed":
        assert "an error of at most 10% needs" in result["reason"]
        assert result["partial_outputs"] == {"weight": 5010, "lost": False}
    else:
        assert set(result["field_confidence"]) == {"weight", "lost"}
        assert "fitted on oracle, not on scripted (replies.yaml)" in result["extraction_notes"]


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("c.json", "d.json", "task.yaml:6:15: confidence.calibrator: "),
        ("{error: 0.1}", "{error: 0.0001}", "task.yaml:7:22: confidence.accept_at.error: "),
        ("{error: 0.1}", "{error: 2}", "confidence.accept_at.error must be less than 1"),
        ("{error: 0.1}", "{eror: 0.1}", "confidence.accept_at.eror is not known; did you mean error?"),
        ("calibrator: c.json", "path: c.json", "confidence.calibrator is missing"),
    ],
)
def test_what_is_wrong_with_the_section_is_said_with_its_place(file: Path, old: str, new: str, said: str) -> None:
    from rlm.tasks import TaskError
    from rlm.tasks import load as load_task

    (file.parent / "task.yaml").write_text(TASK.replace(old, new))
    (file.parent / "replies.yaml").write_text("main: []\n")
    with pytest.raises(TaskError) as caught:
        load_task(file.parent / "task.yaml")
    assert said in str(caught.value)
