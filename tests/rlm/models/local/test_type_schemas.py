"""Text that a model may write for a type can be read as that type. No model is needed."""

from __future__ import annotations

import datetime
import json
import re
import uuid
from decimal import Decimal
from fractions import Fraction
from pathlib import Path
from typing import Annotated, Any, Literal

import dspy
import pydantic
import pytest
from pydantic import BaseModel, Field, TypeAdapter

from rlm.adapters.output_spec import target_of, target_of_signature
from rlm.models.local.constraint_check import byte_matcher
from rlm.models.local.constraints import constraint_of
from rlm.models.local.errors import UnsupportedConstraint


class Invoice(BaseModel):
    total: Decimal
    numbers: set[int]
    file: Path


def may_write(output_type: Any, text: str) -> bool:
    """Whether the grammar that holds a model lets it write this, to the end."""
    matcher, data = byte_matcher(constraint_of(output_type)).deep_copy(), text.encode()
    return matcher.try_consume_tokens(list(data)) == len(data) and bool(matcher.is_accepting())


@pytest.mark.parametrize(
    ("output_type", "good", "bad"),
    [
        (Decimal, "12.50", '"Paris is red"'),
        (Decimal | None, "null", '"12 euros"'),
        (list[Decimal], "[1, 2.5]", '["one"]'),
        (dict[str, Decimal], '{"a": 1.5}', '{"a": "b"}'),
        (Annotated[Decimal, Field(gt=0, le=9)], "9", "-1"),
        (Annotated[Decimal, Field(max_digits=4, decimal_places=2)], "99.99", "100"),
        (Annotated[Decimal, Field(max_digits=4, decimal_places=2)], "-3", "1.234"),
        (Annotated[Decimal, Field(decimal_places=2, ge=0, le=3)], "2.75", "3.5"),
        (Annotated[Decimal, Field(max_digits=3)], "12.3", "1.234"),
        (Annotated[Decimal, Field(max_digits=40)], "12.3", '"x"'),
        (Annotated[Decimal, Field(max_digits=40, decimal_places=20)], "12.3", '"x"'),
        (Invoice, '{"total": 1.5, "numbers": [1, 2], "file": "a/b"}', '{"total": "x", "numbers": [], "file": ""}'),
        (set[int], "[1, 2]", '["a"]'),
        (set[str], '["a", "b"]', "[1]"),
        (frozenset[Literal["a", "b"]], '["b"]', '["c"]'),
        (bytes, '"ab"', "1"),
        (Path, '"/tmp/a"', "1"),
        (pydantic.SecretStr, '"a"', "1"),
        (uuid.UUID, '"12345678-1234-5678-1234-567812345678"', '"red"'),
        (datetime.time, '"14:00:00Z"', '"noon"'),
        (datetime.timedelta, '"P1DT2H"', '"two hours"'),
        (complex, '"1.5-2j"', '"Paris"'),
        (Fraction, '"1/3"', '"a third"'),
        (Fraction, "0.5", '"1/0"'),
        (pydantic.Base64Bytes, '"YQ=="', '"Y"'),
        (pydantic.HttpUrl, '"https://a-b.example.org:80/x?y=1#z"', '"mailto:red"'),
        (dict[int, str], '{"-1": "a"}', '{"one": "a"}'),
        (dict[Literal["a", "b c"], int], '{"b c": 1}', '{"d": 1}'),
    ],
)
def test_what_a_model_may_write_is_of_the_type(output_type: Any, good: str, bad: str) -> None:
    adapter: TypeAdapter[Any] = TypeAdapter(output_type)
    assert may_write(output_type, good)
    adapter.validate_json(good, strict=True)  # raises where it is not of the type
    assert not may_write(output_type, bad)
    with pytest.raises(pydantic.ValidationError):
        adapter.validate_json(bad, strict=True)


def test_fields_that_are_called_like_keywords_stay() -> None:
    class Odd(BaseModel):
        uniqueItems: int
        format: str = "path"

    assert may_write(Odd, '{"uniqueItems": 1, "format": "x"}')


@pytest.mark.parametrize(
    ("output_type", "said"),
    [
        (re.Pattern, "Unknown format: regex$"),
        (pydantic.FilePath, "Unknown format: file-path$"),
        (dict[datetime.date, int], r'Unimplemented keys: \["propertyNames"\]$'),
        (pydantic.Json[int], r"ask for the type in `Json\[...\]` itself"),
        (range, "'range'> has no JSON schema"),
        (Annotated[str, Field(pattern=r"^(?!a)\w+$")], "look-around"),
    ],
)
def test_types_that_nothing_can_be_done_for_are_refused_in_a_line(output_type: Any, said: str) -> None:
    with pytest.raises(UnsupportedConstraint, match=said):
        byte_matcher(constraint_of(output_type))


def test_a_set_in_a_schema_from_outside_is_constrained_as_a_list() -> None:
    schema = {"type": "array", "items": {"type": "integer"}, "uniqueItems": True}
    assert may_write(schema, "[1, 2]")
    assert not may_write(schema, '["a"]')


def test_adapters_hold_a_decimal_to_a_number_and_accept_it_as_text() -> None:
    signature = dspy.Signature({"q": (str, dspy.InputField()), "price": (Decimal, dspy.OutputField(desc="in euros"))})
    target = target_of_signature(signature)
    assert target.strict["properties"]["price"] == {"type": "number", "description": "in euros"}
    assert may_write(target.constraint, '{"price": 12.5}')
    assert not may_write(target.constraint, '{"price": "red"}')
    assert target.read('{"price": 12.5}') == target.find('{"price": "12.5"}') == {"price": Decimal("12.5")}
    assert target_of(Decimal).strict == {"type": "number"}


def test_adapters_constrain_a_set_and_read_one() -> None:
    signature = dspy.Signature({"q": (str, dspy.InputField()), "tags": (set[str], dspy.OutputField())})
    target = target_of_signature(signature)
    text = json.dumps({"tags": ["a", "b", "a"]})
    assert may_write(target.constraint, text)
    assert target.read(text) == {"tags": {"a", "b"}}
    assert target_of(set[int]).read("[1, 1]") == {1}
