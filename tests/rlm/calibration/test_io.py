"""Calibrators as files: what is written is read again, and nothing that is damaged is used."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from rlm.calibration import Calibrator, CalibratorError, NoThreshold, calibrate, load, save, scorer_of
from rlm.calibration.calibrator import Isotonic, Whole
from rlm.extraction.confidence import Judgement, score
from rlm.extraction.evidence.find import Findings
from tests.support.calibration_answers import make_answers, numbers, telling


@pytest.fixture(scope="module")
def calibrator() -> Calibrator:
    made = calibrate(make_answers(telling, 300), fitted_on={"suites": ["made"]}).calibrator
    assert made is not None
    return made


@pytest.mark.parametrize("method", ["logistic", "isotonic"])
def test_a_calibrator_comes_back_from_its_file(calibrator: Calibrator, tmp_path: Path, method: str) -> None:
    made = calibrator if method == "logistic" else Calibrator(Isotonic(((0.2, 0.1), (0.9, 1.0))), Whole("least"))
    save(made, tmp_path / "c.json")
    read = load(tmp_path / "c.json")
    evidence = {"a": numbers(0.8, named=1.0), "b": numbers(0.8, against=1.0)}
    assert read.method == method
    assert read(evidence, _findings(evidence)) == made(evidence, _findings(evidence))
    assert (read.fitted_on, read.measures) == (made.fitted_on, made.measures)
    assert [right for _, right in read.held_out] == [right for _, right in made.held_out]
    assert [one.name for one in tmp_path.iterdir()] == ["c.json"]


def _findings(evidence: dict[str, dict[str, float]]) -> Findings:
    return Findings((), False, False, 0.0, features=evidence)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"format": "other"}, "is not a calibrator; `rlm eval calibrate` writes one"),
        ({"version": 2}, "version 2; this version of rlm reads version 1. Create it again"),
        ({"version": None}, "version None"),
        ({"method": "magic"}, "damaged: method"),
        ({"whole": {"way": "sum"}}, "damaged: whole.way"),
        ({"whole": {"way": "scaled", "slope": -1.0}}, "damaged: whole.slope"),
        ({"held_out": [[1.5, True]]}, "damaged: held_out.0.0"),
        ({"held_out": [[0.5, 1]]}, "damaged: held_out.0.1"),
        ({"more": 1}, "damaged: more"),
        ({"curve": {"intercept": 0.0}}, "damaged: weights"),
        ({"curve": {"intercept": "0", "weights": {}}}, "damaged: intercept"),
        (
            {"curve": {"intercept": 0.0, "weights": {"mood": 1.0}}},
            "evidence that this version of rlm does not have: mood",
        ),
        ({"method": "isotonic", "curve": {"points": [[0.5, 0.6], [0.4, 0.7]]}}, "must rise"),
        ({"method": "isotonic", "curve": {"points": []}}, "damaged: points"),
    ],
)
def test_a_damaged_file_is_refused(calibrator: Calibrator, tmp_path: Path, change: dict[str, Any], said: str) -> None:
    path = tmp_path / "c.json"
    save(calibrator, path)
    path.write_text(json.dumps(json.loads(path.read_text()) | change))
    with pytest.raises(CalibratorError) as caught:
        load(path)
    assert str(caught.value).startswith(str(path))
    assert said in str(caught.value)


def test_what_is_not_even_json_is_refused(tmp_path: Path) -> None:
    with pytest.raises(CalibratorError, match="cannot be read: No such file"):
        load(tmp_path / "none.json")
    (tmp_path / "c.json").write_text("{")
    with pytest.raises(CalibratorError, match="is not JSON"):
        load(tmp_path / "c.json")
    (tmp_path / "c.json").write_text("[]")
    with pytest.raises(CalibratorError, match="is not a calibrator"):
        load(tmp_path / "c.json")


def test_a_scorer_is_a_function_or_a_file_and_only_a_calibrator_has_a_rule(
    calibrator: Calibrator, tmp_path: Path
) -> None:
    assert scorer_of(score) is score
    save(calibrator, tmp_path / "c.json")
    read = scorer_of(str(tmp_path / "c.json"), {"error": 0.2})
    assert isinstance(read, Calibrator)
    assert read.rule is not None
    assert read.rule.error == 0.2
    with pytest.raises(ValueError, match="accept_at needs a calibrator"):
        scorer_of(score, {"error": 0.1})
    with pytest.raises(ValueError, match=r"accept_at must be \{'error': share\}"):
        scorer_of(calibrator, {"errors": 0.1})
    with pytest.raises(ValueError, match=r"accept_at must be \{'error': share\}, such as \{'error': 0.1\}, not 0.1"):
        scorer_of(calibrator, 0.1)  # type: ignore[arg-type]
    with pytest.raises(NoThreshold):
        scorer_of(calibrator, {"error": 0.0001})


def test_a_calibrator_judges_by_field_and_as_a_whole(calibrator: Calibrator) -> None:
    good, bad = numbers(0.8, named=1.0), numbers(0.8, against=1.0)
    judgement = calibrator({}, _findings({"a": good, "b": bad}))
    assert isinstance(judgement, Judgement)
    assert judgement.fields["a"] > 0.8 > 0.3 > judgement.fields["b"]
    assert judgement.confidence <= judgement.fields["b"] + 0.1
    assert judgement.refused is None
    ruled = calibrator.accepting(0.2)
    assert ruled({}, _findings({"a": good})).refused is None
    assert "an error of at most 20% needs" in str(ruled({}, _findings({"a": bad})).refused)


def test_the_ways_from_fields_to_the_answer() -> None:
    assert Whole("product")([0.5, 0.8]) == pytest.approx(0.4)
    assert Whole("least")([0.5, 0.8]) == 0.5
    assert Whole("scaled", 0.0, 1.0)([0.5, 0.8]) == pytest.approx(0.4)
    assert Whole("scaled", 1.0, 0.5)([0.5, 0.8]) > 0.4
    assert Whole("product")([0.01] * 50) == 0.005, "never certain"
