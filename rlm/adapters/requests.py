"""One question to a model, plainly, held to a type, or by a dspy adapter: recorded and told alike."""

from __future__ import annotations

import itertools
import time
from collections.abc import Mapping, Sequence
from typing import Any

from ..models.client import Answer, ModelError, ask
from ..models.errors import describe, read_fault
from ..models.middleware import paced
from ..models.requests import config_for, request_for
from .call_log import ModelCall, Recording, ask_watchers, recording, tell


async def asked(
    step: str, lm: Any, prompt: str, *, system: str | None, options: Mapping[str, Any], record: Recording
) -> Answer:
    """One question to a model, with the patience of `rlm.models.client`; recorded and told. Raises `ModelError`."""
    ask_watchers(step, lm)
    began = time.monotonic()
    answer = await ask(lm, [("user", prompt)], system=system, **options)
    _record(step, lm, [("user", prompt)], system, answer, time.monotonic() - began, record)
    return answer


async def constrained(
    step: str,
    lm: Any,
    prompt: str | Sequence[tuple[str, str]],
    constraint: Any,
    system: str | None,
    options: Mapping[str, Any],
    record: Recording,
) -> Answer:
    """As `asked`, for a model that can be held to `constraint`, a type. Raises what such a model raises."""
    from ..models.local.errors import ConstraintViolated, UnsupportedConstraint
    from ..models.local.types import seconds_queued

    ask_watchers(step, lm)
    began = time.monotonic()
    turns = [("user", prompt)] if isinstance(prompt, str) else list(prompt)
    request = request_for(lm.model, turns, system, config_for({**lm.kwargs, **options}))
    try:
        response = await lm.acall(request, _outlines_constraint=constraint)
    except (ConstraintViolated, UnsupportedConstraint):
        raise
    except Exception as error:
        fault = read_fault(error)
        raise ModelError(fault.kind, describe(fault, lm, 1)) from error
    usage = response.usage
    cut = response.finish_reason == "length"
    answer = Answer(response.message.text or "", cut, usage.input_tokens or 0, usage.output_tokens or 0)
    took = max(0.0, time.monotonic() - began - seconds_queued(response))
    _record(step, lm, turns, system, answer, took, record)
    return answer


async def by_adapter(
    step: str,
    adapter: Any,
    lm: Any,
    signature: Any,
    inputs: dict[str, Any],
    options: Mapping[str, Any],
    record: Recording,
) -> dict[str, Any]:
    """The outputs of a signature, by any dspy adapter. Raises `ModelError`, and what adapters raise on bad answers."""
    from dspy.utils.exceptions import LMError

    calls = itertools.count()

    def before() -> None:
        if next(calls):  # the first one was asked for already
            ask_watchers(step, lm)

    asked = paced(lm, None if getattr(adapter, "records_calls", False) else before)
    try:
        with recording(step, lm, record, by=adapter):
            return dict((await adapter.acall(asked, dict(options), signature, [], inputs))[0])
    except LMError as error:
        fault = read_fault(error)
        raise ModelError(fault.kind, describe(fault, lm, 1)) from error


def _record(
    step: str,
    lm: Any,
    turns: Sequence[tuple[str, str]],
    system: str | None,
    answer: Answer,
    seconds: float,
    record: Recording,
) -> None:
    messages: tuple[Mapping[str, Any], ...] = tuple({"role": role, "content": text} for role, text in turns)
    if system is not None:
        messages = ({"role": "system", "content": system}, *messages)
    used = (answer.tokens_in, answer.tokens_out, answer.cost_usd, seconds, answer.cached)
    call = ModelCall(step, str(getattr(lm, "model", lm)), messages, answer.text, answer.truncated, *used)
    record.extend(Recording([call], seconds))
    tell(call)
