"""Export of a run as one JSON object, as its events line by line, or as a notebook."""

from __future__ import annotations

import base64
import dataclasses
import json
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from ..encoding import InputNotRecorded

if TYPE_CHECKING:
    from ..runs import RunRecord


def export(run: RunRecord, format: str) -> tuple[str, list[str]]:
    """Return the run as `json`, `jsonl` or `ipynb` text, and notes for the user."""
    match format:
        case "json":
            return json.dumps(run_json(run, inputs=True), indent=1, default=_plain) + "\n", []
        case "jsonl":
            return "".join(_lines(run)), []
        case "ipynb":
            from .notebook import notebook

            return notebook(run)
        case other:
            raise ValueError(f"unknown format {other!r}: use json, jsonl or ipynb")


def run_json(run: RunRecord, iteration: int | None = None, *, inputs: bool = False) -> dict[str, Any]:
    """Return the whole record of a run as plain JSON values; the inputs with `inputs`, else their stored form."""
    iterations = [dataclasses.asdict(record) for record in run.iterations if iteration in (None, record.number)]
    if iteration is not None:
        return {"run": run.to_dict(), "iterations": iterations}
    start = dict(run.beginning)
    stored_inputs = start.pop("inputs", {})
    return {
        "run": run.to_dict(),
        "beginning": run.resolve(start),
        "inputs": _inputs(run) if inputs else stored_inputs,
        "iterations": iterations,
        "model_calls": [dataclasses.asdict(call) for call in run.model_calls],
        "prompts": [dataclasses.asdict(prompt) for prompt in run.prompts()],
        "attempts": [dataclasses.asdict(attempt) for attempt in run.attempts],
        "budgets": [{"time": event.time, **event.data} for event in run.events(kinds=["budget"])],
        "result": run.result(),
        "children": [run_json(child, inputs=inputs) for child in run.children],
    }


def _lines(run: RunRecord) -> Iterator[str]:
    for event in run.events():
        data = dict(event.data)
        if event.kind == "run_started":
            data["inputs"] = _inputs(run)
        line = {**dataclasses.asdict(event), "run": run.id, "data": run.resolve(data)}
        yield json.dumps(line, default=_plain) + "\n"
    for child in run.children:
        yield from _lines(child)


def _inputs(run: RunRecord) -> dict[str, Any]:
    try:
        return run.inputs()
    except InputNotRecorded:
        return dict(run.resolve(run.beginning.get("inputs") or {}))


def _plain(value: Any) -> Any:
    if isinstance(value, bytes):
        return {"base64": base64.b64encode(value).decode()}
    return repr(value)
