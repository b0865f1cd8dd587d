"""What people see of a run: views are drawn from recorded events, and the ending from a result."""

from __future__ import annotations

import io
import threading
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from pydantic import BaseModel
from rich.console import Console

from rlm.budgets import MaxIterations, Usage
from rlm.cli.console import duration, last_line, one_line
from rlm.cli.pages.result import result_page
from rlm.cli.progress import live
from rlm.cli.progress.lines import LineView
from rlm.cli.progress.live import LiveView
from rlm.cli.progress.state import RunState
from rlm.events import Event
from rlm.history import REPLHistoryEntry
from rlm.results import Evidence, Extracted, Failed, Submitted
from rlm.signatures import Signature
from rlm.tasks import Models, ModelSpec, Task
from tests.support.events import make_event

HOSTILE = "\x1b[2J\x9b31m[bold]not bold[/bold]\u202e"
CODE = "rows = log.splitlines()\nanswers = llm_batch(rows[:3])\nprint(len(answers))"


class Clock:
    """Time that a test moves."""

    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


def events(run_id: str = "run1") -> list[Event]:
    """A run that is in the middle of its second cell."""
    told: list[tuple[str, dict[str, Any]]] = [
        ("run_started", {"signature": "Task", "inputs": ["log"]}),
        ("iteration_started", {"iteration": 1}),
        ("model_asked", {"iteration": 1}),
        ("model_answered", {"iteration": 1, "seconds": 1.0, "tokens_in": 10, "tokens_out": 5, "cost_usd": 0.01}),
        ("cell_started", {"iteration": 1, "code": f"print(log[:5])  # {HOSTILE}"}),
        ("cell_ended", {"iteration": 1, "output": f"first\n{HOSTILE}\n", "success": False, "seconds": 0.25}),
        (
            "budget",
            {
                "iterations": 1,
                "max_iterations": 8,
                "llm_calls": 0,
                "max_llm_calls": 50,
                "seconds": 2.0,
                "max_duration": 300.0,
                "tokens": 1234,
                "tokens_in": 10,
                "tokens_out": 5,
                "cost_usd": 0.0123,
            },
        ),
        ("iteration_started", {"iteration": 2}),
        ("model_answered", {"iteration": 2, "seconds": 1.0, "tokens_in": 10, "tokens_out": 5, "cost_usd": None}),
        ("cell_started", {"iteration": 2, "code": CODE}),
        ("call_started", {"id": 1, "name": "llm_batch", "preview": f"Is this one? {HOSTILE}"}),
        ("call_started", {"id": 2, "name": "llm_query", "preview": "And this?"}),
        ("call_ended", {"id": 2, "name": "llm_query", "seconds": 0.5, "error": None}),
    ]
    return [make_event(kind, run_id, data) for kind, data in told]


def ended(run_id: str = "run1") -> list[Event]:
    """The rest of that run."""
    told: list[tuple[str, dict[str, Any]]] = [
        ("call_ended", {"id": 1, "name": "llm_batch", "seconds": 3.0, "error": None}),
        ("cell_ended", {"iteration": 2, "output": "3\n", "success": True, "seconds": 3.5}),
        ("trigger_fired", {"reason": "2 of 2 iterations used without SUBMIT"}),
        (
            "extraction_attempt",
            {"number": 1, "problems": [{"path": "/n", "message": "At path '/n': 'x' is not an integer"}]},
        ),
        ("extraction_attempt", {"number": 2}),
        ("run_ended", {"ending": "Extracted", "confidence": 0.8}),
    ]
    return [make_event(kind, run_id, data) for kind, data in told]


@pytest.fixture
def task() -> Task:
    script = ModelSpec("scripted", scripted=Path("/somewhere/replies.yaml"))
    signature = Signature.of("log: str, n: int -> answer: int")
    return Task(signature, {"log": "x" * 5000, "n": 3}, Models(script, script, script))


def state_after(told: list[Event], clock: Callable[[], float] | None = None) -> RunState:
    state = RunState(clock or Clock())
    for event in told:
        state.take(event)
    return state


def drawn(state: RunState, width: int = 100, height: int = 40) -> str:
    console = Console(record=True, width=width, height=height, file=io.StringIO(), force_terminal=True)
    console.print(live.frame(state, width, height))
    return console.export_text()


