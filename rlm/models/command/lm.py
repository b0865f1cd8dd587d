"""A `dspy.LM` whose answers come from a command: each call starts a process of its own."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator, Iterator, Sequence
from dataclasses import replace
from typing import Any

from ...redaction import protect
from ..profile import ModelProfile
from .process import run_command
from .programs import MAX_ARGUMENT_BYTES, CommandSpec, name_of, program_spec
from .replies import CommandReply, read_reply

TIMEOUT_S = 300.0
_SYSTEM = "Answer with text alone."
"""For a program with a place for a system prompt: its own one speaks of tools that it does not have here."""


class CommandEngine:
    """Asks a command. A conversation of several turns is one text."""

    supports_response_schema = False
    supported_params: frozenset[str] = frozenset()

    def __init__(self, spec: CommandSpec, timeout: float = TIMEOUT_S) -> None:
        self.spec, self.timeout = spec, timeout

    async def ask(self, request: Any) -> Any:
        """Return the response to a request."""
        system, prompt = prompt_for(self.spec, request)
        output = await run_command(self.spec, prompt, system, self.timeout)
        return _response(request, read_reply(self.spec.reply, output.stdout, output.stderr))

    def complete(self, request: Any) -> Any:
        """Return the response to a request, for callers without an event loop."""
        return asyncio.run(self.ask(request))

    def stream(self, request: Any) -> Iterator[Any]:
        """Return the response as a stream of one piece."""
        yield from _events(self.complete(request))

    def close(self) -> None:
        """Do nothing: no process outlives its call."""


class AsyncCommandEngine:
    """The engine of asynchronous calls."""

    def __init__(self, engine: CommandEngine) -> None:
        self._engine = engine

    async def complete(self, request: Any) -> Any:
        """Return the response to a request."""
        return await self._engine.ask(request)

    async def stream(self, request: Any) -> AsyncIterator[Any]:
        """Return the response as a stream of one piece."""
        for event in _events(await self._engine.ask(request)):
            yield event

    async def aclose(self) -> None:
        """Do nothing: no process outlives its call."""


def command_lm(
    command: str | Sequence[str],
    *,
    reply: str = "text",
    env: Sequence[str] = (),
    timeout: float | None = None,
    **options: Any,
) -> Any:
    """Return a `dspy.LM` whose answers come from a command.

    `command` is the name of a known one (`cli/claude`, `cli/llm/gpt-5-mini`), or a program and its arguments. The
    program gets the prompt for `{prompt}` among its arguments, or as its standard input. It starts in an empty
    directory with few variables of the environment; `env` names others. `reply` is `text` for a program that prints
    the answer alone, or a path in the JSON that it prints, such as `choices.0.text`. `options` are those of `dspy.LM`.
    """
    spec = program_spec(command) if isinstance(command, str) else CommandSpec(tuple(command), reply)
    name = command if isinstance(command, str) else name_of(spec)
    return lm_for(replace(spec, env=(*spec.env, *env)), name, timeout, **options)


def lm_for(spec: CommandSpec, name: str, timeout: float | None = None, **options: Any) -> Any:
    """Return a `dspy.LM` that asks a command. Settings of sampling have no effect."""
    import dspy

    for variable in spec.env:
        protect(os.environ.get(variable))  # its name need not say that it is a secret

    engine = CommandEngine(spec, timeout or TIMEOUT_S)
    own = AsyncCommandEngine(engine)
    lm = dspy.LM(name, engine=engine, async_engine=own, **{"cache": False} | options)
    lm.profile = ModelProfile(engine=own)
    return lm


def prompt_for(spec: CommandSpec, request: Any) -> tuple[str, str]:
    """Return the system prompt, for the place that the command has for it, and the prompt."""
    system = request.system if isinstance(request.system, str) else ""
    turns = [(message.role, message.text or "") for message in request.messages]
    prompt = turns[0][1] if len(turns) == 1 else _transcript(turns)
    if system and (not spec.takes_system or len(system.encode()) > MAX_ARGUMENT_BYTES):
        return _SYSTEM, f"{system}\n\n{prompt}"
    return system or _SYSTEM, prompt


def _transcript(turns: list[tuple[str, str]]) -> str:
    """Return a conversation as one text."""
    text = "\n\n".join(f"[{role}]\n{content}" for role, content in turns)
    ask = "Go on where the last message ends." if turns[-1][0] == "assistant" else "Write the next message."
    return f"This is a conversation between a user and you, the assistant. {ask} Write nothing else.\n\n{text}"


def _response(request: Any, reply: CommandReply) -> Any:
    from dspy.lm15 import Message, Response, Usage

    usage = Usage(input_tokens=reply.tokens_in, output_tokens=reply.tokens_out)
    told = None if reply.cost_usd is None else {"cost_usd": reply.cost_usd}
    # dspy has no message without a text.
    return Response(None, request.model, Message.assistant(reply.text or " "), "stop", usage, provider_data=told)


def _events(response: Any) -> Iterator[Any]:
    from ...dspy_bridge import StreamDeltaEvent, StreamEndEvent, StreamStartEvent, TextDelta

    yield StreamStartEvent(model=response.model)
    yield StreamDeltaEvent(delta=TextDelta(text=response.message.text))
    yield StreamEndEvent(finish_reason=response.finish_reason, usage=response.usage)
