"""Several runs of one task on scripted models, in the real sandbox."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest

import rlm
import sandbox
from rlm.agreement.loop import AgreementLoop
from rlm.agreement.settings import AgreementSettings
from rlm.budgets import FallbackTrigger
from rlm.events import Event, RunEnded, RunStarted
from rlm.models.scripted import scripted_lm
from rlm.plans import Plan, PlanSettings, Thresholds
from rlm.plans.runner import PlanLoop
from rlm.repl.config import RunConfig
from rlm.results import Failed, Submitted
from rlm.runner import make_run
from rlm.signatures import Signature
from rlm.tasks import load as load_task
from rlm.tasks.models import Models, ModelSpec
from rlm.traces import TraceWriter, load, recorded_run

ONE, TWO = "SUBMIT(answer=doc.count('a'))", "SUBMIT(answer=doc.count('a') + 5)"


def cell(code: str) -> str:
    return f"```python\n{code}\n```"


class Runs:
    """A loop of runs on a script: one reply for each run, in the order in which they ask."""

    def __init__(
        self, pool: sandbox.Pool, replies: list[str], *, runs: int = 3, reconcile: bool = False, **options: Any
    ):
        self.model = scripted_lm([cell(one) for one in replies])
        self.events: list[Event] = []
        signature = Signature.of(options.pop("signature", "doc -> answer: int"))
        observe = options.pop("observe", self.events.append)
        self.config = RunConfig(signature, self.model, pool=pool, observe=observe, **options)
        self.settings = AgreementSettings(runs, reconcile)

    async def run(self, past: Any = None) -> Any:
        return await AgreementLoop(self.config, {"doc": "banana"}, self.settings, past=past).run()

    @property
    def asked(self) -> list[str]:
        return ["\n".join(message.text or "" for message in one.messages) for one in self.model._engine_spec.requests]


async def test_two_of_three_that_agree_need_no_third(pool: sandbox.Pool) -> None:
    runs = Runs(pool, [ONE, ONE, TWO])
    result = await runs.run()
    assert isinstance(result, Submitted)
    assert (result.outputs.answer, result.trust, len(runs.asked)) == (3, "verified: 2 of 2", 2)


async def test_a_third_run_decides_and_the_dissent_is_kept(pool: sandbox.Pool) -> None:
    result = await Runs(pool, [TWO, ONE, ONE]).run()
    assert (result.outputs.answer, result.trust) == (3, "verified: 2 of 3")
    (other,) = [run for run in result.agreement["runs"] if run.get("differs")]
    assert other["outputs"] == {"answer": 8}
    assert other["first_difference"] == {"iteration": 1, "code": TWO, "other": ONE}


async def test_runs_that_all_differ_are_disputed(pool: sandbox.Pool) -> None:
    result = await Runs(pool, [f"SUBMIT(answer={number})" for number in (7, 8, 9)]).run()
    assert (result.outputs.answer, result.trust) == (7, "disputed: 1 of 3")


async def test_each_run_has_an_id_of_its_own_below_the_one_of_all(pool: sandbox.Pool) -> None:
    runs = Runs(pool, [ONE, ONE])
    result = await runs.run()
    started = [event for event in runs.events if isinstance(event, RunStarted)]
    assert len({event.run_id for event in started}) == 3
    assert [event.parent for event in started] == [None, result.run_id, result.run_id]
    assert sum(isinstance(event, RunEnded) for event in runs.events) == 3
    assert result.usage.model_calls == 2


async def test_the_runs_do_not_see_each_other_and_are_told_different_ways(pool: sandbox.Pool) -> None:
    runs = Runs(pool, [ONE, TWO, ONE])
    await runs.run()
    assert all("doc.count" not in asked for asked in runs.asked)
    assert len(set(runs.asked)) == 3


async def test_values_of_several_runs_are_put_together_with_their_evidence(pool: sandbox.Pool) -> None:
    replies = ["SUBMIT(n=len(doc), m=4)", "SUBMIT(n=7, m=doc.count('n'))", "SUBMIT(n=len(doc), m=doc.count('n'))"]
    result = await Runs(pool, replies[:2] + replies[2:], signature="doc -> n: int, m: int").run()
    assert result.outputs_to_dict() == {"n": 6, "m": 2}
    assert {piece.field: piece.kind for piece in result.evidence} == {"n": "computed", "m": "computed"}


async def test_a_run_that_fails_does_not_vote(pool: sandbox.Pool) -> None:
    trigger = FallbackTrigger(max_iterations=1)
    result = await Runs(pool, ["1 / 0", ONE, "null", "null", "null", ONE], trigger=trigger, runs=3).run()
    assert not isinstance(result, Failed)
    assert result.outputs.answer == 3


async def test_reconcile_shows_the_programs_that_differ(pool: sandbox.Pool) -> None:
    runs = Runs(pool, [TWO, ONE, ONE], runs=2, reconcile=True)
    result = await runs.run()
    assert (result.outputs.answer, result.agreement["reconciled"], result.trust) == (3, True, "verified: 2 of 3")
    assert ONE in runs.asked[-1]
    assert TWO in runs.asked[-1]


async def test_the_runs_share_one_budget(pool: sandbox.Pool) -> None:
    ask = "x = [llm_query('a') for _ in range(9)]"
    trigger = FallbackTrigger(max_iterations=2, max_llm_calls=6)
    runs = Runs(
        pool,
        [],
        trigger=trigger,
        sub_model=scripted_lm({"*": "yes"}),
        extraction_model=scripted_lm({"*": '{"answer": 1}'}),
    )
    runs.config.main_model._engine_spec.script = {"*": cell(ask)}
    result = await runs.run()
    assert result.usage.llm_calls <= 6


def test_an_interrupted_comparison_is_resumed_without_asking_again(pool: sandbox.Pool, tmp_path: Path) -> None:
    with TraceWriter(tmp_path) as writer:
        first = Runs(pool, [ONE, TWO], observe=writer)
        # The script ends before the third run: the model cannot be asked, and that run fails.
        result = asyncio.run(first.run())
        assert writer.flush(60)
        past = recorded_run(load(tmp_path).run(result.run_id))
    monkey = pytest.MonkeyPatch()
    monkey.setattr("rlm.traces.load", lambda *args: load(tmp_path))
    try:
        again = Runs(pool, [ONE])
        resumed = asyncio.run(again.run(past))
    finally:
        monkey.undo()
    assert (resumed.outputs.answer, resumed.trust, len(again.asked)) == (3, "verified: 2 of 3", 1)
    (other,) = [run for run in resumed.agreement["runs"] if run.get("differs")]
    assert other["first_difference"] == {"iteration": 1, "code": TWO, "other": ONE}


def test_predict_and_task_file_take_agree(pool: sandbox.Pool, tmp_path: Path) -> None:
    model = scripted_lm([cell(ONE), cell(ONE)])
    result = rlm.Predict("doc -> answer: int", lm=model, agree=3, pool=pool, record=False).run_with_fallback(
        doc="banana"
    )
    assert result.trust == "verified: 2 of 2"
    (tmp_path / "replies.yaml").write_text("main:\n" + "".join(f"- |\n  ```python\n  {ONE}\n  ```\n" for _ in "ab"))
    task = tmp_path / "task.yaml"
    head = 'signature: "doc -> answer: int"\ninputs: {doc: banana}\nmodels: {scripted: replies.yaml}\n'
    for text, settings in (
        ("agree: 3", AgreementSettings(3)),
        ("agree: {runs: 5, reconcile: true}", AgreementSettings(5, True)),
    ):
        task.write_text(head + text)
        assert load_task(task).agreement == settings
    task.write_text(head + "agree: 2")
    assert rlm.run_task(task, record=False).trust == "verified: 2 of 2"


def test_a_local_model_answers_the_first_round_as_one_batch(tmp_path: Path) -> None:
    (tmp_path / "replies.yaml").write_text("main: []\n")
    task = tmp_path / "task.yaml"
    task.write_text(
        'signature: "doc -> answer: int"\ninputs: {doc: banana}\nmodels: {scripted: replies.yaml}\nagree: 5'
    )
    made: list[ModelSpec] = []

    def make(spec: ModelSpec, role: str, had: int = 0) -> Any:
        made.append(spec)
        return scripted_lm([cell(ONE)] * 3)

    local, chosen = ModelSpec("local/a", local=True), ModelSpec("local/b", {"parallel": 1}, local=True)
    loaded = replace(load_task(task), models=Models(main=local, sub=chosen, extraction=ModelSpec("openai/a")))
    assert make_run(loaded, make=make).run_here().trust == "verified: 3 of 3"
    assert {spec.model: spec.options for spec in made} == {
        "local/a": {"parallel": 3}, "local/b": {"parallel": 1}, "openai/a": {},
    }  # fmt: skip


async def test_each_run_of_a_task_with_plans_tries_plans_of_its_own(pool: sandbox.Pool, tmp_path: Path) -> None:
    runs = Runs(pool, [TWO, ONE, ONE])
    settings = PlanSettings((Plan("count"),), count=1, thresholds=Thresholds(), logs=tmp_path / "plans")
    make = partial(PlanLoop, settings=settings)
    result = await AgreementLoop(runs.config, {"doc": "banana"}, AgreementSettings(3), make=make).run()
    assert (result.outputs.answer, result.trust) == (3, "verified: 2 of 3")
    assert result.plan is not None
    parents = {event.run_id: event.parent for event in runs.events if isinstance(event, RunStarted)}
    assert sum(parent == result.run_id for parent in parents.values()) == 3
    assert parents[result.plan["run_id"]] == result.agreement["run_id"]
