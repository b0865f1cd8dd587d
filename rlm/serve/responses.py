"""`/v1/responses` and `/v1/conversations`: for clients of OpenAI's newer API. What is gone on from is named by id."""

from __future__ import annotations

import secrets
import time
from collections.abc import AsyncIterator, Mapping
from typing import TYPE_CHECKING, Any

from .api import json_response
from .asking import Asked, Conversations, about_answer, progress_text, usage_of
from .chat_completions import pieces, until_answered
from .context import Context
from .conversations import Conversation, answer_text
from .errors import bad_request, not_found
from .openai_schemas import ConversationId, NewConversation, ResponseRequest, response_turns
from .requests import read_model, token_of
from .store import SessionRow
from .streaming import PING, QUIET_S, EventStream, json_event
from .tasks import read_inputs
from .tokens import Token

if TYPE_CHECKING:
    from starlette.requests import Request
    from starlette.responses import Response

_STATUS = {None: "in_progress", "submitted": "completed", "extracted": "completed", "interrupted": "cancelled"}


class Responses:
    """The handlers."""

    def __init__(self, context: Context, conversations: Conversations) -> None:
        self._context, self._conversations = context, conversations

    async def create(self, request: Request) -> Any:
        """Answer, in the session of an earlier response or of a conversation, or in a new one."""
        context, token = self._context, token_of(request)
        body = await read_model(request, ResponseRequest, context.memory)
        served = context.served(body.model)
        conversation = Conversation.of(response_turns(body))
        session, after = self._before(token, body)
        inputs = read_inputs(body.rlm.inputs)
        asked = await self._conversations.ask(token, served, conversation, inputs, session=session, after=after)
        made = _Response(context, f"resp_{secrets.token_hex(16)}", served.name, asked.active.id, asked.session.id)
        made.previous = body.previous_response_id
        if body.store is not False:
            context.store.add_response(made.id, token.id, asked.session.id, asked.active.id)
        if body.conversation is not None:
            made.conversation = _conversation_id(body)
            context.store.move_response(made.conversation, asked.session.id, asked.active.id)
        gone = asked.active.cancel if body.rlm.on_disconnect == "cancel" and not body.background else None
        if body.stream:
            return EventStream(self._events(made, asked), on_gone=gone)
        if not body.background:
            await until_answered(request, asked, gone)
        return json_response(made.object(asked.active.ending, asked.active.result))

    async def show(self, request: Request) -> Response:
        """Return a response, as far as it is."""
        made, ending, result = self._found(request)
        return json_response(made.object(ending, result))

    async def cancel(self, request: Request) -> Response:
        """Cancel a response."""
        made, _, _ = self._found(request)
        active = self._context.active(token_of(request), made.run)
        if active is not None:
            active.cancel()
            await active.done.wait()
        made, ending, result = self._found(request)
        return json_response(made.object(ending, result))

    async def delete(self, request: Request) -> Response:
        """Forget a response. Its session stays."""
        made, _, _ = self._found(request)
        self._context.store.remove_response(made.id)
        return json_response({"id": made.id, "object": "response", "deleted": True})

    async def new_conversation(self, request: Request) -> Response:
        """Make a conversation. It gets its session with its first response."""
        context, token = self._context, token_of(request)
        await read_model(request, NewConversation, context.memory)
        context.sessions.check_count(token)
        made = f"conv_{secrets.token_hex(16)}"
        context.store.add_response(made, token.id, "", "")
        return json_response(_conversation(made, time.time()))

    async def show_conversation(self, request: Request) -> Response:
        """Return a conversation."""
        name = request.path_params["id"]
        known = self._context.store.response(token_of(request).id, name)
        if known is None or not name.startswith("conv_"):
            raise not_found("conversation", name)
        return json_response(_conversation(name, known[2]))

    def _before(self, token: Token, body: ResponseRequest) -> tuple[SessionRow | None, str | None]:
        """Return the session to go on in, and the run after which; None for a new session."""
        context = self._context
        if body.previous_response_id is not None and body.conversation is not None:
            raise bad_request("Give previous_response_id or conversation, not both.", "conversation")
        if body.previous_response_id is not None:
            known = context.store.response(token.id, body.previous_response_id)
            if known is None or not body.previous_response_id.startswith("resp_"):
                raise not_found("response", body.previous_response_id)
            return context.session(token, known[0]), known[1]
        if body.conversation is not None:
            name = _conversation_id(body)
            known = context.store.response(token.id, name)
            if known is None or not name.startswith("conv_"):
                raise not_found("conversation", name)
            return (context.session(token, known[0]) if known[0] else None), None
        return None, None

    def _found(self, request: Request) -> tuple[_Response, str | None, dict[str, Any] | None]:
        context, token, name = self._context, token_of(request), request.path_params["id"]
        known = context.store.response(token.id, name)
        row = context.store.run(token.id, known[1]) if known is not None else None
        if known is None or row is None:
            raise not_found("response", name)
        made = _Response(context, name, row.model, row.id, known[0])
        made.created = known[2]
        return made, row.ending, row.result

    async def _events(self, made: _Response, asked: Asked) -> AsyncIterator[bytes]:
        """Yield the events of a response: progress as a summary of reasoning, then the answer."""
        number = -1

        def event(kind: str, **data: Any) -> bytes:
            nonlocal number
            number += 1
            return json_event({"type": kind, "sequence_number": number, **data}, kind)

        active = asked.active
        reasoning = made.reasoning("")
        part = {"item_id": reasoning["id"], "output_index": 0, "summary_index": 0}
        empty = {"type": "summary_text", "text": ""}
        yield event("response.created", response=made.object(None, None, output=[]))
        yield event("response.in_progress", response=made.object(None, None, output=[]))
        yield event("response.output_item.added", output_index=0, item={**reasoning, "summary": []})
        yield event("response.reasoning_summary_part.added", **part, part=empty)
        thoughts: list[str] = []
        async for item in active.feed.follow(quiet_seconds=QUIET_S):
            if item is None:
                yield PING
            elif (text := progress_text(item, active.id)) is not None:
                thoughts.append(text)
                yield event("response.reasoning_summary_text.delta", **part, delta=text)
        await active.done.wait()
        made.thoughts = "".join(thoughts)
        reasoning = made.reasoning(made.thoughts)
        yield event("response.reasoning_summary_text.done", **part, text=made.thoughts)
        yield event("response.reasoning_summary_part.done", **part, part=reasoning["summary"][0])
        yield event("response.output_item.done", output_index=0, item=reasoning)
        whole = made.object(active.ending, active.result)
        if whole["status"] != "completed":
            yield event(f"response.{'failed' if whole['status'] == 'failed' else 'incomplete'}", response=whole)
            return
        message = whole["output"][1]
        text = message["content"][0]["text"]
        place = {"item_id": message["id"], "output_index": 1, "content_index": 0}
        begun = {**message, "status": "in_progress", "content": []}
        yield event("response.output_item.added", output_index=1, item=begun)
        yield event("response.content_part.added", **place, part={**message["content"][0], "text": ""})
        for piece in pieces(text):
            yield event("response.output_text.delta", **place, delta=piece, logprobs=[])
        yield event("response.output_text.done", **place, text=text, logprobs=[])
        yield event("response.content_part.done", **place, part=message["content"][0])
        yield event("response.output_item.done", output_index=1, item=message)
        yield event("response.completed", response=whole)


