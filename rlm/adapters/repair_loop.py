"""The retry loop of adapters: that of `rlm.extraction`, which may begin with an answer that was refused already."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Coroutine, Mapping, Sequence
from typing import Any, TypeVar

from ..extraction import ExtractionMetrics, ExtractionOrchestrator, Reply
from ..extraction.retry import DEFAULT_ATTEMPTS
from .call_log import Recording, recording
from .output_spec import Target
from .tiers import ask_messages

T = TypeVar("T")
Ask = Callable[[str], Awaitable[Reply]]


async def repair(
    target: Target, ask: Ask, prompt: str, *, first: Reply | None = None, max_attempts: int = DEFAULT_ATTEMPTS
) -> tuple[Any, ExtractionMetrics]:
    """Return a typed value and what it took. Raises `MaxRetriesExceeded`, and what `ask` raises.

    `first` is a refused answer to `prompt`: it counts as an attempt and is not requested again. It may even hold the
    value, for the loop reads what simpler parsers do not.
    """
    pending = [first] if first is not None else []

    async def agent(text: str) -> Reply:
        reply = pending.pop() if pending else await ask(text)
        return Reply(target.as_json(reply.text), reply.truncated, reply.tokens_in, reply.tokens_out)

    loop = ExtractionOrchestrator(target.schema, max_attempts=max_attempts, callback=target.rejection)
    value, metrics = await loop.extract(agent, prompt)
    return target.typed(value), metrics


async def repair_messages(
    target: Target,
    lm: Any,
    messages: Sequence[Mapping[str, Any]],
    lm_kwargs: Mapping[str, Any],
    *,
    asynchronous: bool,
    record: Recording | None = None,
    first: Reply | None = None,
    max_attempts: int = DEFAULT_ATTEMPTS,
) -> dict[str, Any]:
    """Return the outputs of a signature, as `repair` does: feedback is appended to the last of the messages."""
    *before, last = map(dict, messages)
    if before and last["role"] == "assistant":  # the beginning of an answer; feedback goes into the user's message
        *before, last = before
    content = last["content"]
    prompt = content if isinstance(content, str) else ""

    async def ask(text: str) -> Reply:
        extended = {**last, "content": _with_feedback(content, text[len(prompt) :])}
        with recording("retry", lm, record) as calls:
            answer = await ask_messages(lm, [*before, extended], lm_kwargs, asynchronous)
        return Reply(answer, calls.truncated, calls.tokens_in, calls.tokens_out)

    values, _ = await repair(target, ask, prompt, first=first, max_attempts=max_attempts)
    return dict(values)


def run_sync(work: Coroutine[Any, Any, T]) -> T:
    """Run a coroutine that never waits, with or without an event loop around it."""
    try:
        work.send(None)
    except StopIteration as end:
        return end.value  # type: ignore[no-any-return]
    work.close()
    raise RuntimeError("a coroutine of synchronous calls has waited for something")


def _with_feedback(content: Any, feedback: str) -> Any:
    if isinstance(content, str):
        return content + feedback
    return [*content, {"type": "text", "text": feedback}] if feedback else content
