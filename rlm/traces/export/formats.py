"""A run in other forms: one JSON object, its events line by line, a notebook."""

from __future__ import annotations

import base64
import dataclasses
import json
from typing import TYPE_CHECKING, Any

from ..inputs import NotKept

if TYPE_CHECKING:
    from ..runs import RunRecord


def export(run: RunRecord, form: str) -> tuple[str, list[str]]:
    """The run as `json`, `jsonl` or `ipynb` text, and what has to be said about it."""
    match form:
        case "json":
            return json.dumps(run_json(run, inputs=True), indent=1, default=_plain) + "\n", []
        case "jsonl":
            return "".join(_lines(run)), []
        case "ipynb":
            from .notebook import notebook

            return notebook(run)
        case other:
            raise ValueError(f"{other!r} is no form; one is json, jsonl or ipynb")


def run_json(run: RunRecord, iteration: int | None = None, *, inputs: bool = False) -> dict[str, Any]:
    """Everything on record of a run as plain JSON values; the inputs whole, or only what they were."""
    found = [dataclasses.asdict(one) for one in run.iterations if iteration in (None, one.number)]
    if iteration is not None:
        return {"run": run.to_dict(), "iterations": found}
    start = dict(run.beginning)
    outlines = start.pop("inputs", {})
    return {
        "run": run.to_dict(),
        "beginning": run.filled(start),
        "inputs": _inputs(run) if inputs else outlines,
        "iterations": found,
        "model_calls": [dataclasses.asdict(one) for one in run.model_calls],
        "prompts": [dataclasses.asdict(one) for one in run.prompts()],
        "attempts": [dataclasses.asdict(one) for one in run.attempts],
        "budgets": [{"time": one.time, **one.data} for one in run.events(kinds=["budget"])],
        "result": run.result(),
        "children": [run_json(child, inputs=inputs) for child in run.children],
    }


def _lines(run: RunRecord) -> Any:
    for event in run.events():
        data = dict(event.data)
        if event.kind == "run_started":
            data["inputs"] = _inputs(run)
        made = {**dataclasses.asdict(event), "run": run.id, "data": run.filled(data)}
        yield json.dumps(made, default=_plain) + "\n"
    for child in run.children:
        yield from _lines(child)


def _inputs(run: RunRecord) -> dict[str, Any]:
    try:
        return run.inputs()
    except NotKept:
        return dict(run.filled(run.beginning.get("inputs") or {}))


def _plain(value: Any) -> Any:
    if isinstance(value, bytes):
        return {"base64": base64.b64encode(value).decode()}
    return repr(value)
