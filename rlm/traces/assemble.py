"""Puts events together to what they tell of: iterations, calls, prompts, attempts."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any

from .records import AttemptRecord, CallOnRecord, EventRecord, IterationRecord, ModelCall, Prompt, Variables

Fill = Callable[[Any], Any]

ITERATION_KINDS = (
    *("iteration_started", "model_answered", "cell_started", "cell_ended", "call_started", "call_ended"),
    *("variables", "history"),
)


def iterations(events: Iterable[EventRecord], fill: Fill) -> Iterator[IterationRecord]:
    """The iterations in order; the last one may not be finished."""
    found: dict[int, dict[str, Any]] = {}
    listed = list(events)
    for event in listed:
        number = event.data.get("iteration")
        if not isinstance(number, int):
            continue
        if event.kind == "iteration_started":
            found[number] = {"number": number, "started": event.time}
        one = found.setdefault(number, {"number": number, "started": event.time})
        data = event.data
        match event.kind:
            case "model_answered" if data.get("role", "main") == "main":
                one["reply"] = fill(data.get("text"))
            case "cell_started":
                one["code"] = fill(data.get("code")) or ""
            case "cell_ended":
                one.update({name: data.get(name) for name in ("seconds", "limit")})
                one["error"] = fill(data.get("error"))
                one["output"] = fill(data.get("output")) or ""
                one["success"] = bool(data.get("success"))
            case "variables":
                one["variables"] = Variables(
                    fill(data.get("added")) or {}, fill(data.get("changed")) or {}, tuple(data.get("removed") or ())
                )
            case "history":
                one.update({name: fill(data.get(name)) for name in ("reasoning", "told")})
                one["remarks"] = tuple(fill(data.get("remarks")) or ())
                one["finished"] = True
    made: dict[int, list[CallOnRecord]] = {}
    for call in calls(listed, fill):
        made.setdefault(call.iteration or 0, []).append(call)
    for number in sorted(found):
        yield IterationRecord(**found[number], calls=tuple(made.get(number, ())))


def calls(events: Iterable[EventRecord], fill: Fill) -> list[CallOnRecord]:
    """The calls from cells to the host, in the order in which they began."""
    found: dict[Any, dict[str, Any]] = {}
    for event in events:
        data = event.data
        if event.kind == "call_started":
            found[data["id"]] = {
                "id": data["id"],
                "name": fill(data.get("name")),
                "iteration": data.get("iteration"),
                "arguments": fill(data.get("arguments")) or "",
                "started": event.time,
                "sequence": event.sequence,
            }
        elif event.kind == "call_ended" and data.get("id") in found:
            ended = {name: fill(data.get(name)) for name in ("answer", "error", "seconds")}
            found[data["id"]].update(ended)
    unknown = {"answer": None, "error": None, "seconds": None}
    return [CallOnRecord(**{**unknown, **one}) for one in found.values()]


def model_calls(events: Iterable[EventRecord]) -> list[ModelCall]:
    """The questions to models, in order; without their texts."""
    found: dict[Any, dict[str, Any]] = {}
    for event in events:
        data = event.data
        if event.kind in ("model_asked", "model_answered", "model_failed"):
            one = found.setdefault(
                data.get("id"),
                {"id": data.get("id"), "role": "main", "started": event.time, "sequence": event.sequence, "model": ""},
            )
            known = ("role", "iteration", "call", "model", "seconds", "tokens_in", "tokens_out", "cost_usd")
            marks = ("truncated", "past", "cached")
            one.update({name: data[name] for name in (*known, *marks) if data.get(name) is not None})
            if event.kind == "model_failed":
                one["error"] = str(data.get("error_kind") or "failed")
    return [ModelCall(**{"iteration": None, "call": None, **one}) for one in found.values()]


def prompts(events: Iterable[EventRecord], fill: Fill) -> Iterator[Prompt]:
    """Every prompt, whole. The conversation with the main model is on record as what was added to it."""
    listed = [event for event in events if event.kind in ("model_asked", "model_answered")]
    replies = {event.data.get("id"): event.data.get("text") for event in listed if event.kind == "model_answered"}
    conversation: list[Any] = []
    for event in listed:
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
            model=fill(data.get("model")) or "",
            system=fill(data.get("system")),
            turns=tuple((role, fill(text)) for role, text in turns),
            reply=fill(replies.get(data.get("id"))),
        )


def attempts(events: Iterable[EventRecord], fill: Fill) -> Iterator[AttemptRecord]:
    """The attempts at an extraction."""
    for event in events:
        if event.kind == "extraction_attempt":
            data = fill(event.data)
            yield AttemptRecord(
                number=data.get("number", 0),
                prompt=data.get("prompt") or "",
                text=data.get("text") or "",
                problems=tuple(data.get("problems") or ()),
                seconds=data.get("seconds"),
            )
