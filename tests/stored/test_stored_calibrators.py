"""Calibrators: they are loaded, they score, and runs use them."""

from __future__ import annotations

import json
import math
from typing import Any

import pytest

import rlm
from tests.support.stored_records import Harbour

pytestmark = pytest.mark.processes


def test_a_calibrator_is_loaded_and_saved_as_it_was(harbour: Harbour) -> None:
    path = harbour.folder / "calibrator.json"
    stored = json.loads(path.read_text())
    calibrator = rlm.calibration.load(path)
    assert calibrator.method == stored["method"] == "logistic"
    assert calibrator.fitted_on["models"] == ["oracle"]
    rlm.calibration.save(calibrator, harbour.folder / "copy.json")
    assert json.loads((harbour.folder / "copy.json").read_text()) == stored


def test_a_task_file_uses_it(harbour: Harbour) -> None:
    result = harbour.json("run", "calibrated.yaml", "--json", "-q")
    assert (result["status"], result["outputs"]) == ("extracted", {"weight": 5010, "heavy": True})
    assert "fitted on oracle" in result["extraction_notes"]
    # What the file says: a logistic curve on the evidence of each field, and the scaled product of the fields.
    stored = json.loads((harbour.folder / "calibrator.json").read_text())
    curve, whole = stored["curve"], stored["whole"]
    fields = {
        name: sigmoid(curve["intercept"] + sum(w * evidence.get(one, 0.0) for one, w in curve["weights"].items()))
        for name, evidence in result["features"].items()
    }
    assert fields.keys() == {"weight", "heavy"}
    assert result["field_confidence"] == pytest.approx({name: bounded(p) for name, p in fields.items()})
    product = bounded(math.prod(result["field_confidence"].values()))
    odds = whole["intercept"] + whole["slope"] * math.log(product / (1 - product))
    assert whole["way"] == "scaled"
    assert result["confidence"] == pytest.approx(bounded(sigmoid(odds)))


def test_predict_accepts_by_it(harbour: Harbour, pool: Any) -> None:
    import dspy

    from rlm.models.scripted import scripted_lm

    predict = rlm.Predict(
        "doc: str -> weight: int",
        trigger=rlm.FallbackTrigger(max_iterations=1),
        extraction_lm=scripted_lm({"weight = int": '{"weight": 5010}', "*": '{"weight": 4711}'}),
        confidence=harbour.folder / "calibrator.json",
        accept_at={"error": 0.2},
        pool=pool,
    )
    with dspy.context(lm=scripted_lm(["```python\nweight = int(doc.split()[1])\n```", "```python\nx = 1\n```"])):
        found = predict.run_with_fallback(doc="weight: 5010")
        guessed = predict.run_with_fallback(doc="weight: 5010")
    assert isinstance(found, rlm.Extracted)
    assert found.confidence > 0.8
    assert isinstance(guessed, rlm.Failed)
    assert guessed.partial_outputs == {"weight": 4711}
    assert "an error of at most 20% needs" in guessed.reason


def sigmoid(x: float) -> float:
    return 1 / (1 + math.exp(-x))


def bounded(p: float) -> float:
    """A probability as calibrators give it: never quite certain."""
    return min(max(p, 0.005), 0.995)
