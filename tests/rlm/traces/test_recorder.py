"""Real runs on record: everything that they did can be read again, and a run can go on from it."""

from __future__ import annotations

import asyncio
import itertools
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import sandbox
from rlm.models.scripted import scripted_lm
from rlm.repl.config import RunConfig
from rlm.signatures import Signature
from rlm.traces import RunRecord, TraceWriter, UnknownRun, load, recorded_run
from tests.support.events import make_event
from tests.support.replies import cell
from tests.support.trace_scripts import DOC, SHORT

Record = Callable[..., RunRecord]

_SUBMITS = [
    cell("lines = doc.splitlines()\nprint(len(lines))", "First I count."),
    cell("answer = llm_query('Is it so?', context=lines[0])\nprint(answer)\nlines.append('x')"),
    "No code this time.",
    cell("del lines\nraise ValueError('oh')"),
    cell("SUBMIT(n=7)"),
]


def test_a_submitted_run_can_be_read_again(record: Record) -> None:
    run = record(_SUBMITS, doc=DOC)
    assert (run.ending, run.confidence, run.answer) == ("submitted", 1.0, "n: 7")
    assert (run.iterations_used, run.llm_calls, run.parent) == (5, 1, None)
    assert run.inputs() == {"doc": DOC}
    result = run.result()
    assert result is not None
    assert result["outputs"] == {"n": 7}
    assert run.tokens == result["usage"]["tokens_in"] + result["usage"]["tokens_out"] > 0

    first, second, third, fourth, last = run.iterations
    assert (first.reasoning, first.output, first.success) == ("First I count.", "3000", True)
    assert first.code == "lines = doc.splitlines()\nprint(len(lines))"
    assert first.variables.added["lines"]["type"] == "list"
    assert second.variables.changed.keys() == {"lines"}
    assert (third.code, third.output, third.finished) == ("", None, True)
    assert fourth.error is not None
    assert fourth.error["name"] == "ValueError"
    assert fourth.variables.removed == ("lines",)
    assert [call.name for call in last.calls] == ["SUBMIT"]

    (call,) = second.calls
    assert json.loads(call.answer or "") == "yes"
    assert json.loads(call.arguments) == [["Is it so?"], {"context": DOC.splitlines()[0]}]
    assert call.seconds is not None
    assert [call.name for call in run.calls] == ["llm_query", "SUBMIT"]


def test_every_prompt_can_be_put_together_again(record: Record) -> None:
    run = record(_SUBMITS, doc=DOC)
    prompts = run.prompts()
    assert [prompt.role for prompt in prompts] == ["main", "main", "sub", "main", "main", "main"]
    main = [prompt for prompt in prompts if prompt.role == "main"]
    assert [len(prompt.turns) for prompt in main] == [1, 3, 5, 7, 9]
    for earlier, later in itertools.pairwise(main):
        assert later.turns[: len(earlier.turns)] == earlier.turns
    assert main[1].turns[1] == ("assistant", _SUBMITS[0])
    assert main[1].turns[2][1].startswith("Output:\n3000")
    assert "SUBMIT" in (main[0].system or "")
    assert prompts[2].turns == (("user", f"Is it so?\n\n{DOC.splitlines()[0]}"),)
    assert prompts[2].reply == "yes"
    assert [call.role for call in run.model_calls] == [prompt.role for prompt in prompts]
    # What was said once is there once: the system prompt is one body, not five.
    texts = run.file.query("SELECT count(*) FROM bodies WHERE kind = 'text' AND size = ?", (len(main[0].system or ""),))
    assert texts[0][0] == 1


def test_an_extracted_run_has_its_attempts_and_its_evidence(record: Record) -> None:
    run = record(
        [cell("n = 38\nprint('there are', n)")],
        max_iterations=1,
        extraction=["nonsense", '{"n": 38}'],
    )
    assert run.ending == "extracted"
    assert "1 of 1 iteration" in (run.reason or "")
    first, second = run.attempts
    assert first.text == "nonsense"
    assert first.problems
    assert (second.text, second.problems) == ('{"n": 38}', ())
    assert "there are 38" in first.prompt
    result = run.result()
    assert result is not None
    assert ("/n", "variable", "n") in {(one["path"], one["kind"], one.get("variable")) for one in result["evidence"]}
    assert run.events(kinds=["trigger_fired"])[0].data["reason_data"]["kind"] == "max_iterations"


def test_child_runs_are_a_tree(record: Record) -> None:
    child = [cell("SUBMIT(title='T')")]
    run = record([cell("found = rlm_query('text -> title: str', text=doc)\nprint(found)"), *child, cell("SUBMIT(n=1)")])
    (below,) = run.children
    assert (below.parent, below.depth, below.answer) == (run.id, 1, "title: T")
    assert below.parent_call == run.calls[0].id
    assert below.inputs() == {"text": SHORT}
    assert below.own_tokens_in < run.tokens
    assert run.own_tokens_in + below.own_tokens_in + run.own_tokens_out + below.own_tokens_out == run.tokens
    runs = load(run.file.path.parent.parent)
    assert len(runs) == 2
    assert [one.id for one in runs.roots] == [run.id]


def test_the_past_of_a_run_is_what_another_needs_to_go_on(record: Record) -> None:
    run = record(_SUBMITS, doc=DOC)
    before = recorded_run(run)
    assert before.run_id == run.id
    assert [one.reply for one in before.iterations] == _SUBMITS
    assert [one.output for one in before.iterations[:3]] == ["3000", "yes", ""]
    (call,) = before.iterations[1].calls
    assert (call.name, call.answer, call.error) == ("llm_query", "yes", None)
    assert before.usage.llm_calls == 1
    assert before.usage.tokens == run.tokens


