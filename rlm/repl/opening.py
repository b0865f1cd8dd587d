"""The first cell of a run whose mode is not `repl`: the mode is decided, and the cell is written from a plan."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from ..events import ModeChosen
from ..extraction.errors import ExtractionError
from ..models.profile import profile_of
from ..reading import ModeChoice
from ..reading.choice import choose_mode, plan_map

if TYPE_CHECKING:
    from .config import RunConfig
    from .llm import RunModels

_DIRECT = "outputs = ask_for_outputs()\nSUBMIT(**outputs)"


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
        return f"Each item is judged on its own.\n```python\n{plan.code(config.signature)}\n```"
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
        return await choose_mode(config.signature, inputs, profile_of(config.main_model).context_window, ask)
    except ExtractionError as error:
        return ModeChoice("repl", f"the model could not say which mode is best: {error}", asked=True)
