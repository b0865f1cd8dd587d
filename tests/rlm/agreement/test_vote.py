"""Votes of runs on their outputs, value by value."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rlm.agreement.settings import AgreementSettings
from rlm.agreement.vote import first_difference, same_answer, tally


def votes(*answers: dict[str, Any]) -> Any:
    return tally(dict(enumerate(answers)))


@pytest.mark.parametrize(
    ("left", "right", "same"),
    [
        (3, 3.0, True),
        (0.1 + 0.2, 0.3, True),
        (3, 4, False),
        (True, 1, False),
        ("Anna  Kristina", "anna kristina", True),
        (["a", "b"], ["b", "a"], True),
        (["a", "a"], ["a", "b"], False),
        ([{"n": 1}, {"n": 2}], [{"n": 2}, {"n": 1.0}], True),
        ({"a": 1}, {"a": 1, "b": 2}, False),
        (None, 0, False),
        ([], [], True),
    ],
)
def test_values_are_compared_by_what_they_mean(left: Any, right: Any, same: bool) -> None:
    assert same_answer(left, right) is same
    assert same_answer(right, left) is same


def test_most_runs_decide_each_field_by_itself() -> None:
    count = votes({"n": 1, "name": "x"}, {"n": 2, "name": "x"}, {"n": 2, "name": "y"})
    assert count.outputs() == {"n": 2, "name": "x"}
    assert (count.agree, count.by_pointer()) == (2, {"/n": 2, "/name": 2})
    assert [count.support(run) for run in range(3)] == [1, 2, 1]


def test_a_mapping_is_decided_key_by_key() -> None:
    count = votes({"n": {"a": 1, "b": 2}}, {"n": {"a": 1, "b": 3}}, {"n": {"a": 5, "b": 3}})
    assert count.outputs() == {"n": {"a": 1, "b": 3}}


def test_a_key_that_most_runs_do_not_have_is_left_out() -> None:
    assert votes({"n": {"a": 1, "b": 2}}, {"n": {"a": 1}}, {"n": {"a": 1}}).outputs() == {"n": {"a": 1}}


def test_of_equal_groups_the_first_run_wins_and_nothing_is_decided() -> None:
    count = votes({"n": 1}, {"n": 2})
    assert count.outputs() == {"n": 1}
    assert not count.is_decided(0)


@pytest.mark.parametrize("nothing", [0, 0.0, None, "", "  ", [], {}])
def test_nothing_is_outvoted_by_any_value(nothing: Any) -> None:
    count = votes({"n": nothing}, {"n": nothing}, {"n": 7})
    assert (count.outputs(), count.agree) == ({"n": 7}, 1)
    assert votes({"n": nothing}, {"n": nothing}).outputs() == {"n": nothing}


def test_false_and_a_key_with_zero_are_values() -> None:
    assert votes({"n": False}, {"n": False}, {"n": True}).outputs() == {"n": False}
    assert votes({"n": {"a": 0}}, {"n": {"a": 0}}, {"n": {"a": 3}}).outputs() == {"n": {"a": 0}}


@pytest.mark.parametrize(
    ("answers", "remaining", "decided"),
    [
        ([1, 1], 1, True),
        ([1, 2], 1, False),
        ([1], 0, False),
        ([1, 1, 2], 2, False),
        ([1, 1, 1], 2, True),
        ([], 0, False),
        ([0, 0], 1, False),
        ([0, 0, 0], 0, True),
        ([1, 1, 0], 1, True),
    ],
)
def test_it_is_decided_when_the_rest_cannot_change_it(answers: list[int], remaining: int, decided: bool) -> None:
    assert votes(*({"n": one} for one in answers)).is_decided(remaining) is decided


def test_the_first_difference_of_two_programs() -> None:
    code = [(1, "# look\nx = 1\n"), (2, "y = x + 1")]
    other = [(1, "x = 1"), (2, "y = x + 2")]
    assert first_difference(code, other) == {"iteration": 2, "code": "y = x + 1", "other": "y = x + 2"}
    assert first_difference(code, code) is None
    assert first_difference(code[:1], other) == {"iteration": 1, "code": "", "other": "y = x + 2"}


VALUES = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(), st.floats(allow_nan=False), st.text(max_size=5)),
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(st.text(max_size=3), inner, max_size=3)),
    max_leaves=6,
)


@given(st.lists(st.dictionaries(st.sampled_from("abc"), VALUES, min_size=3), min_size=1, max_size=5))
def test_runs_that_say_the_same_agree_and_every_vote_counts_every_run(answers: list[dict[str, Any]]) -> None:
    count = votes(*answers)
    assert all(sum(len(runs) for _, runs in vote.groups) == len(answers) for vote in count.votes)
    same = votes(*[answers[0]] * 3)
    assert same.agree == 3
    assert same.outputs() == answers[0]


@pytest.mark.parametrize("wrong", [0, -1, 16, True, "3", 2.5])
def test_a_wrong_number_of_runs_is_refused(wrong: Any) -> None:
    with pytest.raises(ValueError, match="from 2 to 15"):
        AgreementSettings.of(wrong)


def test_one_run_is_no_agreement_and_reconcile_needs_one() -> None:
    assert AgreementSettings.of(None) is None
    assert AgreementSettings.of(1) is None
    with pytest.raises(ValueError, match="agree=3"):
        AgreementSettings.of(None, reconcile=True)
