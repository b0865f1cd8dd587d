"""Repairs of scripts: what cannot be meant is put right, what nothing depends on is left out; the rest stays."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rlm.repl.hints.repairs import repaired

NEEDED = {"answer", "lines"}


@pytest.mark.parametrize(
    ("code", "then"),
    [
        ("answer = sum('Failed' in line.lower() for line in lines)", "'failed' in line.lower()"),
        ("answer = [line for line in lines if line.lower().startswith(('ERR', 'W'))]", "startswith(('err', 'w'))"),
        ("answer = [line for line in lines if line.upper().split()[2] == 'warn']", "== 'WARN'"),
        ("answer = log.lower().count('Failed password')", "count('failed password')"),
    ],
)
def test_a_constant_is_written_in_the_case_that_the_text_has(code, then):
    assert then in repaired(code, NEEDED)


@pytest.mark.parametrize(
    "code",
    [
        "answer = sum('Failed' in line for line in lines)",
        "answer = 'Failed' in line.lower() + other",
        "found = []\nfound.append(1)\nanswer = len(found)",
        "x = next(rows)\nanswer = 1",
        "x = llm_query('?')\nanswer = 1",
        "for line in lines:\n    last = line\nanswer = last",
        "count = 0\nfor line in lines:\n    count += 1\nanswer = count",
        "this is no code",
    ],
)
def test_what_may_be_meant_or_change_something_stays_as_it_is(code):
    assert repaired(code, NEEDED) == code


def test_what_no_output_depends_on_is_left_out():
    code = "lines = log.splitlines()\nkinds = Counter(line.split() for line in lines)\nanswer = len(log)"
    assert repaired(code, NEEDED) == "lines = log.splitlines()\nanswer = len(log)"
    chain = "a = len(log)\nb = a + 1\nc, d = b, 2\nanswer = 5"
    assert repaired(chain, NEEDED) == "answer = 5"
    assert repaired("x = 1\nx = len(log)\nanswer = x", NEEDED) == "x = len(log)\nanswer = x"


NAMES = st.sampled_from(["a", "b", "c", "answer"])
STATEMENTS = st.one_of(
    st.tuples(NAMES, NAMES, st.integers(0, 5)).map(lambda t: f"{t[0]} = {t[1]} + {t[2]}"),
    st.tuples(NAMES, NAMES).map(lambda t: f"{t[0]} = max({t[1]}, 1)"),
    st.tuples(NAMES, NAMES).map(lambda t: f"if {t[0]} > 2:\n    {t[1]} = {t[0]} * 2"),
    st.tuples(NAMES, NAMES).map(lambda t: f"for {t[0]} in range(3):\n    {t[1]} += {t[0]}"),
)


@given(st.lists(STATEMENTS, max_size=8))
def test_the_answer_of_a_script_that_runs_stays_the_same(statements):
    code = "\n".join(["a = 1", "b = 2", "c = 3", "answer = 0", *statements])
    before: dict[str, object] = {}
    after: dict[str, object] = {}
    exec(code, before)
    exec(repaired(code, {"answer"}), after)
    assert after["answer"] == before["answer"]
