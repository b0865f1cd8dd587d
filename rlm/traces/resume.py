"""What a run on record had done, for a run that goes on from there."""

from __future__ import annotations

import json
from collections import Counter
from typing import TYPE_CHECKING, Any

from ..budgets import Usage
from ..repl.replay import Past, PastIteration, RecordedCall
from .runs import UnknownRun, load

if TYPE_CHECKING:
    from .records import CallOnRecord, IterationRecord
    from .runs import RunRecord


def past(run: RunRecord, iterations: int | None = None) -> Past:
    """The iterations of a run so far. One that had not ended is there with the calls that were answered.

    With `iterations`, only the first so many of them, and what they had used.
    """
    if iterations is not None:
        whole = past(run)
        return whole if iterations >= len(whole.iterations) else _until(run, whole, iterations)
    made: list[PastIteration] = []
    for one in run.iterations:
        if one.reply is None or one.number != len(made) + 1:
            break  # the model had not answered yet: here the new run asks it
        made.append(_iteration(one))
        if not one.finished:
            break
    return Past(run.id, tuple(made), usage(run), _answered(run) if run.beginning.get("loop_id") else {})


def _until(run: RunRecord, whole: Past, iterations: int) -> Past:
    """The first iterations of a run, with what had been used after them."""
    used = Usage()
    for event in run.events(kinds=["budget"]):
        if event.data.get("iterations") == iterations:
            used = _counted(event.data)
    return Past(run.id, whole.iterations[:iterations], used)


def usage(run: RunRecord) -> Usage:
    """What a run and its child runs had used, and the runs that it went on from.

    For one that did not end it is put together from its events.
    """
    result = run.result()
    if result is not None and isinstance(result.get("usage"), dict):
        return Usage.from_dict(result["usage"])
    before = Usage.from_dict(run.beginning.get("spent") or {})
    tree, budgets = _tree(run), run.events(kinds=["budget"])
    # The last budget counts all that came before it, also in the run that this one goes on from.
    counted, since = (_counted(budgets[-1].data), budgets[-1].time) if budgets else (before, run.started)
    asked = [call for one in tree for call in one.model_calls if not call.past]
    answered = [call for call in asked if call.seconds is not None and call.error is None]
    costs = [cost for cost in (before.cost_usd, *(call.cost_usd for call in asked)) if cost is not None]
    return Usage(
        tokens_in=before.tokens_in + sum(call.tokens_in for call in asked),
        tokens_out=before.tokens_out + sum(call.tokens_out for call in asked),
        cost_usd=sum(costs) if costs else None,
        seconds=counted.seconds + max(0.0, max(map(_seen, tree)) - since),
        llm_calls=counted.llm_calls + sum(1 for call in asked if call.role == "sub" and call.started > since),
        model_calls=before.model_calls + len(answered),
        unpriced_calls=before.unpriced_calls + sum(1 for call in answered if call.cost_usd is None),
        cached_calls=before.cached_calls + sum(1 for call in answered if call.cached),
    )


def _answered(run: RunRecord) -> dict[str, int]:
    """How often each model has answered, in a run, in its child runs and in those that it went on from."""
    made: Counter[str] = Counter()
    runs, earlier = load(), run
    while True:
        for one in _tree(earlier):
            made.update(call.model for call in one.model_calls if not call.past and call.seconds is not None)
        if earlier.resumed_from is None:
            return dict(made)
        try:
            earlier = runs.run(earlier.resumed_from)
        except UnknownRun:
            return dict(made)


def _counted(budget: dict[str, Any]) -> Usage:
    """What a budget says was used. It does not tell tokens that were read from those that were written."""
    return Usage(
        tokens_in=int(budget.get("tokens") or 0),
        cost_usd=budget.get("cost_usd"),
        seconds=float(budget.get("seconds") or 0.0),
        llm_calls=int(budget.get("llm_calls") or 0),
    )


def _iteration(one: IterationRecord) -> PastIteration:
    assert one.reply is not None
    output = one.output
    if output is None and one.finished:
        output = ""  # there was no code to run
    return PastIteration(one.reply, tuple(_call(call) for call in one.calls if call.ended), output)


def _call(call: CallOnRecord) -> RecordedCall:
    answer: Any = None
    if call.answer is not None and call.error is None:
        answer = json.loads(call.answer)
    return RecordedCall(call.name, call.arguments, answer, call.error)


def _tree(run: RunRecord) -> list[RunRecord]:
    return [run, *(below for child in run.children for below in _tree(child))]


def _seen(run: RunRecord) -> float:
    last = run.events(after=run.event_count - 1)
    return last[-1].time if last else run.started + run.duration
