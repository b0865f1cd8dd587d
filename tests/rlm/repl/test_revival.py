"""A kernel that dies: its cells run again within the run's time, and the model is told what came of it."""

from __future__ import annotations

from rlm.budgets import FallbackTrigger, Timeout
from rlm.results import Extracted, Submitted

DIES = "import os\nos.abort()"


async def test_cells_that_run_again_are_on_the_clock(make):
    cells = ["import time\nn = 41\ntime.sleep(2)", DIES, "time.sleep(1)\nSUBMIT(answer=n + 1)"]
    made = make(cells, policy="off", trigger=FallbackTrigger(max_duration=3), extraction=['{"answer": 41}'])
    result = await made.run(doc="")
    assert isinstance(result, Extracted), result
    assert isinstance(result.reason, Timeout)


async def test_a_cell_that_does_not_run_as_before_is_told(make):
    cells = ["import time\nz = llm_query(f'{time.time_ns()}?')\nprint(z)", DIES, "print(1)", "SUBMIT(answer=1)"]
    made = make(cells, policy="off", sub={"*": "41"})
    result = await made.run(doc="")
    assert isinstance(result, Submitted), result
    told = made.asked()[3].messages[-1].text
    assert "one did not run as it had before (NotRecorded" in told
    assert "so their variables are there" not in told


async def test_a_cell_that_died_changed_nothing(make):
    made = make(["k = 5123\nprint(k)", DIES, "SUBMIT(answer=k)"], policy="off")
    result = await made.run(doc="")
    assert isinstance(result, Submitted), result
    changes = [event.data for event in made.events if event.kind == "variables"]
    assert list(changes[0]["added"]) == ["k"]
    assert changes[1] == {"iteration": 2, "added": {}, "changed": {}, "removed": []}


async def test_what_was_refused_stays_refused_when_cells_run_again(make):
    cells = ["SUBMIT(answer=1)", "n = len(doc)\nprint(n)", DIES, "print(n)", "SUBMIT(answer=n)"]
    made = make(cells, policy="off")
    result = await made.run(doc="x" * 500)  # nothing had read it when 1 was submitted; by now something has
    assert isinstance(result, Submitted), result
    assert result.outputs.answer == 500


async def test_cells_that_run_again_see_the_budget_that_they_saw_and_tell_nothing_again(make):
    asking = "got = []\nwhile budget()['llm_calls'] > 48:\n    got.append(llm_query('q'))\nprint(len(got))"
    made = make([asking, DIES, "SUBMIT(answer=len(got))"], policy="off")
    result = await made.run(doc="x")
    assert isinstance(result, Submitted), result
    assert result.outputs.answer == 2
    calls = [event.data["name"] for event in made.events if event.kind == "call_started"]
    assert calls == ["budget", "llm_query", "budget", "llm_query", "budget", "SUBMIT"]


async def test_a_tool_that_ends_itself_ends_nothing_else(make):
    def leave(code: int) -> None:
        raise SystemExit(code)

    async def leave_later(code: int) -> None:
        raise SystemExit(code)

    cells = ["leave(7)", "leave_later(8)", "SUBMIT(answer=1)"]
    made = make(cells, tools={"leave": leave, "leave_later": leave_later})
    result = await made.run(doc="")
    assert isinstance(result, Submitted), result
    assert "leave() ended itself with sys.exit(7)" in made.asked()[1].messages[-1].text
    assert "leave_later() ended itself with sys.exit(8)" in made.asked()[2].messages[-1].text
