"""Cells that the engine writes in a run whose mode is not `repl`: the first one, from what is decided; and the one in
which an `auto` run changes to direct reading, where code got nowhere."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from ..events import ModeChosen
from ..extraction.errors import ExtractionError
from ..models.profile import profile_of
from ..reading import ModeChoice
from ..reading.choice import choose_mode, estimate_tokens, plan_map, room_for
from ..reading.items import MAX_PACKED

if TYPE_CHECKING:
    from ..history import REPLHistory
    from .config import RunConfig
    from .llm import RunModels

_DIRECT = "outputs = ask_for_outputs()\nSUBMIT(**outputs)"


NOWHERE = 3
"""After so many iterations that failed, one after another, an `auto` run reads its inputs directly, if they fit."""


async def given_cell(
    config: RunConfig, inputs: Mapping[str, Any], models: RunModels, history: REPLHistory
) -> str | None:
    """Return the reply of the next iteration where the engine writes it; None where the main model is to."""
    if len(history) == 0:
        return await first_cell(config, inputs, models)
    written = any(_DIRECT in entry.code for entry in history)
    if config.mode != "auto" or written or history.consecutive_errors != NOWHERE:
        return None
    window = profile_of(config.main_model).context_window
    if (tokens := estimate_tokens(inputs)) > room_for(window):
        return None
    why = f"code failed {NOWHERE} times in a row, and about {tokens:,} tokens fit into the window"
    models.emit(ModeChosen(models.emit.run_id, "direct", why, config.mode, False, None))
    return f"Code got nowhere; the inputs can be read whole.\n```python\n{_DIRECT}\n```"


async def first_cell(config: RunConfig, inputs: Mapping[str, Any], models: RunModels) -> str | None:
    """Return the reply of the first iteration; None where the main model is to write it. Emit what was decided."""
    left = models.ledger.seconds_left()
    try:
        async with asyncio.timeout(left if math.isfinite(left) else None):
            choice = await _choice(config, inputs, models)
    except TimeoutError:
        return None  # the trigger fires
    plan = choice.plan
    described = None if plan is None else plan.to_dict()
    models.emit(ModeChosen(models.emit.run_id, choice.mode, choice.why, config.mode, choice.asked, described))
    if choice.mode == "direct":
        return f"The inputs can be read whole.\n```python\n{_DIRECT}\n```"
    if plan is not None:
        code = plan.code(config.signature, _chars(inputs.get(plan.over)))
        return f"Each item is judged on its own.\n```python\n{code}\n```"
    return None


async def _choice(config: RunConfig, inputs: Mapping[str, Any], models: RunModels) -> ModeChoice:
    async def ask(prompt: str, schema: Mapping[str, Any]) -> Any:
        return await models.typed(prompt, schema, model="main")

    if config.mode == "direct":
        return ModeChoice("direct", "as the task says")
    if config.map is not None and config.mode == "map":
        return ModeChoice("map", "as the task says", config.map)
    try:
        if config.mode == "map":
            return await plan_map(config.signature, inputs, ask)
        window, calls = profile_of(config.main_model).context_window, models.ledger.remaining().llm_calls
        packed = 1 if profile_of(config.sub_model or config.main_model).constrains else MAX_PACKED
        most = None if calls is None or math.isinf(calls) else int(calls) * packed
        return await choose_mode(config.signature, inputs, window, ask, most)
    except ExtractionError as error:
        return ModeChoice("repl", f"the model could not say which mode is best: {error}", asked=True)


def _chars(value: Any) -> int:
    """Return about how many characters a value has."""
    if isinstance(value, list | tuple):
        return sum(len(item) if isinstance(item, str) else 200 for item in value)
    return len(value) if hasattr(value, "__len__") else 0
