"""The recorded iterations of a run, in the form that another run replays them from."""

from __future__ import annotations

import json
from collections import Counter
from typing import TYPE_CHECKING, Any

from ..budgets import Usage
from ..mounts.hashing import FileRecord
from ..repl.replay import RecordedCall, RecordedIteration, RecordedRun
from .encoding import recorded_files
from .runs import UnknownRun, load

if TYPE_CHECKING:
    from .records import HostCallRecord, IterationRecord
    from .runs import RunRecord


def recorded_run(run: RunRecord, iterations: int | None = None) -> RecordedRun:
    """Return the iterations of a run. An unfinished one has the host calls that were answered.

    With `iterations`, return only that many, and the usage up to there.
    """
    if iterations is not None:
        whole = recorded_run(run)
        return whole if iterations >= len(whole.iterations) else _first(run, whole, iterations)
    replayable: list[RecordedIteration] = []
    for iteration in run.iterations:
        if iteration.reply is None or iteration.number != len(replayable) + 1:
            break  # no reply of the model is recorded: the new run asks for it
        replayable.append(_iteration(iteration))
        if not iteration.finished:
            break
    replies = _reply_counts(run) if run.beginning.get("loop_id") else {}
    return RecordedRun(run.id, tuple(replayable), usage(run), replies, _files(run), _map_answers(run))


def _files(run: RunRecord) -> dict[str, FileRecord]:
    """Return what the files of a run were: with their hashes, if it came to that."""
    for event in run.events(kinds=["files_hashed"]):
        return {place: FileRecord.from_dict(values) for place, values in run.resolve(event.data["files"]).items()}
    stored = run.beginning.get("inputs") or {}
    texts = {name: run.resolve(value["value"]) for name, value in stored.items() if value.get("kind") == "files"}
    return {
        place: FileRecord.from_dict(values)
        for name, text in texts.items()
        for place, values in recorded_files(json.loads(text), name)
    }


def _map_answers(run: RunRecord) -> dict[str, dict[int, Any]]:
    """Return the answers of items by the digest of their map: what a map that was cut off does not ask again."""
    answers: dict[str, dict[int, Any]] = {}
    for event in run.events(kinds=["items_answered"]):
        found = {int(index): answer for index, answer in event.data["answers"].items()}
        answers.setdefault(event.data["digest"], {}).update(found)
    return answers


def _first(run: RunRecord, whole: RecordedRun, iterations: int) -> RecordedRun:
    """Return the first iterations of a run, with the usage after the last of them."""
    used = Usage()
    for event in run.events(kinds=["budget"]):
        if event.data.get("iterations") == iterations:
            used = _usage_of(event.data)
    return RecordedRun(run.id, whole.iterations[:iterations], used, files=whole.files)


def usage(run: RunRecord) -> Usage:
    """Return the usage of a run, its child runs, and the runs that it resumed.

    For an unfinished run it is computed from the events.
    """
    result = run.result()
    if result is not None and isinstance(result.get("usage"), dict):
        return Usage.from_dict(result["usage"])
    before = Usage.from_dict(run.beginning.get("spent") or {})
    tree, budgets = _tree(run), run.events(kinds=["budget"])
    # The last budget event includes everything before it, also the run that this one resumed.
    counted, since = (_usage_of(budgets[-1].data), budgets[-1].time) if budgets else (before, run.started)
    calls = [call for related in tree for call in related.model_calls if not call.past]
    answered = [call for call in calls if call.seconds is not None and call.error is None]
    costs = [cost for cost in (before.cost_usd, *(call.cost_usd for call in calls)) if cost is not None]
    return Usage(
        tokens_in=before.tokens_in + sum(call.tokens_in for call in calls),
        tokens_out=before.tokens_out + sum(call.tokens_out for call in calls),
        cost_usd=sum(costs) if costs else None,
        seconds=counted.seconds + max(0.0, max(map(_last_event, tree)) - since),
        llm_calls=counted.llm_calls + sum(1 for call in calls if call.role == "sub" and call.started > since),
        model_calls=before.model_calls + len(answered),
        unpriced_calls=before.unpriced_calls + sum(1 for call in answered if call.cost_usd is None),
        cached_calls=before.cached_calls + sum(1 for call in answered if call.cached),
    )


def _reply_counts(run: RunRecord) -> dict[str, int]:
    """Count the replies of each model in a run, its child runs, and the runs that it resumed."""
    counts: Counter[str] = Counter()
    runs, earlier = load(), run
    while True:
        for earlier_run in _tree(earlier):
            counts.update(call.model for call in earlier_run.model_calls if not call.past and call.seconds is not None)
        if earlier.resumed_from is None:
            return dict(counts)
        try:
            earlier = runs.run(earlier.resumed_from)
        except UnknownRun:
            return dict(counts)


def _usage_of(budget: dict[str, Any]) -> Usage:
    """Return the usage in a budget event, which does not separate tokens in from tokens out."""
    return Usage(
        tokens_in=int(budget.get("tokens") or 0),
        cost_usd=budget.get("cost_usd"),
        seconds=float(budget.get("seconds") or 0.0),
        llm_calls=int(budget.get("llm_calls") or 0),
    )


def _iteration(iteration: IterationRecord) -> RecordedIteration:
    assert iteration.reply is not None
    output = iteration.output
    if output is None and iteration.finished:
        output = ""  # there was no code to run
    return RecordedIteration(iteration.reply, tuple(_call(call) for call in iteration.calls if call.ended), output)


def _call(call: HostCallRecord) -> RecordedCall:
    answer: Any = None
    if call.answer is not None and call.error is None:
        answer = json.loads(call.answer)
    return RecordedCall(call.name, call.arguments, answer, call.error)


def _tree(run: RunRecord) -> list[RunRecord]:
    return [run, *(below for child in run.children for below in _tree(child))]


def _last_event(run: RunRecord) -> float:
    last = run.events(after=run.event_count - 1)
    return last[-1].time if last else run.started + run.duration
