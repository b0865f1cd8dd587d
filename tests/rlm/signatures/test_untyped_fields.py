"""Fields without a type: inputs take any value, and outputs that are numbers are written as text."""

from __future__ import annotations

import datetime
from typing import Any

import dspy
import pytest

import rlm
from rlm.models.scripted import scripted_lm
from rlm.signatures import InvalidInputs, Signature

UNTYPED = [Signature.of("doc -> n: int"), Signature.of(dspy.Signature("doc -> n: int"))]


@pytest.mark.parametrize("signature", UNTYPED, ids=["text", "dspy"])
@pytest.mark.parametrize(
    "value", ["text", 3, 2.5, None, True, [1, {"a": None}], {"a": [1]}, {1, 2}, datetime.date(2026, 1, 2), b"\x00"]
)
def test_an_input_without_a_type_takes_any_value(signature: Signature, value: Any) -> None:
    assert signature.plain_inputs({"doc": value}) == {"doc": value}
    assert signature.takes("doc", value)


@pytest.mark.parametrize("signature", UNTYPED, ids=["text", "dspy"])
def test_it_is_still_required_and_must_be_a_value_that_can_be_given(signature: Signature) -> None:
    with pytest.raises(InvalidInputs, match="nothing"):
        signature.plain_inputs({})
    with pytest.raises(InvalidInputs, match="a value that JSON can carry"):
        signature.plain_inputs({"doc": object()})


@pytest.mark.parametrize(
    "signature", [Signature.of("doc: str -> n: int"), Signature.of(dspy.Signature("doc: str -> n: int"))]
)
def test_an_input_that_is_text_takes_text_only(signature: Signature) -> None:
    with pytest.raises(InvalidInputs, match="expected str"):
        signature.plain_inputs({"doc": 3})


def test_code_has_the_value_as_it_was_given(pool: Any) -> None:
    lm = scripted_lm(["```python\nSUBMIT(n=doc['rows'][1] + len(names))\n```"])
    result = rlm.Predict("doc, names -> n: int", lm=lm, pool=pool).run_with_fallback(
        doc={"rows": [1, 20]}, names={"a", "b"}
    )
    assert result.outputs.n == 22


@pytest.mark.parametrize(("value", "written"), [("3", "3"), ("'three'", "three"), ("2.5", "2.5"), ("True", "True")])
def test_an_output_without_a_type_takes_numbers_as_text(pool: Any, value: str, written: str) -> None:
    lm = scripted_lm([f"```python\nSUBMIT(answer={value})\n```"])
    assert rlm.Predict("doc -> answer", lm=lm, pool=pool)(doc="x").answer == written


@pytest.mark.parametrize(("signature", "value"), [("doc -> answer: str", "3"), ("doc -> answer", "[1]")])
def test_other_outputs_are_as_strict_as_before(pool: Any, signature: str, value: str) -> None:
    lm = scripted_lm([f"```python\nSUBMIT(answer={value})\n```", "```python\nSUBMIT(answer='corrected')\n```"])
    assert rlm.Predict(signature, lm=lm, pool=pool)(doc="x").answer == "corrected"
