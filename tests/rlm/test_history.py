"""The history: append-only, serializable, and readable within any size."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rlm.history import CallRecord, REPLHistory, REPLHistoryEntry, VariableChanges


def entry(iteration: int = 1, output: str = "ok", code: str = "print('ok')", success: bool = True) -> REPLHistoryEntry:
    return REPLHistoryEntry(iteration, f"step {iteration}", code, output, success)


entries = st.builds(
    REPLHistoryEntry,
    iteration=st.integers(1, 99),
    reasoning=st.none() | st.text(),
    code=st.text(),
    output=st.text(),
    success=st.booleans(),
    calls=st.lists(st.builds(CallRecord, st.text(), st.floats(0, 9), st.none() | st.text()), max_size=2).map(tuple),
    variables_changed=st.builds(VariableChanges, *[st.lists(st.text(), max_size=2).map(tuple)] * 3),
)


@given(entries)
def test_an_entry_comes_back_from_json(one: REPLHistoryEntry) -> None:
    assert REPLHistoryEntry.from_dict(json.loads(json.dumps(one.to_dict()))) == one


def test_the_seeds_five_fields_are_enough() -> None:
    data = {"iteration": 1, "reasoning": None, "code": "x", "output": "", "success": True}
    made = REPLHistoryEntry.from_dict(data)
    assert made == REPLHistoryEntry(1, None, "x", "", True)
    assert not made.variables_changed


def test_an_iteration_is_laid_out_as_in_the_seed() -> None:
    shown = REPLHistory([entry(1), REPLHistoryEntry(2, None, "x = 1", "", True)]).render()
    assert shown == (
        "### Iteration 1\nstep 1\n```python\nprint('ok')\n```\nOutput: ok\n"
        "\n### Iteration 2\n\n```python\nx = 1\n```\nOutput: \n"
    )


def test_code_cannot_close_its_fence() -> None:
    assert "````python\ns = '```'\n````\n" in REPLHistory([entry(code="s = '```'")]).render()


def test_history_can_only_be_added_to_in_order() -> None:
    history = REPLHistory([entry(1), entry(3)])
    with pytest.raises(ValueError, match="iteration 3 cannot follow iteration 3"):
        history.append(entry(3))
    assert len(history) == 2
    assert history[-1].iteration == 3
    assert [one.iteration for one in history[:1]] == [1]
    assert not hasattr(history, "pop")
    with pytest.raises(TypeError):
        history[0] = entry(9)  # type: ignore[index]


def test_a_history_comes_back_from_json() -> None:
    history = REPLHistory([entry(1), entry(2, success=False)])
    assert REPLHistory.from_list(json.loads(json.dumps(history.to_list()))).entries == history.entries


def test_consecutive_errors_are_those_at_the_end() -> None:
    history = REPLHistory([entry(1, success=False), entry(2), entry(3, success=False), entry(4, success=False)])
    assert history.consecutive_errors == 2
    assert REPLHistory().consecutive_errors == 0


def test_the_oldest_is_shortened_first() -> None:
    history = REPLHistory([entry(number, output=str(number) * 5000) for number in (1, 2, 3)])
    shown = history.render(max_chars=12_000)
    assert len(shown) <= 12_000
    assert "2" * 5000 in shown
    assert "3" * 5000 in shown
    assert "1" * 5000 not in shown
    assert "characters left out" in shown
    assert "### Iteration 1" in shown


def test_what_does_not_fit_at_all_is_counted() -> None:
    history = REPLHistory([entry(number, output="x" * 900) for number in range(1, 101)])
    shown = history.render(max_chars=3_000)
    assert len(shown) <= 3_000
    assert shown.startswith("[9")
    assert "earlier iterations left out]" in shown
    assert "### Iteration 100" in shown


@given(st.lists(st.text(max_size=700), max_size=8), st.integers(0, 1500))
def test_a_history_fits_any_size(outputs: list[str], size: int) -> None:
    history = REPLHistory([entry(number, output) for number, output in enumerate(outputs)])
    shown = history.render(size)
    assert len(shown) <= size
    if len(history.render()) <= size:
        assert shown == history.render()
