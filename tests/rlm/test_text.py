"""Shortened, cleaned and fenced texts; amounts."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rlm.text import clean, cut_middle, dollars, encodable, fence, shorten


@given(st.text(max_size=300), st.integers(0, 320))
def test_a_cut_text_keeps_both_ends_and_counts_the_rest(text: str, size: int) -> None:
    cut = cut_middle(text, size)
    assert len(cut) <= size
    if len(text) <= size:
        assert cut == text
    elif "characters left out" in cut and "characters left out" not in text:
        head, _, rest = cut.partition("\n[... ")
        count, _, tail = rest.partition(" characters left out ...]\n")
        assert text.startswith(head)
        assert text.endswith(tail)
        assert int(count.replace(",", "")) == len(text) - len(head) - len(tail)


def test_a_cut_says_how_much_is_gone() -> None:
    assert cut_middle("a" * 5000 + "b" * 5000, 100) == "a" * 31 + "\n[... 9,938 characters left out ...]\n" + "b" * 31


@given(st.text(max_size=60), st.integers(1, 70))
def test_a_shortened_text_fits_and_keeps_its_beginning(text: str, size: int) -> None:
    short = shorten(text, size)
    assert len(short) <= size
    assert short == text or (len(text) > size and short.endswith("…") and text.startswith(short[:-1]))


def test_what_moves_a_cursor_is_spelled_out_and_lines_stay() -> None:
    assert clean("a\x1b[31m\tb\r\nc\u202e\ud800") == "a\\x1b[31m\tb\nc\\u202e\\ud800"


def test_half_a_surrogate_pair_can_be_encoded() -> None:
    assert encodable("caf\u00e9 \udcff").encode() == "caf\u00e9 \\udcff".encode()


@given(st.text("`a\n", max_size=30))
def test_a_text_cannot_close_its_fence(text: str) -> None:
    assert len(fence(text)) >= 3
    assert fence(text) not in text


@pytest.mark.parametrize(
    ("usd", "text"),
    [
        (0, "$0.00"),
        (12.345, "$12.35"),
        (0.42, "$0.4200"),
        (0.00426, "$0.0043"),
        (0.00025, "$0.00025"),
        (3e-7, "$0.00000030"),
    ],
)
def test_small_amounts_keep_two_digits(usd: float, text: str) -> None:
    assert dollars(usd) == text
