"""Events for tests of those who watch runs: typed as the runtime's own, recorded exactly as the test says."""

from __future__ import annotations

import dataclasses
import time as clock
from collections.abc import Mapping
from typing import Any

from rlm import events
from rlm.budgets import FallbackReason, FallbackTrigger, Usage
from rlm.results import Extracted, Failed, FailureCause, Submitted

_REASON = {"kind": "max_iterations", "iterations": 2, "limit": 2}


def make_event(kind: str, run_id: str, data: Mapping[str, Any] | None = None, time: float | None = None) -> Any:
    """Return an event of a kind, also of one that the runtime does not know. Fields that are not given are empty."""
    data = dict(data or {})
    base = events.KINDS.get(kind, events.BaseEvent)
    made_type = type(f"Test{base.__name__}", (base,), {"kind": kind, "data": property(lambda self: self.recorded)})
    fields = _fields(base, kind, data)
    made = made_type(run_id, **fields, time=clock.time() if time is None else time)
    object.__setattr__(made, "recorded", data)
    return made


def _fields(base: Any, kind: str, data: dict[str, Any]) -> dict[str, Any]:
    if kind == "run_ended":
        return {"result": _result(data)}
    given = dict(data)
    if kind in events._FROM_RECORD and kind not in ("plans_compared", "plan_selected", "plan_rejected"):
        given = {**data, "added": data.get("added") or {}, "changed": data.get("changed") or {}}
        reason = data.get("reason_data") or {}
        given["reason_data"] = reason if "iterations" in reason else _REASON
        if given.get("error"):
            given["error"] = {"name": "", "message": "", "line": None, **given["error"]}
        given = dict(events._FROM_RECORD[kind](given))
    if kind == "run_started":
        given |= _start(data)
    if kind == "plans_compared":
        given["candidates"] = [events.RankedPlan.from_dict(one) for one in data["candidates"]]
    if kind == "plan_rejected":
        given["failed_thresholds"] = [events.FailedThreshold(**one) for one in data["failed_thresholds"]]
    own = [one for one in dataclasses.fields(base) if one.name not in ("run_id", "time")]
    return {one.name: given.get(one.name, _empty(one)) for one in own}


def _empty(field: dataclasses.Field[Any]) -> Any:
    if field.default is not dataclasses.MISSING:
        return field.default
    kinds = {"int": 0, "float": 0.0, "str": "", "bool": False}
    name = str(field.type)
    return kinds.get(name, () if name.startswith("Sequence") else {} if name.startswith("Mapping") else None)


def _start(data: dict[str, Any]) -> dict[str, Any]:
    said = data.get("signature")
    said = said if isinstance(said, dict) else {"name": said or ""}
    models = data.get("models") or {}
    given = {name: said.get(name) or () for name in ("inputs", "outputs")}
    trigger = {name: value for name, value in (data.get("trigger") or {}).items() if value is not None}
    return {
        "signature": events.SignatureInfo(
            said.get("name") or "", said.get("instructions") or "", **given, text=said.get("text") or "", schema={}
        ),
        "inputs": data.get("inputs") or {},
        "models": events.ModelNames(*(models.get(role) or "" for role in ("main", "sub", "extraction"))),
        "trigger": FallbackTrigger(**trigger),
        "settings": events.RunSettings("auto", "enforce", 1, {}, (), (), None),
        "depth": data.get("depth") or 0,
    }


def _result(data: dict[str, Any]) -> Any:
    said = data.get("result") or {}
    usage = Usage(**(said.get("usage") or {}))
    outputs = said.get("outputs") or {}
    match data.get("ending", "Failed"):
        case "Submitted":
            return Submitted(outputs, said.get("iterations") or 0, said.get("llm_calls") or 0, usage=usage)
        case "Extracted":
            reason = FallbackReason.from_dict(_REASON)
            return Extracted(outputs, data.get("confidence") or 0.0, reason, usage=usage)
        case _:
            cause = FailureCause.parse(data["cause"]) if data.get("cause") else None
            return Failed(data.get("reason") or "", said.get("partial_outputs"), cause=cause, usage=usage)
