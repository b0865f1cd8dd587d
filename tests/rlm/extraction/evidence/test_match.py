"""Finding values in text: in every usual way of writing them, and never inside something longer."""

from __future__ import annotations

import datetime
import time
import unicodedata
from decimal import Decimal

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from rlm.extraction.evidence.match import Text, as_number, is_distinctive, normal, numbers_in, same_number

WRAPS = ["{}", "total: {}", "[{}, 7777777]", "({})", "x={}.", "'{}'", "{}\n", "${}", "答えは{}個", "<b>{}</b>", "{} kg"]
FORMATS = ["{}", "{:,}", "{:_}", "{:+}", "{:07d}", "{}.0", "{:,}.00"]


def found(value: object, text: str) -> str | None:
    span = Text(text).find(value)
    return None if span is None else text[span[0] : span[1]]


# Numbers -------------------------------------------------------------------------------------------------------------


@given(st.integers(0, 10**15), st.sampled_from(FORMATS), st.sampled_from(WRAPS), st.booleans())
def test_a_whole_number_is_found_in_any_usual_form(value: int, form: str, wrap: str, minus: bool) -> None:
    assume(value != 7777777)
    written = form.format(value)
    if minus and value and "+" not in written and "$" not in wrap:
        value, written = -value, "-" + written
    text = wrap.format(written)
    shown = found(value, text)
    assert shown is not None
    assert shown in text
    assert written.lstrip("+-") in shown


@given(st.floats(-1e12, 1e12), st.sampled_from(["{!r}", "{:,}", "{:.15g}", "{:.12e}"]), st.sampled_from(WRAPS))
def test_a_number_with_a_fraction_is_found_in_any_usual_form(value: float, form: str, wrap: str) -> None:
    assume(abs(value) > 1e-3 and not ("$" in wrap and value < 0))
    assert found(value, wrap.format(form.format(value))) is not None


@given(st.integers(0, 10**9), st.text("0123456789", min_size=1, max_size=5), st.booleans())
def test_digits_inside_a_longer_number_are_not_the_number(value: int, more: str, before: bool) -> None:
    longer = more + str(value) if before else str(value) + more
    assume(int(longer) != value)
    for text in (longer, f"x {longer} y", f"{int(longer):,}", f"{longer}.5", f"0.{longer}7"):
        assert found(value, text) is None


@given(st.integers(0, 999), st.integers(1, 999), st.integers(0, 999))
def test_a_group_of_thousands_is_not_a_number(low: int, high: int, other: int) -> None:
    assume(other not in (low, high))
    text = f"{high},{low:03d}"
    assert found(high * 1000 + low, text) == text
    assert found(high, text) is None or high == high * 1000 + low
    assert found(other, text) is None or other == high * 1000 + low


@pytest.mark.parametrize(
    ("text", "values"),
    [
        ("1,234", {1234}),
        ("1.234,56", {1234.56}),
        ("1.234.567", {1234567}),
        ("1'234'567.5", {1234567.5}),
        ("1\u202f234\u00a0567", set()),
        ("1\u202f234\u202f567", {1234567}),
        ("3,14", {3, 14, 3.14}),
        ("12.5 %", {12.5, 0.125}),
        ("3-5", {3, 5}),
        ("\u22127", {-7}),
        ("-$1,000.50", {-1000.5}),
        ("1e6 2.5E-3", {1e6, 0.0025}),
        ("[1. 2.]", {1, 2}),
        (".5", {0.5}),
        ("apples,3,14.5,red", {3, 14.5}),
        ("10/20", {10, 20}),
        ("5kg v5 x5 5x 0x7f _5 5_ 1.2.3", set()),
        ("2026-01-05 2026-01-05T10:20:30.5 10:20:30 1/2/2026", set()),
        ("\uff15", {5}),
        ("9" * 500, set()),
    ],
)
def test_how_numbers_are_read(text: str, values: set[float]) -> None:
    assert {value for value, _, _ in numbers_in(text)} == values


def test_spans_are_exact() -> None:
    text = "a 1,234 b -5 c 3,14 d"
    assert [text[start:end] for _, start, end in numbers_in(text)] == ["1,234", "-5", "3", "14", "3,14"]


def test_a_rounded_number_stands_for_the_exact_one_and_not_the_other_way() -> None:
    assert same_number(3.14, 3.14159)
    assert not same_number(3.14159, 3.14)
    assert not same_number(0.5, 0.46)
    assert not same_number(1_000_000, 1_000_001)
    assert not same_number(5.0, 5.2)
    assert same_number(0.1 + 0.2, 0.3)
    assert found(3.14, "mean: 3.14159") == "3.14159"
    assert not same_number(1, 10**400)