# The live view -----------------------------------------------------------------------------------------------------


def test_the_picture_has_the_code_the_calls_and_the_budget() -> None:
    clock = Clock()
    state = state_after(events(), clock)
    clock.now += 4.2
    text = drawn(state)
    assert "iteration 2 · running the code, 4.2 s" in text
    assert all(line in text for line in CODE.splitlines())
    assert "llm_batch" in text
    assert "And this?" not in text  # it has been answered
    assert "2/8" in text
    assert "0/50" in text
    assert "6.2 s/5:00" in text
    assert "1,249 tokens · $0.0123" in text


def test_a_batch_says_how_many_of_its_questions_are_in_flight() -> None:
    told = events()
    told += [make_event("model_asked", "run1", {"id": 10 + n, "role": "sub", "call": 1}) for n in range(5)]
    told += [make_event("model_asked", "run1", {"id": 20, "role": "sub", "call": 7})]
    told += [
        make_event("model_answered", "run1", {"id": 10, "role": "sub"}),
        make_event("model_failed", "run1", {"id": 11}),
    ]
    assert "llm_batch, 3 in flight" in drawn(state_after(told))


@pytest.mark.parametrize(("width", "height"), [(100, 40), (60, 14), (30, 8)])
def test_the_picture_fits_the_terminal_whatever_runs(width: int, height: int) -> None:
    told = [*events(), make_event("cell_started", "run1", {"iteration": 3, "code": "x = 'long line' * 40\n" * 300})]
    told += [
        make_event("call_started", "run1", {"id": i, "name": "llm_query", "preview": "p" * 500}) for i in range(9, 99)
    ]
    lines = drawn(state_after(told), width, height).rstrip("\n").splitlines()
    assert len(lines) <= max(height, 12)
    assert max(map(len, lines)) <= width


@pytest.mark.parametrize("width", [36, 60, 90, 100, 120, 160])
def test_every_gauge_is_whole_however_wide_the_terminal_is(width: int) -> None:
    state = state_after(events())
    state.limits = replace(state.limits, max_tokens=100_000, max_cost_usd=1.0)
    text = drawn(state, width=width)
    for name in ("iterations", "calls", "time", "tokens", "cost"):
        assert name in text
    for number in ("2/8", "0/50", "2.0 s/5:00", "1,249/100,000", "$0.0123/$1.00"):
        assert number in text
    # A ^C that the terminal shows behind the last line must not begin another one.
    assert len(text.rstrip("\n").splitlines()[-1].rstrip()) <= width - len("^C^C")


def test_limits_that_are_set_have_gauges_and_others_do_not() -> None:
    state = state_after(events())
    state.limits = replace(state.limits, max_tokens=5000, max_cost_usd=1.0, max_duration=float("inf"))
    text = drawn(state, width=160)
    assert "1,249/5,000" in text
    assert "$0.0123/$1.00" in text
    assert "time" not in text


def test_nothing_that_a_model_writes_reaches_the_terminal_as_a_command(task: Task) -> None:
    out = io.StringIO()
    console = Console(file=out, width=120, force_terminal=True, color_system=None)
    view = LiveView(console, RunState())
    view.start(task)
    for event in [*events(), *ended()]:
        view.observe(event)
    view.stop()
    lines = io.StringIO()
    plain = LineView(lines, RunState())
    plain.start(task)
    for event in [*events(), *ended()]:
        plain.observe(event)
    for text in (out.getvalue(), lines.getvalue()):
        assert "[bold]not bold[/bold]" in text
        assert "\x1b[2J" not in text
        assert "\x9b" not in text
        assert "\u202e" not in text


def test_iterations_that_are_over_stay_above_the_picture(task: Task) -> None:
    out = io.StringIO()
    view = LiveView(Console(file=out, width=100, force_terminal=True, color_system=None), RunState())
    view.start(task)
    for event in [*events(), *ended()]:
        view.observe(event)
    view.stop()
    text = out.getvalue()
    assert "✗  1  1 line, 0.2 s" in text
    assert "✓  2  3 lines, 2 calls, 3.5 s" in text
    assert "! 2 of 2 iterations used without SUBMIT: extracting" in text
    assert "✗ extraction 1: At path '/n': 'x' is not an integer" in text


