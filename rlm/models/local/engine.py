"""The engines that dspy calls, over a model in this process: a request in dspy's form in, a response out."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Iterator
from dataclasses import asdict
from typing import Any

from dspy.lm15 import Message, Request, Response, UnsupportedFeatureError, Usage

from ...dspy_bridge import StreamDeltaEvent, StreamEndEvent, StreamStartEvent, TextDelta, validate_request
from .chat_template import without_control_tokens
from .constraint_check import checked
from .constraints import Constraint, from_response_format
from .outlines_api import text_pieces
from .types import Generated, LocalModel, Settings, Turns

_PARAMS = frozenset({"response_format", "max_tokens", "temperature", "top_p", "top_k", "seed", "stop"})
_PENALTIES = frozenset({"frequency_penalty", "presence_penalty"})


class LocalEngine:
    """Answers requests with a local model, constrained where the request has a response format."""

    supports_response_schema = True
    supports_function_calling = False
    supports_reasoning = False

    def __init__(self, model: LocalModel, defaults: Settings) -> None:
        self.model = model
        self.supported_params = _PARAMS | _PENALTIES if model.has_penalties else _PARAMS
        self._defaults = defaults

    def complete(self, request: Request) -> Response:
        """Return one answer."""
        turns, settings, constraint = self.read(request)
        generated = self.model.submit(turns, settings, constraint).result()
        return response_of(request, checked(generated, constraint))

    def stream(self, request: Request) -> Iterator[Any]:
        """Yield the events of one answer, which is checked before its end."""
        turns, settings, constraint = self.read(request)
        yield StreamStartEvent(model=request.model)
        pieces = text_pieces(lambda on_text: self.model.submit(turns, settings, constraint, on_text))
        yield end_event(checked((yield from _deltas(pieces)), constraint))

    def close(self) -> None:
        """Do nothing: the weights belong to the model."""

    def read(self, request: Request) -> tuple[Turns, Settings, Constraint | None]:
        """Return the messages, the settings and the constraint of a request."""
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
    """The engine of asynchronous calls. The event loop never waits for the model; a cancelled call stops it."""

    def __init__(self, engine: LocalEngine) -> None:
        self._engine = engine

    async def complete(self, request: Request) -> Response:
        """Return one answer."""
        turns, settings, constraint = self._engine.read(request)
        closed = threading.Event()
        future = self._engine.model.submit(turns, settings, constraint, lambda _: not closed.is_set())
        try:
            return response_of(request, checked(await asyncio.wrap_future(future), constraint))
        finally:
            closed.set()

    async def stream(self, request: Request) -> AsyncIterator[Any]:
        """Yield the events of one answer."""
        turns, settings, constraint = self._engine.read(request)
        loop, pieces, closed = asyncio.get_running_loop(), asyncio.Queue[str | None](), threading.Event()

        def on_text(text: str) -> bool:
            loop.call_soon_threadsafe(pieces.put_nowait, text)
            return not closed.is_set()

        yield StreamStartEvent(model=request.model)
        future = asyncio.wrap_future(self._engine.model.submit(turns, settings, constraint, on_text))
        future.add_done_callback(lambda _: pieces.put_nowait(None))
        try:
            while (text := await pieces.get()) is not None:
                yield StreamDeltaEvent(delta=TextDelta(text=text))
            yield end_event(checked(await future, constraint))
        finally:
            closed.set()
            future.cancel()

    async def aclose(self) -> None:
        """Do nothing: the weights belong to the model."""


def response_of(request: Request, generated: Generated) -> Response:
    """Return the answer as dspy's response, with token counts and timings."""
    end = end_event(generated)
    message = Message.assistant(generated.text or " ")
    return Response(None, request.model, message, end.finish_reason, end.usage, provider_data=end.provider_data)


def end_event(generated: Generated) -> StreamEndEvent:
    """Return how an answer ended, with its token counts and timings."""
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
    """Yield pieces of text as events, and return what their generator returns."""
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
        turns.append(("system", without_control_tokens(text)))
    for message in request.messages:
        for part in message.parts:
            if part.type != "text":
                raise UnsupportedFeatureError(f"a local model reads text only, not {part.type}", feature=part.type)
        turns.append((_ROLES.get(message.role, "user"), without_control_tokens(message.text or "")))
    return tuple(turns)


_ROLES = {"assistant": "assistant", "system": "system", "developer": "system"}