def test_a_text_that_is_a_number_is_one() -> None:
    assert [as_number(text) for text in ("42", " 1,234 ", "-2.5", "007", "4 2", "3,14", "5%", "x", "")] == [
        42,
        1234,
        -2.5,
        None,
        None,
        3.14,
        None,
        None,
        None,
    ]
    assert found("42", "is 42.5 or 142") is None
    assert found("42", "is 42.0") == "42.0"
    assert found("007", "7") is None
    assert found("007", "agent 007") == "007"
    assert found(Decimal("12.50"), "12.5") == "12.5"


# Strings -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("value", "text", "shown"),
    [
        ("Paris", "in PARIS, France", "PARIS"),
        ("Paris", "Parisian comparison", None),
        ("New York", "New\n   york.", "New\n   york"),
        ("café", "le cafe\u0301!", "cafe\u0301!"),
        ("cafe", "le cafe\u0301!", None),
        ("Straße", "STRASSE", "STRASSE"),
        ("ﬁne", "it is fine", "fine"),
        ("\uff21\uff22", "AB", "AB"),
        ("東京", "私は東京に住む", "東京"),
        ("日", "日本", None),
        ("日", "(日)", "日"),
        ("서울", "서울은 크다", "서울"),
        ("мир", "Миру мир", "мир"),
        ("a_b", "x.a_b()", "a_b"),
        ("b", "a_b", None),
        ("Q4 2024", "q4 2024.", "q4 2024"),
        ("Q4 2024", "q4 2024.5", None),
        ("C++", "in C++ or C", "C++"),
        ("...", "so ...", None),
        ("", "x", None),
    ],
)
def test_strings_are_found_as_whole_words(value: str, text: str, shown: str | None) -> None:
    assert found(value, text) == shown


words = st.text(st.characters(categories=["Lu", "Ll"]), min_size=2, max_size=8)


@given(words, st.lists(words, max_size=5), st.lists(words, max_size=5))
def test_a_word_is_found_in_any_case_and_composition(word: str, before: list[str], after: list[str]) -> None:
    for form in ("NFC", "NFD", "NFKC"):
        written = unicodedata.normalize(form, word)
        assert found(word, " ".join([*before, written, *after])) is not None
    assert found(word, " ".join([*before, f"({word.casefold()}),", *after])) is not None


@given(words, words)
def test_a_part_of_a_word_is_not_found(word: str, more: str) -> None:
    assume(normal(word) not in normal(more))
    assume(normal(more + word).count(normal(word)) == 1)
    assume(normal(more)[-1].isalnum() and normal(word)[0].isalnum())  # "Ŀ" becomes "l·"
    assert found(word, more + word) is None


@given(st.text(max_size=50), st.text(max_size=200))
def test_any_value_in_any_text_is_no_error_and_spans_are_inside(value: str, text: str) -> None:
    span = Text(text).find(value)
    assert span is None or 0 <= span[0] < span[1] <= len(text)


@given(st.dates(min_value=datetime.date(1000, 1, 1)), st.sampled_from(["on {}.", "{}", "('{}',)", "{}T10:00:00"]))
def test_dates_are_found_as_they_are_printed(day: datetime.date, wrap: str) -> None:
    assert found(day, f"[{day!r}]") == repr(day)
    if "T" not in wrap:
        assert found(day, wrap.format(day)) == day.isoformat()


def test_moments_are_found_as_they_are_printed() -> None:
    moment = datetime.datetime(2026, 1, 2, 3, 4, 5)
    assert found(moment, f"at {moment}") == "2026-01-02 03:04:05"
    assert found(moment, "2026-01-02T03:04:05") == "2026-01-02T03:04:05"
    assert found(moment, repr(moment)) == repr(moment)


def test_what_says_nothing() -> None:
    assert not any(map(is_distinctive, (None, True, False, "", " ", "--", [], {}, ())))
    assert all(map(is_distinctive, (0, 0.0, "a", "0", datetime.date.today())))
    assert found(True, "True 1") is None
    assert found(None, "None null") is None


# Hostile text --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "unit",
    ["1", "1,", "111,", "1'1", "1.1", "1e", "-", "a", "a ", "\ufdfa", "2026-01-05", "1_", "\u0660", "e\u0301", "$-"],
)
def test_megabytes_of_hostile_text_take_little_time(unit: str) -> None:
    started = time.process_time()
    text = Text(unit * (3_000_000 // len(unit)) + "x")
    for value in (7, 2.5, "a" * 1000, "a", "zz zz", "1.1.", "a" * 100_000, "e\u0301" * 50):
        text.find(value)
    assert time.process_time() - started < 5


def test_both_ends_of_a_long_text_are_read() -> None:
    text = "first 1234 " + "x " * 1_000_000 + "last 9876 Paris"
    assert [found(value, text) for value in (1234, 9876, "Paris")] == ["1234", "9876", "Paris"]
