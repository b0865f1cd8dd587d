"""The next step of a run from a model that did not manage to write one: held to a thought and some code."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from pydantic import BaseModel

from ..extraction import ParseError, Schema, parse
from ..models.ask import Answer
from .asking import constrained
from .calls import Recording
from .metrics import TierMetrics

LABEL = "the next step"
IN_FORM = (
    "There was no code in that reply. Write it again as JSON, with your thought in a few words and the Python code of "
    'the next step: {"thought": "...", "code": "..."}'
)


class Step(BaseModel):
    """What a reply must have."""

    thought: str
    code: str


async def ask_step(lm: Any, turns: Sequence[tuple[str, str]], system: str | None, adapter: Any) -> str | None:
    """The reply, as text with a code block; None where the model wrote none even so. `lm` can be held to a type."""
    record = Recording()
    answer: Answer = await constrained("tier3", lm, [*turns, ("user", IN_FORM)], Step, system, {}, record)
    metrics = getattr(adapter, "metrics", None)
    try:
        step = Step.model_validate(parse(answer.text, Schema(Step.model_json_schema()), truncated=answer.truncated))
    except (ParseError, ValueError):
        step = None
    if isinstance(metrics, TierMetrics):
        used = {"tokens_in": record.tokens_in, "tokens_out": record.tokens_out}
        success = step is not None and bool(step.code.strip())
        metrics.record(LABEL, str(lm.model), 3, success=success, seconds=record.seconds, **used)
    if step is None or not step.code.strip():
        return None
    return f"{step.thought.strip()}\n```python\n{step.code.strip()}\n```"
