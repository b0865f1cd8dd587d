"""Quotes in the inputs: exact, normalized, and the nearest text for those that are not there."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from rlm.provenance.quotes import Texts, normalize

TEXT = "First line.\nHe said: \u201cIt\u2019s   over\u201d \u2013 and\tleft.\nThird line, with 1,234 words.\n"


def test_an_exact_quote_has_offset_and_line() -> None:
    quote = Texts({"doc": TEXT}).look_up("Third line")
    assert quote is not None
    assert (quote.input, quote.line, quote.exact, TEXT[quote.start : quote.end]) == ("doc", 3, True, "Third line")


def test_white_space_and_quotation_marks_are_made_alike() -> None:
    quote = Texts({"doc": TEXT}).look_up('He said: "It\'s over" - and left.')
    assert quote is not None
    assert (quote.exact, quote.line) == (False, 2)
    assert TEXT[quote.start : quote.end] == quote.text == "He said: \u201cIt\u2019s   over\u201d \u2013 and\tleft."


def test_a_part_of_a_word_is_no_quote() -> None:
    texts = Texts({"doc": "reported 15 cases"})
    assert texts.look_up("report") is None
    assert texts.look_up("5 cases") is None


def test_a_quote_that_is_not_there_has_a_nearest_line() -> None:
    texts = Texts({"doc": TEXT})
    assert texts.look_up("Third row, with 1,234 words.") is None
    nearest = texts.nearest("Third row, with 1,234 words.")
    assert nearest is not None
    assert nearest.text == "Third line, with 1,234 words."
    assert texts.nearest("nothing alike") is None


@given(st.text(max_size=200), st.data())
def test_a_span_always_holds_the_quote(text: str, data: st.DataObject) -> None:
    start = data.draw(st.integers(0, len(text)))
    piece = text[start : start + data.draw(st.integers(0, 50))]
    quote = Texts({"doc": text}).look_up(piece)
    if quote is not None:
        assert text[quote.start : quote.end] == quote.text
        if quote.exact:
            assert quote.text == piece.strip()
        else:
            assert (
                normalize(quote.text)[0].strip() in normalize(piece)[0]
                or normalize(piece.strip())[0] in normalize(quote.text)[0]
            )
