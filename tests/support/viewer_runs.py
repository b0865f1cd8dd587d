"""Runs for the tests of the page: real ones on scripted models, and events made by hand where no run is like that."""

from __future__ import annotations

import asyncio
import itertools
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import sandbox
from rlm.budgets import FallbackTrigger
from rlm.events import Event
from rlm.models.scripted import scripted_lm
from rlm.repl.config import RunConfig
from rlm.signatures import Signature
from rlm.traces import TraceWriter
from tests.support.events import make_event
from tests.support.replies import cell

LEASE = "\n\n".join(f"§ {n}. The monthly rent is EUR {4000 + n}, due on day {n % 28 + 1}." for n in range(1, 200))
READING = [
    cell("paragraphs = doc.split('\\n\\n')\nprint(len(paragraphs))", "I split the text."),
    cell(
        "answers = llm_batch([f'Who pays? {p}' for p in paragraphs[:5]])\npayer = answers[0]\nprint(answers)",
        "I ask a smaller model.",
    ),
    cell(
        "found = rlm_query('part -> due_day: int', part='\\n'.join(paragraphs[:3]))\nprint(found)",
        "I hand a part of it to a run of its own.",
    ),
    cell("del answers\nrent = 4000 + 1\nprint('the rent is', rent)\nnowhere", "I compute the rent."),
]
INNER = [
    cell("print(part[:40])", "I look."),
    cell("SUBMIT(due_day=int(llm_query('Which day? ' + part)))", "I ask, and submit."),
]
EXTRACTED = ['{"payer": "the tenant", "rent": "a lot"}', '{"payer": "the tenant", "rent": 4001}']


def record_lease(home: Path, pool: sandbox.Pool, *, rent: int = 4001) -> str:
    """A run that is cut off and extracted, with calls, a child run, an error and two attempts."""
    answers = [one.replace("4001", str(rent)) for one in EXTRACTED]
    return _record(
        home,
        RunConfig(
            Signature.of("doc -> payer: str, rent: int"),
            scripted_lm([*READING[:3], *INNER, READING[3]]),
            scripted_lm({"Which day": "2", "*": "the tenant"}, name="scripted/sub"),
            scripted_lm(answers, name="scripted/extraction"),
            trigger=FallbackTrigger(max_iterations=4, max_llm_calls=20, max_tokens=500_000),
            pool=pool,
            task={"path": "tasks/lease.yaml"},
        ),
        {"doc": LEASE},
    )


def record_count(home: Path, pool: sandbox.Pool, number: int) -> str:
    """A short run that submits."""
    replies = [cell("n = len(doc)\nprint(n)", "I count."), cell("SUBMIT(n=n)", "I have it.")]
    driver = RunConfig(
        Signature.of("doc -> n: int"), scripted_lm(replies), pool=pool, task={"path": "tasks/count.yaml"}
    )
    return _record(home, driver, {"doc": "x" * number})


def _record(home: Path, driver: RunConfig, inputs: dict[str, Any]) -> str:
    import dataclasses

    with TraceWriter(home) as writer:
        result = asyncio.run(dataclasses.replace(driver, observe=writer).run(inputs))
        assert writer.flush(60), writer.problem
    return result.run_id


def tell(home: Path, events: Iterator[Event] | list[Event]) -> None:
    """Write events that were made by hand."""
    with TraceWriter(home) as writer:
        for event in events:
            writer(event)
        assert writer.flush(120), writer.problem


def started(run: str, when: float, *, name: str = "Story", model: str = "made/main", **inputs: Any) -> Event:
    data = {
        "signature": {"name": name, "instructions": "Tell a story.", "inputs": list(inputs), "outputs": ["answer"]},
        "inputs": inputs,
        "models": {"main": model, "sub": "made/sub", "extraction": model},
        "trigger": {"max_iterations": 20, "max_llm_calls": 50, "max_duration": 300.0, "max_cost_usd": 1.0},
        "depth": 0,
        "task": None,
    }
    return make_event("run_started", run, data, when)


def iteration(
    run: str,
    number: int,
    when: float,
    *,
    code: str,
    output: str,
    calls: int = 0,
    thought: str = "I go on.",
    cached: bool = False,
) -> Iterator[Event]:
    """The events of one iteration, with so many calls to a sub-model. All answers or none were in the cache."""
    tick = itertools.count()

    def event(kind: str, data: dict[str, Any]) -> Event:
        return make_event(kind, run, data, when + next(tick) * 0.001)

    asks = 1_000_000 * number
    ask = {"id": asks, "role": "main", "iteration": number, "call": None, "kept": 0, "model": "made/main"}
    used: dict[str, Any] = {"tokens_in": 100, "tokens_out": 20, "cost_usd": 0.001, "seconds": 0.01}
    if cached:
        used = {"tokens_in": 0, "tokens_out": 0, "cost_usd": 0.0, "seconds": 0.01, "cached": True}
    yield event("iteration_started", {"iteration": number})
    yield event("model_asked", {**ask, "system": "You work in a REPL.", "turns": [["user", thought]]})
    yield event("model_answered", {"id": asks, "role": "main", "iteration": number, "text": code, **used})
    yield event("cell_started", {"iteration": number, "code": code})
    for call in range(asks + 1, asks + 1 + calls):
        about = {"id": call, "name": "llm_query", "iteration": number}
        yield event("call_started", {**about, "arguments": '[["q"], {}]', "preview": "'q'"})
        yield event("model_asked", {**ask, "id": call, "role": "sub", "call": call, "turns": [["user", "q"]]})
        yield event("model_answered", {"id": call, "role": "sub", "iteration": number, "text": "a", **used})
        yield event("call_ended", {**about, "seconds": 0.002, "error": None, "answer": '"a"'})
    facts = {"output": output, "success": True, "seconds": 0.005, "error": None, "limit": None}
    yield event("cell_ended", {"iteration": number, **facts})
    added = {f"v{number}": {"type": "int", "size": None, "preview": str(number)}}
    yield event("variables", {"iteration": number, "added": added, "changed": {}, "removed": []})
    yield event("history", {"iteration": number, "reasoning": thought, "told": output})
    spent = {"llm_calls": calls * number, "seconds": 0.05 * number, "tokens": 120 * number, "cost_usd": 0.001 * number}
    limits = {"max_iterations": 20, "max_llm_calls": 50, "max_duration": 300.0, "max_cost_usd": 1.0}
    yield event("budget", {"iterations": number, **spent, **limits})


def ended(run: str, when: float, outputs: dict[str, Any], **more: Any) -> Event:
    usage = {"tokens_in": 9, "tokens_out": 3, "cost_usd": 0.01, "seconds": 1.0, "llm_calls": 0, "model_calls": 1}
    result = {"status": "submitted", "run_id": run, "confidence": 1.0, "outputs": outputs, "usage": usage, **more}
    return make_event(
        "run_ended", run, {"ending": "Submitted", "confidence": 1.0, "reason": None, "result": result}, when
    )


def long_story(run: str, iterations: int, calls: int) -> Iterator[Event]:
    """A run of very many events: 8 + 4 * calls an iteration."""
    begin = time.time() - 10_000
    yield started(run, begin, name="Long story", doc="a text")
    for number in range(1, iterations + 1):
        code = f"part = doc[{number}:]\nprint(part)  # " + "long " * 80
        yield from iteration(run, number, begin + number, code=code, output=f"{number} " * 200, calls=calls)
    yield ended(run, begin + iterations + 1, {"answer": "the end"})
