"""SUBMIT, validate_json and the extraction refuse the same values, in the same words."""

from __future__ import annotations

import datetime
from typing import Annotated

import pydantic
import pytest

from rlm.budgets import FallbackTrigger
from rlm.results import Extracted, Failed, Submitted
from rlm.signatures import Field, Signature

ONCE = FallbackTrigger(max_iterations=1)


class Age(pydantic.BaseModel):
    n: int

    @pydantic.field_validator("n")
    @classmethod
    def not_young(cls, n: int) -> int:
        if n < 10:
            raise ValueError("n is below ten")
        return n


AGED = Signature("Aged", "Find the age.", (Field("doc"),), (Field("p", Age),))


def outputs_of(made):
    return [event.data["output"] for event in made.events if event.kind == "cell_ended"]


# -- the extraction


async def test_an_extracted_value_that_a_check_refuses_is_asked_for_again(make):
    made = make(["x = 30"], trigger=ONCE, extraction=['{"answer": 3}', '{"answer": 30}'], checks=("answer > 10",))
    result = await made.run(doc="")
    assert isinstance(result, Extracted)
    assert result.outputs.answer == 30
    assert "the check `answer > 10` is not true" in made.asked("extraction")[1].messages[0].text


async def test_with_none_that_a_check_accepts_the_run_fails_and_keeps_the_value(make):
    said = ['{"answer": 3, "_extraction_notes": "a guess"}'] * 3
    made = make(["x = 30"], trigger=ONCE, extraction=said, checks=("answer > 10",))
    result = await made.run(doc="")
    assert isinstance(result, Failed)
    assert result.partial_outputs == {"answer": 3}
    assert "3 attempts" in result.reason
    assert "answer > 10" in result.reason


async def test_refusals_of_all_kinds_share_one_budget_of_attempts(make):
    said = ["no json", '{"p": {"n": "old"}}', '{"p": {"n": 3}}', '{"p": {"n": 30}}']
    made = make(["x = 30"], signature=AGED, trigger=ONCE, extraction=said)
    assert isinstance(await made.run(doc=""), Failed)
    assert len(made.asked("extraction")) == 3


async def test_what_only_a_validator_refuses_is_told_to_the_extraction_model(make):
    made = make(["x = 30"], signature=AGED, trigger=ONCE, extraction=['{"p": {"n": 3}}', '{"p": {"n": 30}}'])
    result = await made.run(doc="")
    assert isinstance(result, Extracted)
    assert result.outputs.p == Age(n=30)
    assert "At path '/p/n': n is below ten (got 3)" in made.asked("extraction")[1].messages[0].text


async def test_a_null_is_not_asked_for_again_and_no_check_sees_it(make):
    made = make(["x = 1"], trigger=ONCE, extraction=['{"answer": null}', '{"answer": 30}'], checks=("answer > 10",))
    result = await made.run(doc="")
    assert isinstance(result, Failed)
    assert result.reason.endswith("no value was found for answer")
    assert len(made.asked("extraction")) == 1


# -- validate_json


async def said_twice(make, value, signature, **options):
    """What validate_json says of a value, and what SUBMIT does; without the first word of each."""
    code = f"print(validate_json({value}))"
    made = make([code, f"SUBMIT({value})"], signature=signature, extraction=["no"] * 3, **options)
    await made.run(doc="")
    checked, refused = outputs_of(made)
    return checked.removeprefix("This value"), refused.partition("InvalidSubmission: ")[2].removeprefix("SUBMIT")


@pytest.mark.parametrize(
    ("value", "signature", "checks", "line"),
    [
        ("{'p': {'n': 3}}", AGED, (), "At path '/p/n': n is below ten (got 3)"),
        ("{'answer': 3}", "doc -> answer: int", ("answer > 10",), "the check `answer > 10` is not true"),
        ("{'answer': {1}}", "doc -> answer: int", (), "The value at '/answer' was a set."),
        ("{'answer': int}", "doc -> answer: str", (), "was given a type, not a value: /answer"),
    ],
    ids=["validator", "check", "set", "type"],
)
async def test_validate_json_says_what_submit_says(make, value, signature, checks, line):
    trigger = FallbackTrigger(max_iterations=2)
    checked, refused = await said_twice(make, value, signature, checks=checks, trigger=trigger)
    assert line in checked
    assert checked == refused