class _Response:
    """A response, as its client sees it."""

    def __init__(self, context: Context, response_id: str, model: str, run: str, session: str) -> None:
        self.id, self.model, self.run, self.session = response_id, model, run, session
        self.created = time.time()
        self.previous: str | None = None
        self.conversation: str | None = None
        self.thoughts = ""
        self._context = context

    def object(
        self, ending: str | None, result: Mapping[str, Any] | None, *, output: list[Any] | None = None
    ) -> dict[str, Any]:
        """Return the response with how its run ended."""
        status = _STATUS.get(ending, "failed")
        if output is None:
            output = [self.reasoning(self.thoughts)] if ending is not None else []
            if status == "completed" and result is not None:
                output.append(self._message(answer_text(result["outputs"])))
        reason = str((result or {}).get("reason") or "no answer")[:1_000]
        tokens_in, tokens_out = usage_of(result)
        usage = {
            "input_tokens": tokens_in,
            "input_tokens_details": {"cached_tokens": 0, "cache_write_tokens": 0},
            "output_tokens": tokens_out,
            "output_tokens_details": {"reasoning_tokens": 0},
            "total_tokens": tokens_in + tokens_out,
        }
        return {
            "id": self.id,
            "object": "response",
            "created_at": int(self.created),
            "status": status,
            "error": {"code": "server_error", "message": f"No answer: {reason}"} if status == "failed" else None,
            "incomplete_details": None,
            "instructions": None,
            "metadata": {},
            "model": self.model,
            "output": output,
            "parallel_tool_calls": False,
            "previous_response_id": self.previous,
            "conversation": {"id": self.conversation} if self.conversation is not None else None,
            "tool_choice": "none",
            "tools": [],
            "temperature": None,
            "top_p": None,
            "usage": usage if ending is not None else None,
            "rlm": about_answer(self._context, self.run, self.session, result),
        }

    def reasoning(self, text: str) -> dict[str, Any]:
        """Return the item with the progress of the run."""
        return {"id": f"rs_{self.run}", "type": "reasoning", "summary": [{"type": "summary_text", "text": text}]}

    def _message(self, text: str) -> dict[str, Any]:
        content = {"type": "output_text", "text": text, "annotations": [], "logprobs": []}
        about = {"id": f"msg_{self.run}", "type": "message", "role": "assistant", "status": "completed"}
        return {**about, "content": [content]}


def _conversation_id(body: ResponseRequest) -> str:
    chosen = body.conversation
    return chosen.id if isinstance(chosen, ConversationId) else chosen or ""


def _conversation(name: str, created: float) -> dict[str, Any]:
    return {"id": name, "object": "conversation", "created_at": int(created), "metadata": {}}
