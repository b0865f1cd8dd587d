"""Search in the texts of one run: reasoning, code, output, prompts, answers, values."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ..traces import RunRecord

MAX_MATCHES = 300
_AROUND = 60

PARTS = {
    "run_started": {"inputs": "inputs"},
    "model_asked": {"turns": "prompt", "system": "prompt"},
    "model_answered": {"text": "reply"},
    "model_failed": {"message": "reply"},
    "cell_started": {"code": "code"},
    "cell_ended": {"output": "output", "error": "output"},
    "call_started": {"name": "calls", "arguments": "calls"},
    "call_ended": {"answer": "calls", "error": "calls"},
    "variables": {"added": "variables", "changed": "variables"},
    "history": {"reasoning": "reasoning", "remarks": "observation", "told": "observation"},
    "trigger_fired": {"reason": "reason"},
    "extraction_attempt": {"text": "answer", "prompt": "prompt", "problems": "problems"},
    "run_ended": {"result": "answer"},
}
"""The fields that are searched, and the part of a step in which each is shown."""


def search(run: RunRecord, text: str) -> dict[str, Any]:
    """Return the places where a text occurs, without regard to case; one for each text of the run that has it.

    A place has the step and its part in which the page shows the text; the text before, the occurrence and the text
    after it; the range of the occurrence, and how many more there are.
    """
    pattern = re.compile(re.escape(text), re.IGNORECASE)
    places: list[dict[str, Any]] = []
    found: dict[str, tuple[list[str], list[int], int] | None] = {}
    steps = _Steps()
    for event in run.events(kinds=PARTS):
        step = steps.of(event.kind, event.data, event.sequence)
        for field, part in PARTS[event.kind].items():
            data = event.data.get(field)
            if event.kind == "run_ended" and isinstance(data, dict):
                data = data.get("outputs")  # the rest of a result repeats the events
            for value in _texts(data):
                place = _place(run, pattern, value, found)
                if place is not None:
                    around, span, more = place
                    places.append({"step": step, "part": part, "around": around, "span": span, "more": more})
        if len(places) >= MAX_MATCHES:
            return {"places": places[:MAX_MATCHES], "more": True}
    return {"places": places, "more": False}


class _Steps:
    """The step of the page that shows an event."""

    def __init__(self) -> None:
        self._attempts = 0
        self._by_ask: dict[Any, str] = {}

    def of(self, kind: str, data: dict[str, Any], sequence: int) -> str:
        if kind == "extraction_attempt":
            self._attempts += 1
            return f"attempt-{data.get('number')}"
        if kind == "trigger_fired":
            return "trigger"
        if kind == "model_asked":
            number = data.get("iteration")
            last = f"attempt-{self._attempts + 1}" if data.get("role") == "extraction" else "start"
            self._by_ask[data.get("id")] = str(number) if isinstance(number, int) else last
            return self._by_ask[data.get("id")]
        if kind in ("model_answered", "model_failed"):
            return self._by_ask.get(data.get("id"), "start")
        number = data.get("iteration")
        return str(number) if isinstance(number, int) else "start"


def _texts(value: Any) -> Iterator[str | dict[str, Any]]:
    """Yield the texts in a recorded value, and the references to texts."""
    stack = [value]
    while stack:
        item = stack.pop()
        if isinstance(item, str):
            yield item
        elif isinstance(item, dict):
            if "$body" in item:
                yield item
            else:
                stack += reversed([*item.values()])
        elif isinstance(item, list):
            stack += reversed(item)


def _place(
    run: RunRecord, pattern: re.Pattern[str], value: str | dict[str, Any], found: dict[str, Any]
) -> tuple[list[str], list[int], int] | None:
    if isinstance(value, str):
        return _first(pattern, value)
    digest = str(value["$body"])
    if digest not in found:  # the same text is in many events
        blob = run.blob(digest)
        found[digest] = _first(pattern, blob) if isinstance(blob, str) else None
    place: tuple[list[str], list[int], int] | None = found[digest]
    return place


def _first(pattern: re.Pattern[str], text: str) -> tuple[list[str], list[int], int] | None:
    matches = pattern.finditer(text)
    match = next(matches, None)
    if match is None:
        return None
    start, end = match.span()
    around = [text[max(0, start - _AROUND) : start], text[start:end], text[end : end + _AROUND]]
    return around, [start, end], sum(1 for _ in matches)
