"""The server's own API: runs, sessions and their questions, events as they happen, results and traces."""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator, Iterator
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from ..chat.errors import SessionError
from ..chat.journal import Journal, find_journal
from .context import Context
from .errors import bad_request, not_found
from .requests import read_model, token_of
from .runs import ActiveRun
from .schemas import NewQuestion, NewRun, NewSession, SetInputs
from .sessions import session_errors
from .store import RunRow
from .streaming import PING, QUIET_S, EventStream, event_bytes, json_event
from .tasks import read_inputs

if TYPE_CHECKING:
    from starlette.requests import Request
    from starlette.responses import Response

_TRACE_PAGE = 200
_MOST_LISTED = 1_000


def json_response(value: Any, status: int = 200) -> Response:
    """Return a response with a value."""
    from starlette.responses import Response

    return Response(
        json.dumps(value, ensure_ascii=False).encode("utf-8", "replace"), status, media_type="application/json"
    )


class Api:
    """The handlers. Each is a coroutine from a request to a response, and raises `RequestRefused`."""

    def __init__(self, context: Context) -> None:
        self._context = context

    # Runs --------------------------------------------------------------------------------------------------------

    async def start_run(self, request: Request) -> Response:
        """Start a run."""
        context, token = self._context, token_of(request)
        body = await read_model(request, NewRun, context.memory)
        active = await context.runs.start(token, context.served(body.model), read_inputs(body.inputs))
        return json_response(context.about_run(context.run(token, active.id)), 201)

    async def list_runs(self, request: Request) -> Response:
        """Return the latest runs."""
        rows = self._context.store.runs(token_of(request).id, _limit(request))
        return json_response({"object": "list", "data": [self._context.about_run(row) for row in rows]})

    async def show_run(self, request: Request) -> Response:
        """Return a run, with its result if it has ended."""
        row = self._context.run(token_of(request), request.path_params["id"])
        return json_response(self._context.about_run(row))

    async def cancel_run(self, request: Request) -> Response:
        """Cancel a run, and wait until it has ended. A run that has ended stays as it is."""
        context, token, run_id = self._context, token_of(request), request.path_params["id"]
        context.run(token, run_id)
        active = context.active(token, run_id)
        if active is not None:
            active.cancel()
            await active.done.wait()
        return json_response(context.about_run(context.run(token, run_id)))

    async def follow_run(self, request: Request) -> Any:
        """Return the events of a run as they happen; the last one is `result`."""
        context, token, run_id = self._context, token_of(request), request.path_params["id"]
        row = context.run(token, run_id)
        after = request.headers.get("last-event-id") or request.query_params.get("after", "0")
        if not after.isdecimal() or len(after) > 15:
            raise bad_request("`after` and Last-Event-ID are numbers of events", "after")
        active = context.active(token, run_id)
        return EventStream(_ended_events(row) if active is None else followed(active, int(after)))

    async def trace(self, request: Request) -> Response:
        """Return the recorded events of a run as lines of JSON, as far as they are there."""
        from starlette.responses import StreamingResponse

        from ..traces import UnknownRun, find

        row = self._context.run(token_of(request), request.path_params["id"])
        try:
            record = await asyncio.to_thread(find, row.id, self._context.root)
        except UnknownRun:
            raise not_found("trace of run", row.id) from None

        def lines() -> Iterator[bytes]:
            after = 0
            while events := record.events(after, _TRACE_PAGE):
                for event in events:
                    yield json.dumps(asdict(event), default=str).encode() + b"\n"
                after = events[-1].sequence

        return StreamingResponse(lines(), media_type="application/x-ndjson")

    # Sessions ----------------------------------------------------------------------------------------------------

    async def open_session(self, request: Request) -> Response:
        """Open a session."""
        context, token = self._context, token_of(request)
        body = await read_model(request, NewSession, context.memory)
        served, inputs = context.served(body.model), read_inputs(body.inputs)
        row = await context.sessions.create(token, served, inputs, body.title)
        return json_response(context.about_session(row), 201)

    async def list_sessions(self, request: Request) -> Response:
        """Return the sessions."""
        rows = self._context.store.sessions(token_of(request).id, _limit(request))
        return json_response({"object": "list", "data": [self._context.about_session(row) for row in rows]})

    async def show_session(self, request: Request) -> Response:
        """Return a session with its questions and variables."""
        context = self._context
        row = context.session(token_of(request), request.path_params["id"])
        details = await asyncio.to_thread(self._details, row.id)
        return json_response({**context.about_session(row), **details})

    async def delete_session(self, request: Request) -> Response:
        """Delete a session with everything that was sent to it. The traces of its runs stay."""
        row = self._context.session(token_of(request), request.path_params["id"])
        await self._context.sessions.remove(row)
        return json_response({"id": row.id, "object": "session", "deleted": True})

    async def set_inputs(self, request: Request) -> Response:
        """Add or replace inputs of a session."""
        context, token = self._context, token_of(request)
        row = context.session(token, request.path_params["id"])
        body = await read_model(request, SetInputs, context.memory)
        inputs = read_inputs(body.inputs)
        size = context.sessions.check_size(token, inputs, row.bytes)
        with context.runs.between(row.id):
            async with context.sessions.use(row) as session:
                with session_errors():
                    await asyncio.to_thread(lambda: session.chat.set(**inputs))
        context.store.touch_session(row.id, size)
        return json_response(context.about_session(context.session(token, row.id)))

    async def ask(self, request: Request) -> Any:
        """Ask in a session: return the run, or its events."""
        context, token = self._context, token_of(request)
        row = context.session(token, request.path_params["id"])
        body = await read_model(request, NewQuestion, context.memory)
        inputs = read_inputs(body.inputs)
        active = await context.runs.ask(token, context.served(row.model), row, body.question, inputs)
        context.store.title_session(row.id, " ".join(body.question.split())[:100])
        if body.stream:
            cancels = body.on_disconnect == "cancel"
            return EventStream(followed(active), on_gone=active.cancel if cancels else None)
        return json_response(context.about_run(context.run(token, active.id)), 201)

    async def resume(self, request: Request) -> Response:
        """Go on with the last question of a session, which was interrupted. No model is asked twice."""
        context, token = self._context, token_of(request)
        row = context.session(token, request.path_params["id"])
        active = await context.runs.ask(token, context.served(row.model), row, None, {})
        return json_response(context.about_run(context.run(token, active.id)), 201)

    async def branch(self, request: Request) -> Response:
        """Return an independent copy of a session."""
        context, token = self._context, token_of(request)
        row = context.session(token, request.path_params["id"])
        with context.runs.between(row.id):
            made = await context.sessions.branch(token, row)
        return json_response(context.about_session(made), 201)

    async def undo(self, request: Request) -> Response:
        """Take the last question of a session back."""
        context, token = self._context, token_of(request)
        row = context.session(token, request.path_params["id"])
        with context.runs.between(row.id):
            async with context.sessions.use(row) as session:
                with session_errors():
                    await asyncio.to_thread(session.chat.undo)
        return json_response(context.about_session(context.session(token, row.id)))

    # The token ---------------------------------------------------------------------------------------------------

    async def show_token(self, request: Request) -> Response:
        """Return the limits of the token, and what it uses."""
        token, store = token_of(request), self._context.store
        return json_response(
            {
                "name": token.name,
                "limits": asdict(token.limits),
                "sessions": store.count_sessions(token.id),
                "seconds_of_day": round(store.day_seconds(token.id), 3),
            }
        )

    def _details(self, session_id: str) -> dict[str, Any]:
        try:
            with contextlib.closing(
                Journal.open(find_journal(session_id, self._context.root), read_only=True)
            ) as journal:
                questions = journal.questions()
        except SessionError:
            raise not_found("session", session_id) from None
        last = questions[-1].variables if questions else {}
        busy = self._context.runs.is_busy(session_id)
        return {
            "questions": [
                {
                    "number": question.number,
                    "run": question.run_id,
                    "asked": dict(question.asked),
                    "status": question.ending or ("running" if busy and question is questions[-1] else "interrupted"),
                    "outputs": question.outputs,
                    "started": question.started,
                    "ended": question.ended,
                }
                for question in questions
            ],
            "variables": [
                {"name": name, **{key: about[key] for key in ("type", "size", "preview")}}
                for name, about in last.items()
            ],
        }


async def followed(active: ActiveRun, after: int = 0) -> AsyncIterator[bytes]:
    """Yield the events of a run as server-sent events, and comments while nothing happens."""
    async for item in active.feed.follow(after, QUIET_S):
        yield PING if item is None else event_bytes(item.data, item.kind, item.number)


async def _ended_events(row: RunRow) -> AsyncIterator[bytes]:
    yield json_event({"run": row.id, "ending": row.ending, "result": row.result}, "result")


def _limit(request: Request) -> int:
    text = request.query_params.get("limit", "100")
    if not text.isdecimal() or not 1 <= int(text[:9]) <= _MOST_LISTED or len(text) > 9:
        raise bad_request(f"limit is a number from 1 to {_MOST_LISTED}", "limit")
    return int(text)