async def test_validate_json_reads_json_text_and_holds_it_to_the_checks(make):
    code = "print(validate_json('{\"answer\": 3}'))\nprint(validate_json('{\"answer\": 30}'))\nSUBMIT(answer=30)"
    made = make([code], checks=("answer > 10",))
    assert isinstance(await made.run(doc=""), Submitted)
    first, second = outputs_of(made)[0].splitlines()
    assert "answer > 10" in first
    assert second == "valid"


async def test_a_check_can_be_about_an_output_that_was_left_out(make):
    signature = "doc -> answer: int, tags: list[str] = []"
    result = await make(["SUBMIT(answer=1)"], signature=signature, checks=("len(tags) < answer",)).run(doc="")
    assert isinstance(result, Submitted), result


def test_a_validators_own_words_are_kept_for_a_whole_field():
    def even(n: int) -> int:
        if n % 2:
            raise AssertionError("n is odd")
        return n

    signature = Signature("T", "", (), (Field("n", Annotated[int, pydantic.AfterValidator(even)]),))
    with pytest.raises(ValueError, match=r"At path '/n': n is odd \(got 3\)"):
        signature.check_outputs({"n": 3})


# -- what is converted


@pytest.mark.parametrize(
    ("kind", "value", "expected"),
    [
        (float | None, "float('nan')", None),
        (list[float | None], "[1.5, float('nan')]", [1.5, None]),
        (float | None, "numpy.float64('nan')", None),
        (float, "decimal.Decimal('1.5')", 1.5),
        (str, "decimal.Decimal('1.50')", "1.50"),
        (datetime.timedelta, "datetime.timedelta(days=800, seconds=0.25)", datetime.timedelta(days=800, seconds=0.25)),
        (datetime.timedelta, "datetime.timedelta(days=-1)", datetime.timedelta(days=-1)),
        (float, "datetime.timedelta(minutes=1)", 60.0),
        (datetime.date, "pandas.Timestamp('2024-01-31')", datetime.date(2024, 1, 31)),
        (list[datetime.date], "[datetime.datetime(2024, 1, 31)]", [datetime.date(2024, 1, 31)]),
        (datetime.datetime, "datetime.date(2024, 1, 31)", datetime.datetime(2024, 1, 31)),
        (datetime.datetime | None, "pandas.NaT", None),
        (list[int], "pandas.Series([3, 4], index=['a', 'b'])", [3, 4]),
        (dict[str, int], "pandas.Series([3, 4], index=['a', 'b'])", {"a": 3, "b": 4}),
        (list[dict[str, int]], "pandas.DataFrame({'a': [1, 2], 'b': [3, 4]})", [{"a": 1, "b": 3}, {"a": 2, "b": 4}]),
    ],
)
async def test_values_are_converted_to_what_the_schema_has_a_place_for(make, kind, value, expected):
    signature = Signature("T", "", (Field("doc"),), (Field("answer", kind),))
    code = (
        f"import datetime, decimal, numpy, pandas\nprint(validate_json(dict(answer={value})))\nSUBMIT(answer={value})"
    )
    made = make([code], signature=signature)
    result = await made.run(doc="")
    assert isinstance(result, Submitted), result
    assert result.outputs.answer == expected
    assert outputs_of(made)[0].startswith("valid")


async def test_a_time_of_day_is_not_lost(make):
    code = "import datetime\nSUBMIT(answer=datetime.datetime(2024, 1, 31, 9, 30))"
    made = make([code], signature="doc -> answer: date", trigger=ONCE, extraction=["no"] * 3)
    assert isinstance(await made.run(doc=""), Failed)
    assert "The value at '/answer' was a datetime." in outputs_of(made)[0]


@pytest.mark.parametrize(("kind", "value"), [("float", "float('nan')"), ("Optional[float]", "float('inf')")])
async def test_what_has_no_place_is_named(make, kind, value):
    made = make([f"SUBMIT(answer={value})"], signature=f"doc -> answer: {kind}", trigger=ONCE, extraction=["no"] * 3)
    assert isinstance(await made.run(doc=""), Failed)
    assert "which is not JSON" in outputs_of(made)[0]
