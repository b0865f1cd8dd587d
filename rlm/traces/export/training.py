"""Training data from recorded runs: conversations to imitate, pairs to prefer one of, and tasks with known answers.

Secrets are replaced in traces when they are written, so they are in none of this.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any

from ..encoding import InputNotRecorded

if TYPE_CHECKING:
    from ..runs import RunRecord

FORMS = ("sft", "preferences", "verifiers")

Line = dict[str, Any]


def training_lines(runs: Iterable[RunRecord], form: str) -> Iterator[tuple[RunRecord, Line]]:
    """Yield lines of a form in `FORMS`, each with the run that it is from."""
    lines = {"sft": _sft, "preferences": _preferences, "verifiers": _verifiers}[form]
    for run in runs:
        for line in lines(run):
            yield run, line


def is_example(run: RunRecord) -> bool:
    """Return whether a run is one to learn from: it submitted, and nothing disputes its answer."""
    result = run.result() or {}
    return run.ending == "submitted" and not str(result.get("trust", "")).startswith("disputed")


def _sft(run: RunRecord) -> Iterator[Line]:
    """Yield the conversation of a run, or those of its runs whose answer was taken."""
    for member in _answering_runs(run):
        messages = conversation(member)
        if messages:
            yield {"messages": messages, "run": member.id, "task": run.task or run.name, "model": member.model}


def _preferences(run: RunRecord) -> Iterator[Line]:
    """Yield pairs of a run whose answer was taken and one that gave another, each with its whole conversation."""
    taken, others = _agreement(run)
    if not taken:
        return
    chosen = conversation(taken[0])
    for other in others:
        rejected = conversation(other)
        if chosen and rejected:
            pair = {"chosen": chosen, "rejected": rejected, "run": run.id}
            yield {**pair, "chosen_run": taken[0].id, "rejected_run": other.id, "task": run.task or run.name}


def _verifiers(run: RunRecord) -> Iterator[Line]:
    """Yield the task with its answer, as a row of a data set for environments that check answers."""
    members = _answering_runs(run)
    messages = conversation(members[0])[:2] if members else []
    outputs = (run.result() or {}).get("outputs")
    if not messages or outputs is None:
        return
    try:
        inputs = run.inputs()
    except InputNotRecorded:
        return
    info = {"run": run.id, "signature": run.name, "inputs": inputs}
    answer = json.dumps(outputs, sort_keys=True, ensure_ascii=False)
    yield {"prompt": messages, "answer": answer, "task": run.task or run.name, "info": info}


def conversation(run: RunRecord) -> list[dict[str, str]]:
    """Return the last conversation with the main model, its reply included; nothing where there is none."""
    asked = [prompt for prompt in run.prompts() if prompt.role == "main" and prompt.reply is not None]
    if not asked:
        return []
    last = asked[-1]
    system = [{"role": "system", "content": last.system}] if last.system else []
    turns = [{"role": role, "content": text} for role, text in last.turns]
    return [*system, *turns, {"role": "assistant", "content": str(last.reply)}]


def _answering_runs(run: RunRecord) -> list[RunRecord]:
    """Return the runs that gave the answer: the run itself, or those of several that agree with it."""
    taken, _ = _agreement(run)
    if taken:
        return taken
    accepted = ((run.result() or {}).get("plan") or {}).get("run_id")
    children = {child.id: child for child in run.children}
    return [children[accepted]] if accepted in children else [run]


def _agreement(run: RunRecord) -> tuple[list[RunRecord], list[RunRecord]]:
    """Return the independent runs that gave the answer, and those that gave another one."""
    about = ((run.result() or {}).get("agreement") or {}).get("runs") or []
    children = {child.id: child for child in run.children}
    taken = [part for part in about if part.get("outputs") is not None and not part.get("differs")]
    others = [part for part in about if part.get("differs")]
    return [children[part["run_id"]] for part in taken if part["run_id"] in children], [
        children[other["run_id"]] for other in others if other["run_id"] in children
    ]
