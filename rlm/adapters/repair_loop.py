"""Asking again: the retry loop of `rlm.extraction`, which may begin with an answer that is there already."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Coroutine, Mapping, Sequence
from typing import Any, TypeVar

from ..extraction import ExtractionMetrics, ExtractionOrchestrator, Reply
from .call_log import Recording, recording
from .output_spec import Target
from .tiers import say

T = TypeVar("T")
DEFAULT_ATTEMPTS = 3
Ask = Callable[[str], Awaitable[Reply]]


async def ask_again(
    target: Target, ask: Ask, prompt: str, *, first: Reply | None = None, max_attempts: int = DEFAULT_ATTEMPTS
) -> tuple[Any, ExtractionMetrics]:
    """The typed value, and what it took. Raises `MaxRetriesExceeded`, and what `ask` raises.

    `first` is an answer to `prompt` that was refused already: it counts as an attempt and is not asked for again. Often
    the value is in it: the loop reads what simpler parsers do not.
    """
    waiting = [first] if first is not None else []

    async def agent(text: str) -> Reply:
        reply = waiting.pop() if waiting else await ask(text)
        return Reply(target.as_json(reply.text), reply.truncated, reply.tokens_in, reply.tokens_out)

    loop = ExtractionOrchestrator(target.schema, max_attempts=max_attempts, callback=target.rejection)
    value, metrics = await loop.extract(agent, prompt)
    return target.typed(value), metrics


def over_messages(
    lm: Any,
    messages: Sequence[Mapping[str, Any]],
    lm_kwargs: Mapping[str, Any],
    *,
    asynchronous: bool,
    record: Recording | None = None,
) -> tuple[Ask, str]:
    """How to ask again about messages, and the prompt to begin with: what is added to it is added to the last message.

    The calls made are added to `record`.
    """
    *before, last = map(dict, messages)
    if before and last["role"] == "assistant":  # an answer that was begun: what is wrong with it is told to the model
        *before, last = before
    base = last["content"]
    shown = base if isinstance(base, str) else ""

    async def ask(prompt: str) -> Reply:
        content = _with_feedback(base, prompt[len(shown) :])
        with recording("retry", lm, record) as made:
            text = await say(lm, [*before, {**last, "content": content}], lm_kwargs, asynchronous)
        return Reply(text, made.truncated, made.tokens_in, made.tokens_out)

    return ask, shown


def finish(work: Coroutine[Any, Any, T]) -> T:
    """Run a coroutine that never waits, here and now: with or without an event loop around it."""
    try:
        work.send(None)
    except StopIteration as end:
        return end.value  # type: ignore[no-any-return]
    work.close()
    raise RuntimeError("this was to be done without waiting, and it waits")


def _with_feedback(base: Any, feedback: str) -> Any:
    if isinstance(base, str):
        return base + feedback
    return [*base, {"type": "text", "text": feedback}] if feedback else base
