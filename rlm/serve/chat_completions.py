"""`/v1/chat/completions` and `/v1/models`: for clients of OpenAI's API. A conversation is a session."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Iterator
from typing import TYPE_CHECKING, Any

from .api import json_response
from .asking import Asked, Conversations, about_answer, no_answer, progress_text, usage_of
from .context import Context
from .conversations import Conversation, answer_text
from .errors import RequestRefused, bad_request
from .openai_schemas import ChatRequest, chat_turns
from .requests import read_model, token_of
from .streaming import PING, QUIET_S, EventStream, event_bytes, json_event
from .tasks import ServedTask, read_inputs

if TYPE_CHECKING:
    from starlette.requests import Request
    from starlette.responses import Response

_PIECE = 200


class ChatCompletions:
    """The handlers."""

    def __init__(self, context: Context, conversations: Conversations, started: float) -> None:
        self._context, self._conversations, self._started = context, conversations, int(started)

    async def models(self, request: Request) -> Response:
        """Return the tasks as models."""
        data = [self._model(task) for task in self._context.tasks.values()]
        return json_response({"object": "list", "data": data})

    async def model(self, request: Request) -> Response:
        """Return one task as a model."""
        return json_response(self._model(self._context.served(request.path_params["name"])))

    async def complete(self, request: Request) -> Any:
        """Answer the last message of a conversation."""
        context, token = self._context, token_of(request)
        body = await read_model(request, ChatRequest, context.memory)
        served = context.served(body.model)
        conversation = Conversation.of(chat_turns(body))
        asked = await self._conversations.ask(token, served, conversation, read_inputs(body.rlm.inputs))
        gone = asked.active.cancel if body.rlm.on_disconnect == "cancel" else None
        if body.stream:
            usage = body.stream_options is not None and bool(body.stream_options.include_usage)
            return EventStream(self._chunks(asked, served.name, usage), on_gone=gone)
        await until_answered(request, asked, gone)
        return json_response(self._completion(asked, served.name))

    def _model(self, served: ServedTask) -> dict[str, Any]:
        about = {"id": served.name, "object": "model", "created": self._started, "owned_by": "rlm"}
        return {**about, "rlm": served.about()}

    def _completion(self, asked: Asked, model: str) -> dict[str, Any]:
        active = asked.active
        about = about_answer(self._context, active.id, asked.session.id, active.result)
        if active.result is None or active.ending not in ("submitted", "extracted"):
            raise no_answer(active, about)
        message = {"role": "assistant", "content": answer_text(active.result["outputs"]), "refusal": None}
        return {
            "id": f"chatcmpl-{active.id}",
            "object": "chat.completion",
            "created": int(time.time()),
            "model": model,
            "choices": [{"index": 0, "message": message, "logprobs": None, "finish_reason": "stop"}],
            "usage": _usage(active.result),
            "rlm": about,
        }

    async def _chunks(self, asked: Asked, model: str, with_usage: bool) -> AsyncIterator[bytes]:
        active = asked.active
        shape = {"id": f"chatcmpl-{active.id}", "object": "chat.completion.chunk", "created": int(time.time())}
        shape |= {"model": model}

        def chunk(delta: dict[str, Any], finish: str | None = None, **more: Any) -> bytes:
            choice = {"index": 0, "delta": delta, "logprobs": None, "finish_reason": finish}
            return json_event({**shape, "choices": [choice], **more})

        about = about_answer(self._context, active.id, asked.session.id, None)
        yield chunk({"role": "assistant", "content": ""}, rlm=about)
        async for item in active.feed.follow(quiet_seconds=QUIET_S):
            if item is None:
                yield PING
            elif (text := progress_text(item, active.id)) is not None:
                yield chunk({"reasoning_content": text})
        await active.done.wait()
        try:
            completion = self._completion(asked, model)
        except RequestRefused as refused:
            yield json_event(refused.body())
            return
        for piece in pieces(completion["choices"][0]["message"]["content"]):
            yield chunk({"content": piece})
        yield chunk({}, "stop", rlm=completion["rlm"])
        if with_usage:
            yield json_event({**shape, "choices": [], "usage": completion["usage"]})
        yield event_bytes("[DONE]")


async def until_answered(request: Request, asked: Asked, gone: Any) -> None:
    """Wait for the end of a run, or until the client has gone away."""

    async def leaving() -> None:
        while (await request.receive())["type"] != "http.disconnect":
            pass

    tasks = [asyncio.ensure_future(asked.active.done.wait()), asyncio.ensure_future(leaving())]
    try:
        await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in tasks:
            task.cancel()
    if not asked.active.done.is_set():
        if gone is not None:
            gone()
        raise bad_request("The client has gone away.")


def pieces(text: str) -> Iterator[str]:
    """Yield a text in pieces, as streams carry it."""
    for start in range(0, len(text), _PIECE):
        yield text[start : start + _PIECE]


def _usage(result: dict[str, Any]) -> dict[str, int]:
    tokens_in, tokens_out = usage_of(result)
    return {"prompt_tokens": tokens_in, "completion_tokens": tokens_out, "total_tokens": tokens_in + tokens_out}
