"""What events say about a run: its beginning, its variables, its budget; as plain data."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from sandbox import Variable

from ..budgets import Ledger
from ..extraction.retry import Attempt
from ..history import VariableChanges
from ..signatures import Signature

if TYPE_CHECKING:
    from .loop import Driver
    from .replay import Past


def beginning(driver: Driver, ledger: Ledger, inputs: Mapping[str, Any]) -> dict[str, Any]:
    """What a run starts from. The inputs are the live values."""
    models = (driver.main_model, driver.sub_model or driver.main_model, driver.extraction_model or driver.main_model)
    names = [getattr(model, "model", str(model)) for model in models]
    return {
        "signature": driver.signature.once("told", lambda: _signature(driver.signature)),
        "inputs": dict(inputs),
        "depth": ledger.depth,
        "models": dict(zip(("main", "sub", "extraction"), names, strict=True)),
        "trigger": ledger.trigger.to_dict(),
        "settings": {
            "isolation": driver.isolation,
            "policy": driver.policy,
            "depth": driver.depth,
            "limits": dataclasses.asdict(driver.limits),
            "checks": list(driver.checks),
            "tools": sorted(driver.tools),
            "guidance": driver.guidance,
        },
        "task": dict(driver.task) if driver.task is not None else None,
    }


def earlier(past: Past | None) -> dict[str, Any]:
    """Which run a run goes on from, and what had been used until then."""
    if past is None:
        return {"resumed_from": None}
    return {"resumed_from": past.run_id, "spent": past.usage.to_dict()}


def variables(changes: VariableChanges, now: Mapping[str, Variable]) -> dict[str, Any]:
    """The variables that a cell bound, changed and deleted."""
    return {
        "added": {name: _variable(now[name]) for name in changes.added},
        "changed": {name: _variable(now[name]) for name in changes.changed},
        "removed": list(changes.removed),
    }


def budget(ledger: Ledger, iterations: int) -> dict[str, Any]:
    """What has been used, of what."""
    used, limits = ledger.usage(), ledger.trigger
    return {
        "iterations": iterations,
        "max_iterations": limits.max_iterations,
        "llm_calls": used.llm_calls,
        "max_llm_calls": limits.max_llm_calls,
        "seconds": used.seconds,
        "max_duration": limits.max_duration,
        "tokens": used.tokens,
        "tokens_in": used.tokens_in,
        "tokens_out": used.tokens_out,
        "max_tokens": limits.max_tokens,
        "cost_usd": used.cost_usd,
        "max_cost_usd": limits.max_cost_usd,
    }


def attempt(made: Attempt, prompt: str) -> dict[str, Any]:
    """One attempt at an extraction."""
    problems = [{"path": one.path, "message": str(one)} for one in made.problems]
    if made.failure and not problems:
        problems = [{"path": "", "message": made.message}]
    return {"number": made.number, "prompt": prompt, "text": made.raw_output, "problems": problems}


def _signature(signature: Signature) -> dict[str, Any]:
    return {
        "name": signature.name,
        "instructions": signature.instructions,
        "inputs": [field.name for field in signature.inputs],
        "outputs": [field.name for field in signature.outputs],
        "text": _text(signature),
        "schema": signature.output_schema(),
    }


def _text(signature: Signature) -> str:
    sides = [[f"{field.name}: {field.type_text}" for field in side] for side in (signature.inputs, signature.outputs)]
    return " -> ".join(", ".join(side) for side in sides)


def _variable(variable: Variable) -> dict[str, Any]:
    return {"type": variable.type, "size": variable.size, "preview": variable.preview}
