"""The types of inputs in the REPL."""

from __future__ import annotations

import enum
from datetime import date, datetime, timedelta, timezone
from decimal import Decimal
from typing import Any, NamedTuple
from zoneinfo import ZoneInfo

import pytest
from pydantic import BaseModel

from rlm.signatures import Signature


class Color(enum.Enum):
    RED = "red"


class Point(NamedTuple):
    x: int
    y: int


class Trip(BaseModel):
    start: date
    stops: set[str]


TYPES = {"date": date, "datetime": datetime, "Decimal": Decimal, "Color": Color, "Point": Point, "Trip": Trip}


def values_of(kind: str, value: Any) -> Any:
    signature = Signature.of(f"given: {kind} -> answer: str", types=TYPES)
    return signature.plain_inputs({"given": value})["given"]


@pytest.mark.parametrize(
    ("kind", "given", "expected"),
    [
        ("date", date(2026, 1, 2), date(2026, 1, 2)),
        ("date", "2026-01-02", date(2026, 1, 2)),
        ("datetime", datetime(2026, 1, 2, 3), datetime(2026, 1, 2, 3)),
        ("set[int]", {1, 2}, {1, 2}),
        ("set[int]", [1, 2], {1, 2}),
        ("tuple[int, str]", (1, "a"), (1, "a")),
        ("tuple[int, str]", [1, "a"], (1, "a")),
        ("list[date]", [date(2026, 1, 2)], [date(2026, 1, 2)]),
        ("dict[int, str]", {1: "a"}, {1: "a"}),
        ("Optional[date]", None, None),
        ("Decimal", Decimal("1.10"), Decimal("1.10")),
        ("set[Color]", {Color.RED}, {"red"}),
        ("tuple[Point, ...]", (Point(1, 2),), ((1, 2),)),
        ("list[str]", ["a"], ["a"]),
    ],
)
def test_code_gets_the_type_of_the_signature(kind, given, expected):
    value = values_of(kind, given)
    assert (value, type(value)) == (expected, type(expected))


def test_a_time_zone_arrives_as_its_offset():
    given = datetime(2026, 7, 1, 12, tzinfo=ZoneInfo("Europe/Amsterdam"))
    value = values_of("datetime", given)
    assert (value, value.tzinfo) == (given, timezone(timedelta(hours=2)))


def test_models_are_dicts_as_before():
    given = Trip(start=date(2026, 1, 2), stops={"a"})
    assert values_of("Trip", given) == {"start": "2026-01-02", "stops": ["a"]}


def test_models_inside_of_tuples_keep_their_types():
    given = Trip(start=date(2026, 1, 2), stops={"a"})
    assert values_of("tuple[Trip, ...]", (given,)) == ({"start": date(2026, 1, 2), "stops": {"a"}},)
