"""Facts about lines in a script: every number that is shown is that of a search, on any text."""

from __future__ import annotations

import re

from hypothesis import given
from hypothesis import strategies as st

from rlm.repl.line_facts import fields_of_lines, lines_about, pattern_of

WORDS = st.sampled_from(["gate", "Gate:", "disk7", "disk12", "failed", "Failed", "ok", "12:01", "user=5", "(3)", "é"])
LINES = st.lists(st.lists(WORDS, min_size=1, max_size=6).map(" ".join), min_size=5, max_size=60)


@given(LINES)
def test_the_number_of_lines_about_the_task_is_that_of_a_search(lines):
    shown = lines_about("How often did a gate or a user fail, Failed?", "\n".join(lines))
    found = re.findall(r"^ *([\d,]+) x  (.*)$", shown, re.MULTILINE)
    stems = [stem for stem in ("gate", "user", "fail") if any(stem in line.lower() for line in lines)]
    assert bool(found) == bool(stems)
    for number, example in found:
        key = [stem in example.lower() for stem in stems]
        assert int(number.replace(",", "")) == sum([stem in line.lower() for stem in stems] == key for line in lines)
        assert example in lines


@given(LINES)
def test_the_numbers_and_values_of_fields_are_those_of_the_lines(lines):
    shown = fields_of_lines("\n".join(lines))
    for place, number in re.findall(r"line\.split\(\)\[(\d+)\] has ([\d,]+) values", shown):
        assert int(number) == len({line.split()[int(place)] for line in lines})
    for place, listed in re.findall(r"line\.split\(\)\[(\d+)\] is one of (.*)$", shown, re.MULTILINE):
        values = {line.split()[int(place)] for line in lines}
        assert all(repr(value) in listed for value in values)


@given(LINES)
def test_a_pattern_matches_its_line(lines):
    for line in lines:
        pattern = pattern_of(line, [line.split()[-1].lower()], {line.split()[-1].lower(): 1.0})
        assert not pattern or re.search(pattern, line)


def test_a_long_text_is_described_without_numbers_that_were_not_counted():
    text = "\n".join(f"12:00 part{n % 100}: {'read' if n % 2 else 'write'} {n}" for n in range(40_000))
    shown = fields_of_lines(text)
    assert " values, such as" not in shown
    assert shown.startswith("A line in parts")
    assert "line.split()[2] is often one of" in shown


def test_a_pattern_is_shown_of_lines_that_have_more_than_one_word_of_the_task_or_a_name_in_it():
    rows = [f"12:00 part: loading /home/user{n}/job: node map missing, freeSpace={n}" for n in range(9)]
    text = "\n".join([*rows, *["12:01 part: all is well"] * 9])
    assert "for re.search" not in lines_about("Which node has the most lines?", text)
    assert r'r"loading (\S+?): node map missing, freeSpace=(\d+)"' in lines_about("Which job was loading a map?", text)
    assert "for re.search" in lines_about("What is the sum of freeSpace?", text)