def test_the_past_of_an_unfinished_run_ends_with_what_was_answered(tmp_path: Path) -> None:
    name = "a" * 12
    told = [
        ("run_started", {"inputs": {"doc": "x"}}),
        ("iteration_started", {"iteration": 1}),
        ("model_asked", {"id": 1, "role": "main", "iteration": 1, "kept": 0, "turns": [["user", "go"]]}),
        ("model_answered", {"id": 1, "role": "main", "iteration": 1, "text": "first", "tokens_in": 5, "tokens_out": 2}),
        ("cell_started", {"iteration": 1, "code": "f(1)\nf(2)\nf(3)"}),
        ("call_started", {"id": 1, "name": "f", "iteration": 1, "arguments": "[[1], {}]"}),
        ("call_ended", {"id": 1, "name": "f", "iteration": 1, "seconds": 0.1, "error": None, "answer": '{"a": 1}'}),
        ("call_started", {"id": 2, "name": "f", "iteration": 1, "arguments": "[[2], {}]"}),
        ("call_ended", {"id": 2, "name": "f", "iteration": 1, "seconds": 0.1, "error": "KeyError: 2", "answer": None}),
        ("call_started", {"id": 3, "name": "f", "iteration": 1, "arguments": "[[3], {}]"}),
    ]
    with TraceWriter(tmp_path) as writer:
        for kind, data in told:
            writer(make_event(kind, name, data))
    run = load(tmp_path).run(name)
    before = recorded_run(run)
    (one,) = before.iterations
    assert (one.reply, one.output) == ("first", None)
    assert [(call.answer, call.error) for call in one.calls] == [({"a": 1}, None), (None, "KeyError: 2")]
    assert before.usage.tokens == 7
    assert run.iterations[0].finished is False


def test_a_run_is_found_by_the_beginning_of_its_id(tmp_path: Path) -> None:
    with TraceWriter(tmp_path) as writer:
        for name in ("aaa111", "aab222", "aaa"):
            writer(make_event("run_started", name, {"inputs": {}}))
    runs = load(tmp_path)
    assert runs.run("aab").id == "aab222"
    assert runs.run("aaa").id == "aaa"
    with pytest.raises(UnknownRun, match="3 runs"):
        runs.run("aa")
    with pytest.raises(UnknownRun, match="no recorded run"):
        runs.run("b")


def test_runs_can_be_filtered(record: Record) -> None:
    submitted = record([cell("SUBMIT(n=41)")])
    failed = record([], signature="doc -> other: str")
    runs = load(submitted.file.path.parent.parent)
    assert [run.id for run in runs] == [failed.id, submitted.id]
    assert [run.id for run in runs.where(ending="submitted")] == [submitted.id]
    assert [run.id for run in runs.where(search="N: 41")] == [submitted.id]
    assert [run.id for run in runs.where(search="-> other")] == [failed.id]
    assert len(runs.where(search="zebra")) == 0


def test_runs_iterations_and_calls_are_data_frames(record: Record) -> None:
    pytest.importorskip("pandas")
    run = record(_SUBMITS, doc=DOC)
    runs = load(run.file.path.parent.parent)
    table = runs.to_pandas()
    assert list(table["id"]) == [run.id]
    assert table["started"].dt.year[0] >= 2024
    assert list(run.iterations.to_pandas()["number"]) == [1, 2, 3, 4, 5]
    assert list(runs.iterations()["run"].unique()) == [run.id]
    assert list(runs.calls()["name"]) == ["llm_query", "SUBMIT"]
    assert list(run.model_calls.to_pandas()["role"]).count("sub") == 1


def test_hostile_text_stays_text_in_a_notebook(record: Record) -> None:
    evil = "<script>alert(1)</script><img src=x onerror=alert(2)>\x1b[31m"
    run = record([cell(f"print({evil!r})", evil), cell("SUBMIT(n=1)")], signature="doc -> n: int", doc=evil)
    runs = load(run.file.path.parent.parent)
    for html in (run._repr_html_(), runs._repr_html_()):
        assert "<script" not in html
        assert "<img" not in html
        assert "\x1b" not in html
    assert "&lt;script&gt;" in run._repr_html_()


def test_a_run_that_goes_on_counts_what_it_asks_itself(tmp_path: Path, pool: sandbox.Pool) -> None:
    """Its record starts with what was done before, so that yet another run can go on from it."""

    def drive(replies: list[str], **options: Any) -> RunRecord:
        with TraceWriter(tmp_path) as writer:
            driver = RunConfig(Signature.of("doc -> n: int"), scripted_lm(replies), observe=writer, pool=pool)
            result = asyncio.run(driver.run({"doc": SHORT}, **options))
        return load(tmp_path).run(result.run_id)

    steps = [cell(f"x = {number}\nprint(x)") for number in range(3)]
    broken = drive(steps)  # the script ends, and the run with it
    assert (broken.ending, broken.iterations_used) == ("failed", 4)
    resumed = drive([cell("SUBMIT(n=x)")], past=recorded_run(broken))
    assert (resumed.ending, resumed.resumed_from, resumed.answer) == ("submitted", broken.id, "n: 2")
    assert resumed.own_model_calls == 1
    assert resumed.tokens == broken.tokens + resumed.own_tokens_in + resumed.own_tokens_out
    assert [one.reply for one in recorded_run(resumed).iterations] == [*steps, cell("SUBMIT(n=x)")]
    assert [one.output for one in recorded_run(resumed, 2).iterations] == ["0", "1"]
    assert recorded_run(resumed, 2).usage.tokens == recorded_run(broken).usage.tokens