def test_the_header_says_that_the_model_is_scripted(task: Task) -> None:
    console = Console(record=True, width=120, file=io.StringIO())
    console.print(live.header(task))
    text = console.export_text()
    assert "log: str, n: int -> answer: int" in text
    assert "log (5,000 characters), n (3)" in text
    assert "The model is scripted: its replies were written in advance (replies.yaml). No model is asked." in text


def test_events_from_many_threads_do_not_lock_the_view_up(task: Task) -> None:
    view = LiveView(Console(file=io.StringIO(), width=80, force_terminal=True), RunState())
    view._live.auto_refresh = True
    view._live.refresh_per_second = 200
    view.start(task)

    def work(number: int) -> None:
        for index in range(60):
            view.observe(make_event("call_started", "r", {"id": (number, index), "name": "f", "preview": "p"}))
            view.observe(
                make_event("cell_ended", "r", {"iteration": index, "output": "o", "success": True, "seconds": 0})
            )
            view.observe(
                make_event("call_ended", "r", {"id": (number, index), "name": "f", "seconds": 0, "error": None})
            )

    workers = [threading.Thread(target=work, args=(number,), daemon=True) for number in range(6)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join(60)
    assert not any(worker.is_alive() for worker in workers)
    view.stop()
    assert view.state.calls == {}


# The state ---------------------------------------------------------------------------------------------------------


def test_events_of_child_runs_are_left_to_their_parent() -> None:
    state = state_after(events())
    before = (state.iteration, state.code, len(state.iterations))
    for event in events("child"):
        assert state.take(event) is False
    assert (state.iteration, state.code, len(state.iterations)) == before


def test_an_event_of_a_kind_that_is_not_known_changes_nothing() -> None:
    assert state_after([*events(), make_event("something_new", "run1", {})]).phase == "running"


def without_code() -> list[Event]:
    """An iteration whose reply had no code in it, after one that had."""
    told = {
        "iteration": 3,
        "reasoning": "It must be 5.",
        "remarks": ["There was no code in your reply."],
        "told": "...",
    }
    return [
        *events(),
        *ended()[:2],
        make_event("iteration_started", "run1", {"iteration": 3}),
        make_event("history", "run1", told),
    ]


def test_a_reply_without_code_is_an_iteration_too(task: Task) -> None:
    lines, screen = io.StringIO(), io.StringIO()
    state = RunState(Clock())
    line_view = LineView(lines, state)
    live_view = LiveView(Console(file=screen, width=100, force_terminal=True, color_system=None), RunState())
    live_view.start(task)
    for event in without_code():
        line_view.observe(event)
        live_view.observe(event)
    live_view.stop()
    assert "iteration 3 failed (no code) the model wrote: It must be 5." in lines.getvalue()
    assert "✗  3  no code" in screen.getvalue()
    last = state.iterations[-1]
    assert (last.number, last.code) == (3, "")


# Lines -------------------------------------------------------------------------------------------------------------


def test_lines_tell_what_matters(task: Task) -> None:
    out = io.StringIO()
    view = LineView(out, RunState(Clock()))
    view.start(task)
    for event in [*events(), *ended()]:
        view.observe(event)
    lines = out.getvalue().splitlines()
    assert lines[:3] == [
        "task    log: str, n: int -> answer: int",
        "inputs  log (5,000 characters), n (3)",
        "model   scripted (replies.yaml)",
    ]
    assert lines[3].startswith("The model is scripted")
    assert lines[4].split() == ["0.0", "s", "run", "run1"]
    assert "iteration 1 failed (1 line, 0.2 s)" in lines[5]
    assert lines[6].strip() == "2.0 s  iteration 2 ok (3 lines, 2 calls, 3.5 s) 3"
    assert lines[7].strip() == "2.0 s  2 of 2 iterations used without SUBMIT: extracting"
    assert lines[8].strip() == "2.0 s  extraction, attempt 1: At path '/n': 'x' is not an integer"
    assert lines[9].strip() == "2.0 s  extraction, attempt 2"
    assert lines[10].strip() == "2.0 s  Extracted"


# The ending --------------------------------------------------------------------------------------------------------


class Outputs(BaseModel):
    ship: str
    visits: int
    note: str | None = None
    tags: list[str] = []


USAGE = Usage(tokens_in=1200, tokens_out=300, cost_usd=0.5, seconds=75.0, llm_calls=1, model_calls=4, unpriced_calls=2)


def shown(result: Any, notice: str | None = None) -> str:
    console = Console(record=True, width=140, file=io.StringIO())
    console.print(result_page(result, notice=notice))
    return console.export_text()


def test_a_submitted_run() -> None:
    outputs = Outputs(ship=f"Fortuna {HOSTILE}", visits=38, tags=["a" * 50, "b" * 50])
    text = shown(Submitted(outputs, 3, 1, usage=USAGE, run_id="r1"), notice="The model is scripted")
    assert text.startswith("Submitted, unverified ")
    assert "visits  38" in text
    assert "[bold]not bold[/bold]" in text
    assert "\x1b" not in text
    assert f'  "{"a" * 50}"' in text
    assert "3 iterations · 1 LLM call from the code · 1,200 tokens read, 300 written" in text
    assert "$0.5000 (not counting 2 calls) · 1:15" in text
    assert "run r1" in text
    assert "The model is scripted" in text


def test_an_extracted_run_says_how_far_to_trust_it_and_why() -> None:
    evidence = (
        Evidence("/ship", "variable", "'Fortuna'", variable="ship"),
        Evidence("/ship", "history", "Fortuna", iteration=2, span=(0, 7)),
        *(Evidence(f"/tags/{n}", "variable", "x", variable="tags") for n in range(5)),
    )
    outputs = Outputs(ship="Fortuna", visits=38, tags=["x"] * 5)
    text = shown(Extracted(outputs, 0.834, MaxIterations(3, 3), "From the variables.", evidence=evidence, usage=USAGE))
    assert text.startswith("Extracted, unverified (formula 0.83) ")
    assert "reason  3 of 3 iterations used without SUBMIT" in text
    assert "variable ship: 'Fortuna'" in text
    assert "output of iteration 2: Fortuna" in text
    assert "no evidence in the variables or the history" in text  # visits
    assert "nothing was found for it" in text  # note
    assert "and 2 more places" in text
    assert "notes  From the variables." in text


def test_a_failed_run_shows_what_there_is() -> None:
    history = (REPLHistoryEntry(1, None, "print(1)", "line one\nline two", True),)
    text = shown(Failed("the model could not be asked", {"age": "unknown"}, history, run_id="r2"))
    assert text.startswith("Failed ")
    assert "reason  the model could not be asked" in text
    assert '"age": "unknown"' in text
    assert "line two" in text
    assert "1 iteration in the result" in text


def test_outputs_that_were_mapped_to_something_else_are_shown() -> None:
    assert "42" in shown(Submitted(42, 1, 0))


# Words -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(0.04, "0.0 s"), (9.94, "9.9 s"), (12.3, "12 s"), (59.6, "1:00"), (125, "2:05"), (3725, "1:02:05")],
)
def test_durations_in_words(seconds: float, text: str) -> None:
    assert duration(seconds) == text


def test_long_texts_are_cut_to_a_line() -> None:
    assert one_line("a\nb  c") == "a b c"
    assert one_line("x" * 500, 10) == "x" * 9 + "…"
    assert one_line("x " * 5_000_000, 10).endswith("…")
    assert last_line("first\nlast\n\n") == "last"
    assert last_line("") == ""


def test_a_wait_for_a_provider_is_shown_until_it_is_over() -> None:
    clock, out = Clock(), io.StringIO()
    state = RunState(clock)
    view = LineView(out, state)
    data = {"id": 1, "role": "main", "model": "openai/gpt-5-mini", "reason": "too many requests", "seconds": 20.0}
    for event in [*events()[:2], make_event("model_waiting", "run1", data)]:
        view.observe(event)
    assert "waiting 20 s for openai/gpt-5-mini: too many requests" in out.getvalue()
    clock.now += 5
    assert "waiting 15 s for openai/gpt-5-mini: too many requests" in drawn(state, width=80)
    clock.now += 15
    assert "waiting" not in drawn(state, width=120)
