"""Warnings of libraries on the screen."""

from __future__ import annotations

import logging

from rlm.cli import console


def test_a_warning_is_one_line_in_our_words_and_comes_once(capsys):
    console.reword_library_warnings()
    for _ in range(2):
        logging.getLogger("dspy.clients.lm").warning("LM response was truncated due to exceeding max_tokens=5. You can")
    error = capsys.readouterr().err
    assert error == "rlm: a reply was cut off at its limit of tokens; `max_tokens:` of the model raises it\n"


def test_the_reason_of_dspy_is_not_shown_when_prices_cannot_be_fetched(capsys):
    console.reword_library_warnings()
    logging.getLogger("dspy.clients.model_metadata").warning("Model metadata refresh failed (%s); using", "URLError")
    assert capsys.readouterr().err == "rlm: prices could not be fetched; the list that came with dspy is used\n"


def test_other_warnings_are_left_alone(caplog):
    console.reword_library_warnings()
    with caplog.at_level(logging.WARNING, "dspy.clients.lm"):
        logging.getLogger("dspy.clients.lm").warning("something else")
    assert [record.getMessage() for record in caplog.records] == ["something else"]


def test_the_filters_are_set_once():
    console.reword_library_warnings()
    console.reword_library_warnings()
    assert len(logging.getLogger("dspy.clients.lm").filters) == 1
