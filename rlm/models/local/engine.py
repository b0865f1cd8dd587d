"""The engine that dspy calls: one canonical request in, one response out, over a model in this process."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Iterator
from dataclasses import asdict
from typing import Any

from dspy._vendor.lm15.types import StreamDeltaEvent, StreamEndEvent, StreamStartEvent, TextDelta
from dspy.clients.engines.base import validate_request
from dspy.lm15 import Message, Request, Response, UnsupportedFeatureError, Usage

from .chat_template import words_only
from .constraint_check import checked
from .constraints import Constraint, from_response_format
from .outlines_api import pieces
from .types import Generated, LocalModel, Settings, Turns

_PARAMS = frozenset({"response_format", "max_tokens", "temperature", "top_p", "top_k", "seed", "stop"})
_PENALTIES = frozenset({"frequency_penalty", "presence_penalty"})


class LocalEngine:
    """Answers requests from a local model. Constrained where the request has a response format."""

    supports_response_schema = True
    supports_function_calling = False
    supports_reasoning = False

    def __init__(self, model: LocalModel, defaults: Settings) -> None:
        self.model = model
        self.supported_params = _PARAMS | _PENALTIES if model.penalises else _PARAMS
        self._defaults = defaults

    def complete(self, request: Request) -> Response:
        """One answer."""
        turns, settings, constraint = self.asked(request)
        generated = self.model.submit(turns, settings, constraint).result()
        return response_of(request, checked(generated, constraint))

    def stream(self, request: Request) -> Iterator[Any]:
        """One answer, as it is written. It is checked before the end is announced."""
        turns, settings, constraint = self.asked(request)
        yield StreamStartEvent(model=request.model)
        generated = yield from _deltas(pieces(lambda say: self.model.submit(turns, settings, constraint, say)))
        yield end_of(checked(generated, constraint))

    def close(self) -> None:
        """Nothing to close: the weights belong to whoever made the model."""

    def asked(self, request: Request) -> tuple[Turns, Settings, Constraint | None]:
        """What the request asks of the model."""
        validate_request(request)
        if request.tools:
            raise UnsupportedFeatureError(f"{self.model.name} has no function calling", feature="tools")
        config, default = request.config, self._defaults
        if config.logprobs is not None:
            raise UnsupportedFeatureError(f"{self.model.name} gives no log probabilities", feature="logprobs")
        settings = Settings(
            max_tokens=config.max_tokens or default.max_tokens,
            temperature=default.temperature if config.temperature is None else config.temperature,
            top_p=default.top_p if config.top_p is None else config.top_p,
            top_k=config.top_k or default.top_k,
            seed=default.seed if config.seed is None else config.seed,
            stop=config.stop or default.stop,
            frequency_penalty=config.frequency_penalty or 0.0,
            presence_penalty=config.presence_penalty or 0.0,
        )
        return _turns(request), settings, from_response_format(config.response_format)


class AsyncLocalEngine:
    """The same for asynchronous calls. The event loop never waits for the model; a cancelled call stops it."""

    def __init__(self, engine: LocalEngine) -> None:
        self._engine = engine

    async def complete(self, request: Request) -> Response:
        """One answer."""
        turns, settings, constraint = self._engine.asked(request)
        gone = threading.Event()
        future = self._engine.model.submit(turns, settings, constraint, lambda _: not gone.is_set())
        try:
            return response_of(request, checked(await asyncio.wrap_future(future), constraint))
        finally:
            gone.set()

    async def stream(self, request: Request) -> AsyncIterator[Any]:
        """One answer, as it is written."""
        turns, settings, constraint = self._engine.asked(request)
        loop, said, gone = asyncio.get_running_loop(), asyncio.Queue[str | None](), threading.Event()

        def say(text: str | None) -> bool:
            loop.call_soon_threadsafe(said.put_nowait, text)
            return not gone.is_set()

        yield StreamStartEvent(model=request.model)
        future = asyncio.wrap_future(self._engine.model.submit(turns, settings, constraint, say))
        future.add_done_callback(lambda _: said.put_nowait(None))
        try:
            while (text := await said.get()) is not None:
                yield StreamDeltaEvent(delta=TextDelta(text=text))
            yield end_of(checked(await future, constraint))
        finally:
            gone.set()
            future.cancel()

    async def aclose(self) -> None:
        """Nothing to close."""


def response_of(request: Request, generated: Generated) -> Response:
    """The answer as dspy's response, with token counts and timings."""
    end = end_of(generated)
    message = Message.assistant(generated.text or " ")
    return Response(None, request.model, message, end.finish_reason, end.usage, provider_data=end.provider_data)


def end_of(generated: Generated) -> StreamEndEvent:
    """How an answer ended, what it used, and where its seconds went."""
    usage = Usage(
        input_tokens=generated.prompt_tokens,
        output_tokens=generated.output_tokens,
        cache_read_tokens=generated.cached_tokens,
    )
    details: dict[str, Any] = {
        "timings": asdict(generated.timings),
        "forced_tokens": generated.forced_tokens,
        "masked_tokens": generated.masked_tokens,
    }
    return StreamEndEvent("stop" if generated.finish == "stop" else "length", usage, details)


def _deltas(texts: Any) -> Any:
    """The pieces as events; what the generator returns is returned."""
    while True:
        try:
            text = next(texts)
        except StopIteration as end:
            return end.value
        yield StreamDeltaEvent(delta=TextDelta(text=text))


def _turns(request: Request) -> Turns:
    turns: list[tuple[str, str]] = []
    if request.system is not None:
        system = request.system
        text = system if isinstance(system, str) else "".join(getattr(part, "text", "") for part in system)
        turns.append(("system", words_only(text)))
    for message in request.messages:
        for part in message.parts:
            if part.type != "text":
                raise UnsupportedFeatureError(f"a local model reads text only, not {part.type}", feature=part.type)
        turns.append((_ROLES.get(message.role, "user"), words_only(message.text or "")))
    return tuple(turns)


_ROLES = {"assistant": "assistant", "system": "system", "developer": "system"}
