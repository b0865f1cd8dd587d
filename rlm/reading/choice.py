"""`auto`: the mode for a task, by the sizes and shapes of its inputs and at most one question to the main model."""

from __future__ import annotations

import json
import re
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from importlib.resources import files
from string import Template
from typing import Any, Literal, get_args

from ..shapes import Shape, describe
from ..signatures import Signature
from .plan import CHUNK_CHARS, MapPlan, Split

Mode = Literal["repl", "auto", "direct", "map"]
MODES: tuple[str, ...] = get_args(Mode)

SHORT_TOKENS = 400
"""Inputs so short are read directly, and no question is asked about them."""

DIRECT_TOKENS = 24_000
"""Longer inputs are not read directly, whatever fits into the window: models miss more the more they read."""

DEFAULT_WINDOW = 64_000
_CHARS_PER_TOKEN = 3.2
_DEAR, _DEAR_TOKENS, _MANY_CALLS = 5, 10_000, 20
_LINES = ("log", "lines", "JSON lines")

Ask = Callable[[str, Mapping[str, Any]], Awaitable[Any]]

_SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {
        "way": {"enum": ["code", "read", "each"]},
        "question": {"type": "string", "maxLength": 300},
        "answers": {"type": "array", "items": {"type": "string", "maxLength": 40}, "maxItems": 12},
        "counted": {"type": "string", "maxLength": 40},
    },
    "required": ["way", "question", "answers", "counted"],
    "additionalProperties": False,
}


@dataclass(frozen=True)
class ModeChoice:
    """The mode of a run, why, and the plan of a map."""

    mode: Mode
    why: str
    plan: MapPlan | None = None
    asked: bool = False
    """Whether the main model was asked for it."""


async def choose_mode(
    signature: Signature, inputs: Mapping[str, Any], window: int | None, ask: Ask, most_items: int | None = None
) -> ModeChoice:
    """Return the mode for a task. `ask` asks the main model for a value of a JSON schema.

    A map of more than `most_items` would be refused: where the inputs do not fit either, nothing is asked.
    """
    tokens = estimate_tokens(inputs)
    if not inputs or tokens <= SHORT_TOKENS:
        return ModeChoice("direct", f"the inputs are short: about {tokens:,} tokens")
    room = room_for(window)
    over, shape = _longest(inputs)
    items = _items(shape, inputs[over])
    if tokens > room and most_items is not None and items > most_items:
        why = f"about {tokens:,} tokens are too many to be read at once, and {items:,} items too many to be asked about"
        return ModeChoice("repl", why)
    answer = await ask(_prompt(signature, inputs, over, shape), _SCHEMA)
    way = answer.get("way")
    if way == "each":
        plan = _plan(over, shape, inputs[over], answer)
        if plan is not None:
            return ModeChoice("map", f"each item of {over} has to be judged: {plan.question}", plan, asked=True)
        way = "read"
    if way == "read" and tokens <= room:
        return ModeChoice("direct", f"it has to be read, and about {tokens:,} tokens fit into the window", asked=True)
    if way == "read":
        return ModeChoice("repl", f"about {tokens:,} tokens are too many to be read at once", asked=True)
    return ModeChoice("repl", "code can compute it", asked=True)


async def plan_map(signature: Signature, inputs: Mapping[str, Any], ask: Ask) -> ModeChoice:
    """Return a map with the plan that the main model gives; `repl` where it gives none."""
    if not inputs:
        return ModeChoice("repl", "there is no input to map over")
    over, shape = _longest(inputs)
    schema = {**_SCHEMA, "properties": {**_SCHEMA["properties"], "way": {"enum": ["each"]}}}
    plan = _plan(over, shape, inputs[over], await ask(_prompt(signature, inputs, over, shape), schema))
    if plan is None:
        return ModeChoice("repl", f"{over} has no items, or the model gave no question about one", asked=True)
    return ModeChoice("map", f"as the task says; about each item of {over}: {plan.question}", plan, asked=True)


def room_for(window: int | None) -> int:
    """Return how many tokens of inputs are read directly, for a model with this window."""
    return min(DIRECT_TOKENS, (window or DEFAULT_WINDOW) // 2)


def advice(inputs: Mapping[str, Any], window: int | None, *, answered: bool, tokens: int, calls: int) -> str | None:
    """Return why `auto` would probably have helped a run in the mode `repl` that used so many tokens and LLM calls."""
    size = estimate_tokens(inputs)
    if size <= room_for(window) and (not answered or tokens > _DEAR * size + _DEAR_TOKENS):
        return f"The inputs have about {size:,} tokens, which the model can read at once"
    if not answered and calls >= _MANY_CALLS:
        return f"The code asked {calls} questions about parts of the inputs, which a map asks about each item"
    return None


def estimate_tokens(inputs: Mapping[str, Any]) -> int:
    """Return about how many tokens the inputs have in a prompt."""
    chars = 0
    for value in inputs.values():
        chars += len(value) if _is_text(value) else len(json.dumps(value, default=str))
    return int(chars / _CHARS_PER_TOKEN)


def _is_text(value: Any) -> bool:
    return isinstance(value, str) or not isinstance(value, list | dict | tuple | set | int | float | bool | None)


def _longest(inputs: Mapping[str, Any]) -> tuple[str, Shape]:
    sizes = {name: len(value) if _is_text(value) else len(str(value)) for name, value in inputs.items()}
    name = max(sizes, key=lambda one: sizes[one])
    return name, describe(inputs[name])


def _prompt(signature: Signature, inputs: Mapping[str, Any], over: str, shape: Shape) -> str:
    others = [f"{name}: {value}" for name, value in inputs.items() if name != over and len(str(value)) <= 600]
    template = Template(files(__package__).joinpath("choice.md").read_text(encoding="utf-8"))
    return template.substitute(
        task="\n".join([signature.instructions, *others]),
        outputs=signature.field_list(),
        name=over,
        shape=shape.text(most=5, width=140),
    )


def _plan(over: str, shape: Shape, value: Any, answer: Mapping[str, Any]) -> MapPlan | None:
    """Return the plan of a map from the answer of the model; None where there are no items, or no question."""
    question = str(answer.get("question") or "").strip()
    split = _split(shape, value)
    if split is None or not question:
        return None
    choices = list(dict.fromkeys(str(choice).strip() for choice in answer.get("answers") or () if str(choice).strip()))
    counted = str(answer.get("counted") or "").strip()
    if counted and counted not in choices:
        choices.append(counted)
    kind = choices if len(choices) > 1 else None
    return MapPlan(over, question, kind, split, value=counted or None)


def _items(shape: Shape, value: Any) -> int:
    """Return how many items a map would have, at least."""
    split = _split(shape, value)
    if split == "items":
        return len(value)
    if split in ("lines", "rows"):
        return max(1, int(value.count("\n")))
    return len(value) // CHUNK_CHARS if split is not None and hasattr(value, "__len__") else 0


def _split(shape: Shape, value: Any) -> Split | None:
    if isinstance(value, list | tuple):
        return "items" if len(value) > 1 else None
    if shape.kind in _LINES:
        return "lines"
    if shape.kind in ("CSV", "TSV"):
        return "rows"
    if isinstance(value, str) and len(re.findall(r"\n\s*\n", value[:100_000])) >= 3:
        return "paragraphs"
    return "chunks" if _is_text(value) else None
