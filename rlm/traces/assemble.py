"""Records assembled from the events of a run: iterations, host calls, model calls, prompts, attempts."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any

from .records import (
    AttemptRecord,
    EventRecord,
    HostCallRecord,
    IterationRecord,
    ModelCallRecord,
    Prompt,
    VariableChanges,
)

Resolve = Callable[[Any], Any]
"""Replaces references to blobs by the blobs."""

ITERATION_KINDS = (
    *("iteration_started", "model_answered", "cell_started", "cell_ended", "call_started", "call_ended"),
    *("variables", "history"),
)


def iterations(events: Iterable[EventRecord], resolve: Resolve) -> Iterator[IterationRecord]:
    """Yield the iterations in order; the last may be unfinished."""
    events = list(events)
    by_number: dict[int, dict[str, Any]] = {}
    for event in events:
        number = event.data.get("iteration")
        if not isinstance(number, int):
            continue
        if event.kind == "iteration_started":
            by_number[number] = {"number": number, "started": event.time}
        fields = by_number.setdefault(number, {"number": number, "started": event.time})
        data = event.data
        match event.kind:
            case "model_answered" if data.get("role", "main") == "main":
                fields["reply"] = resolve(data.get("text"))
            case "cell_started":
                fields["code"] = resolve(data.get("code")) or ""
            case "cell_ended":
                fields.update({name: data.get(name) for name in ("seconds", "limit")})
                fields["error"] = resolve(data.get("error"))
                fields["output"] = resolve(data.get("output")) or ""
                fields["success"] = bool(data.get("success"))
            case "variables":
                added, changed = (resolve(data.get(name)) or {} for name in ("added", "changed"))
                fields["variables"] = VariableChanges(added, changed, tuple(data.get("removed") or ()))
            case "history":
                fields["reasoning"] = resolve(data.get("reasoning"))
                fields["observation"] = resolve(data.get("told"))
                fields["hints"] = tuple(resolve(data.get("remarks")) or ())
                fields["finished"] = True
    by_iteration: dict[int, list[HostCallRecord]] = {}
    for call in host_calls(events, resolve):
        by_iteration.setdefault(call.iteration or 0, []).append(call)
    for number in sorted(by_number):
        yield IterationRecord(**by_number[number], calls=tuple(by_iteration.get(number, ())))


def host_calls(events: Iterable[EventRecord], resolve: Resolve) -> list[HostCallRecord]:
    """Return the host calls in the order in which they started."""
    by_id: dict[Any, dict[str, Any]] = {}
    for event in events:
        data = event.data
        if event.kind == "call_started":
            by_id[data["id"]] = {
                "id": data["id"],
                "name": resolve(data.get("name")),
                "iteration": data.get("iteration"),
                "arguments": resolve(data.get("arguments")) or "",
                "started": event.time,
                "sequence": event.sequence,
            }
        elif event.kind == "call_ended" and data.get("id") in by_id:
            by_id[data["id"]].update({name: resolve(data.get(name)) for name in ("answer", "error", "seconds")})
    pending = {"answer": None, "error": None, "seconds": None}
    return [HostCallRecord(**{**pending, **fields}) for fields in by_id.values()]


def model_calls(events: Iterable[EventRecord]) -> list[ModelCallRecord]:
    """Return the requests to models in order, without their texts."""
    by_id: dict[Any, dict[str, Any]] = {}
    for event in events:
        data = event.data
        if event.kind in ("model_asked", "model_answered", "model_failed"):
            started = {"id": data.get("id"), "role": "main", "started": event.time, "sequence": event.sequence}
            fields = by_id.setdefault(data.get("id"), {**started, "model": "", "iteration": None, "call": None})
            numbers = ("iteration", "call", "seconds", "tokens_in", "tokens_out", "cost_usd")
            names = ("role", "model", *numbers, "truncated", "past", "cached")
            fields.update({name: data[name] for name in names if data.get(name) is not None})
            if event.kind == "model_failed":
                fields["error"] = str(data.get("error_kind") or "failed")
    return [ModelCallRecord(**fields) for fields in by_id.values()]


def prompts(events: Iterable[EventRecord], resolve: Resolve) -> Iterator[Prompt]:
    """Yield every prompt with its complete text; events of the main conversation only have the turns that are new."""
    events = [event for event in events if event.kind in ("model_asked", "model_answered")]
    replies = {event.data.get("id"): event.data.get("text") for event in events if event.kind == "model_answered"}
    conversation: list[Any] = []
    for event in events:
        data = event.data
        if event.kind != "model_asked":
            continue
        turns = [tuple(turn) for turn in data.get("turns") or ()]
        if data.get("role") == "main":
            turns = conversation = [*conversation[: data.get("kept") or 0], *turns]
        yield Prompt(
            id=data.get("id", 0),
            role=data.get("role") or "main",
            iteration=data.get("iteration"),
            model=resolve(data.get("model")) or "",
            system=resolve(data.get("system")),
            turns=tuple((role, resolve(text)) for role, text in turns),
            reply=resolve(replies.get(data.get("id"))),
        )


def attempts(events: Iterable[EventRecord], resolve: Resolve) -> Iterator[AttemptRecord]:
    """Yield the attempts at an extraction."""
    for event in events:
        if event.kind == "extraction_attempt":
            data = resolve(event.data)
            yield AttemptRecord(
                number=data.get("number", 0),
                prompt=data.get("prompt") or "",
                text=data.get("text") or "",
                problems=tuple(data.get("problems") or ()),
                seconds=data.get("seconds"),
            )
