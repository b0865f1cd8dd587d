"""Text that is looked for at the wrong place of a line: the hint shows where it is."""

from __future__ import annotations

import pytest

from rlm.repl.hints.places import misplaced
from rlm.repl.hints.rules import CellFacts, finds_nothing

LINES = [
    f"12:00:{n:02d} {'WARN' if n % 3 else 'INFO'} disk{n}: {'Failed to write' if n % 3 else 'ok'}" for n in range(30)
]


def test_a_line_that_starts_otherwise_is_shown_with_how_many_have_the_text():
    hint = misplaced("n = sum(line.startswith('Failed') for line in lines)", LINES)
    assert hint is not None
    assert "No line starts with 'Failed'. 'Failed' is line.split()[3] of 20 lines, as in '12:00:01 WARN disk1:" in hint
    part = misplaced("n = sum(line.startswith('to wr') for line in lines)", LINES)
    assert part == "No line starts with 'to wr'. 'to wr' is in 20 lines, as in '12:00:01 WARN disk1: Failed to write'."


def test_a_word_at_another_place_is_shown_with_the_values_of_the_place_that_was_asked():
    hint = misplaced("n = sum(line.split()[2] == 'WARN' for line in lines)", LINES)
    assert hint is not None
    assert "line.split()[2] is never 'WARN', but 'disk0:' (1), 'disk1:' (1)" in hint
    assert "'WARN' is line.split()[1] of 20 lines, as in '12:00:01 WARN disk1: Failed to write'" in hint
    part = misplaced("n = sum(line.split()[1] == 'disk' for line in lines)", LINES)
    assert part is not None
    assert "but 'WARN' (20), 'INFO' (10). 'disk' is in 30 lines" in part


@pytest.mark.parametrize(
    "code",
    [
        "n = sum(line.split()[1] == 'WARN' for line in lines)",
        "n = sum(line.startswith('12') for line in lines)",
        "n = sum(line.startswith('nowhere') for line in lines)",
        "n = sum('Failed' in line for line in lines)",
        "n = sum(line.split()[9] == 'WARN' for line in lines)",
        "this is no code",
    ],
)
def test_what_is_at_its_place_or_nowhere_gives_no_hint(code):
    assert misplaced(code, LINES) is None


def test_the_hint_is_given_where_a_cell_finds_nothing():
    code = "hits = [line for line in doc.splitlines() if line.startswith('Failed')]\nprint(len(hits))"
    hint = finds_nothing(CellFacts(code, "0\n", True, inputs={"doc": "\n".join(LINES)}))
    assert hint is not None
    assert "No line starts with 'Failed'" in hint
