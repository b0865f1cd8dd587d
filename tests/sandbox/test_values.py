"""The types of values on their way into a session, and of the value that a cell ends with."""

from __future__ import annotations

import enum
from datetime import UTC, date, datetime, time, timedelta, timezone
from decimal import Decimal
from uuid import UUID

import pytest

import sandbox
from tests.support.hostile_kernel import NOW, TAKE_APART


@pytest.mark.parametrize(
    "value",
    [
        date(2026, 11, 18),
        datetime(2026, 11, 18, 22, 3, 9, 5),
        datetime(2026, 11, 18, 22, 3, tzinfo=UTC),
        datetime(2026, 11, 18, 22, 3, tzinfo=timezone(timedelta(hours=-5))),
        time(1, 2),
        timedelta(days=1, seconds=2),
        {1, 2},
        frozenset({"a"}),
        (1, "two", None),
        Decimal("1.10"),
        UUID(int=7),
        {1: "one", (2, 3): {"x": {date(2026, 1, 1)}}},
        [b"\x00\xff", 1 + 2j],
        tuple(range(100_000)),
        [],
    ],
    ids=lambda value: type(value).__name__,
)
def test_an_input_keeps_its_type(open_session, value):
    session = open_session(inputs={"given": value}, functions={"shown": repr})
    assert session.run("type(given).__name__").value == type(value).__name__
    assert session.run(f"hash(repr(given)) == hash({repr(value)!r})").value is True


def test_dates_of_inputs_can_be_calculated_with(open_session):
    session = open_session(inputs={"days": [date(2026, 11, 18), date(2026, 12, 1)]})
    assert session.run("(days[1] - days[0]).days").value == 13


def test_subclasses_of_plain_types_arrive_as_plain_values(open_session):
    class Level(enum.IntEnum):
        HIGH = 3

    class Name(str):
        __slots__ = ()

    session = open_session(inputs={"levels": [Level.HIGH], "names": {"first": Name("Ada")}})
    assert session.run("repr((levels, names))").value == "([3], {'first': 'Ada'})"


@pytest.mark.parametrize(
    "value", [[object()], {"f": len}, [int], [open]], ids=["object", "function", "class", "built-in"]
)
def test_what_is_not_plain_is_refused_by_name(open_session, value):
    with pytest.raises(sandbox.InputError, match=r"input 'rows' .*is not plain"):
        open_session(inputs={"rows": value})


@pytest.mark.parametrize(
    ("code", "value", "shown"),
    [
        ("1 + 1", 2, "2"),
        ("'a' * 3", "aaa", "'aaa'"),
        ("[1, {'a': None}]", [1, {"a": None}], "[1, {'a': None}]"),
        ("(1, 2)", [1, 2], "(1, 2)"),
        ("1 > 2", False, "False"),
        ("import numpy as np\nnp.int64(7)", 7, "np.int64(7)"),
    ],
)
def test_a_plain_value_is_beside_its_repr(session, code, value, shown):
    result = session.run(code)
    assert (result.value, type(result.value)) == (value, type(value))
    assert (result.has_value, result.value_repr) == (True, shown)


@pytest.mark.parametrize("code", ["{1, 2}", "float('nan')", "object", "list(range(100_000))", "'\\ud800'"])
def test_a_value_that_is_not_plain_and_small_has_its_repr_only(session, code):
    result = session.run(code)
    assert (result.value, result.has_value) == (None, False)
    assert result.value_repr


@pytest.mark.parametrize("code", ["None", "x = 3", "1 / 0"])
def test_a_cell_without_a_value_has_none_of_either(session, code):
    result = session.run(code)
    assert (result.value, result.has_value, result.value_repr) == (None, False, None)


def test_the_value_does_not_outlive_its_cell(session):
    assert session.run("41 + 1").value == 42
    assert session.run("pass").has_value is False


def test_a_value_that_cannot_be_copied_runs_no_code_of_its_own_but_repr(open_session):
    session = open_session(policy="off")
    session.run("ran = []\nclass Odd(list):\n    def __iter__(self):\n        ran.append(1)\n        return iter(())")
    assert session.run("Odd([1])").has_value is False
    assert session.run("ran").value == []


def test_a_forged_value_is_bounded_like_every_message(open_session):
    session = open_session(policy="off", limits=sandbox.Limits(output_bytes=10_000))
    session.run(TAKE_APART)
    forged = "reply({'status': 'ok'}, {'rlm.sandbox': {'value': 'x' * (64 << 20)}})\nhang()"
    result = session.run(NOW + forged, timeout=10)
    assert result.has_value is False
    assert result.error is not None
