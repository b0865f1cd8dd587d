"""What is accepted: what helps on samples that were not seen, and nothing that only seems to."""

from __future__ import annotations

from dataclasses import replace

import pytest

from rlm.calibration import Answer, TooFewSamples, answers_of, calibrate
from rlm.calibration.dataset import split
from rlm.calibration.metrics import brier_difference, by_calibrator, by_formula
from tests.support.calibration_answers import entries_of, honest, make_answers, numbers, telling


def test_evidence_that_says_something_is_accepted_and_helps_on_fresh_answers() -> None:
    report = calibrate(make_answers(telling, 300, fields=(1, 2, 3)))
    assert (report.accepted, report.method) == (True, "logistic")
    assert report.calibrator is not None
    fresh = make_answers(telling, 2000, seed=99, fields=(1, 2, 3))
    before, after = by_formula(fresh), by_calibrator(report.calibrator, fresh)
    for level in ("fields", "answers"):
        old, new = getattr(before, level).measures(), getattr(after, level).measures()
        assert new.brier < old.brier - 0.05
        assert new.ece < 0.06 < old.ece
        assert new.auroc is not None
        assert old.auroc is not None
        assert new.auroc > old.auroc


def test_a_formula_that_is_right_is_not_replaced() -> None:
    accepted = [calibrate(make_answers(honest, 60, seed=seed), method="isotonic").accepted for seed in range(30)]
    assert sum(accepted) <= 2, "one in forty is what chance allows"


def test_isotonic_repairs_a_formula_that_is_only_too_sure() -> None:
    def too_sure(dice):  # type: ignore[no-untyped-def]
        formula = dice.choice((0.5, 0.8, 0.99))
        return {}, formula, formula - 0.35

    report = calibrate(make_answers(too_sure, 400), method="isotonic")
    assert report.accepted
    assert report.calibrator is not None
    assert report.calibrator.field(numbers(0.8)) == pytest.approx(0.45, abs=0.1)


def test_the_same_sample_again_proves_nothing_more() -> None:
    once = calibrate(make_answers(telling, 100))
    often = calibrate(make_answers(telling, 100, epochs=10))
    assert (often.fields.low, often.fields.high) == pytest.approx((once.fields.low, once.fields.high), abs=0.05)


def test_no_sample_is_on_both_sides_of_a_split() -> None:
    answers = make_answers(telling, 50, epochs=3)
    first, second = split(answers, 2, seed=7)
    assert not {one.sample for one in first} & {one.sample for one in second}
    assert (len(first), len(second)) == (75, 75)
    assert split(answers, 2, seed=7) == [first, second]
    assert split(answers, 2, seed=8) != [first, second]


def test_an_interval_is_wider_where_values_come_in_clusters() -> None:
    before, after = [0.5] * 400, [0.3, 0.6] * 200
    alone = brier_difference(range(400), before, after, seed=1)
    together = brier_difference([at % 2 for at in range(400)], before, after, seed=1)
    assert (alone.mean, together.mean) == pytest.approx((-0.05, -0.05))
    assert alone.improved
    assert not together.improved


def test_too_little_is_said_in_words() -> None:
    with pytest.raises(TooFewSamples, match=r"one half of the data has 15 samples .* each needs at least 20"):
        calibrate(make_answers(telling, 30))
    always = [Answer(f"s{at}", {"f": numbers()}, {"f": True}) for at in range(60)]
    with pytest.raises(TooFewSamples, match=r"all 30 fields in one half of the data are correct.* harder samples"):
        calibrate(always)


def test_the_held_out_answers_are_one_for_each_sample() -> None:
    report = calibrate(make_answers(telling, 100, epochs=2))
    assert report.calibrator is not None
    assert len(report.calibrator.held_out) == 100
    origin = {"samples": 100, "answers": 200, "fields": 200, "seed": 1, "endings": ["extracted"]}
    assert report.calibrator.fitted_on.items() >= origin.items()


def test_both_endings_are_fitted_together_and_reported_one_by_one() -> None:
    answers = make_answers(telling, 100)
    both = [replace(answer, ending="Submitted") if at % 2 else answer for at, answer in enumerate(answers)]
    report = calibrate(both)
    assert set(report.to_dict()["endings"]) == {"submitted", "extracted"}
    before, after = report.endings["Submitted"]
    assert set(before.answers.scores) == {1.0}
    assert after.answers.measures().brier < before.answers.measures().brier
    assert len(before.answers.scores) + len(report.endings["Extracted"][0].answers.scores) == 50


def test_answers_of_both_endings_with_evidence_are_read_from_a_log() -> None:
    answers = make_answers(telling, 3)
    entries = entries_of(answers)
    old = {**entries[0], "fields": {}}
    unscored = {**entries[1], "fields": {**entries[1]["fields"], "extra": numbers()}}
    found = answers_of([entries[0], old, unscored, *entries_of(answers, "Submitted"), *entries_of(answers, "Failed")])
    assert [set(one.fields) for one in found] == [{"f0"}] * 5
    assert [one.correct for one in found[:2]] == [answers[0].correct, answers[1].correct]
    assert [one.ending for one in found] == ["Extracted"] * 2 + ["Submitted"] * 3
    assert found[2].formula == 1.0, "without a calibrator, what was submitted has the confidence 1"


def test_what_counts_as_right_can_be_less_than_all() -> None:
    entry = {**entries_of(make_answers(telling, 1))[0], "scores": {"f0": 0.75}}
    assert [answers_of([entry], right)[0].correct["f0"] for right in (1.0, 0.75)] == [False, True]
