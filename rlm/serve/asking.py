"""A conversation of OpenAI's API, asked in its session: found or made, gone on with, and remembered with its answer."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from .context import Context
from .conversations import Conversation, answer_text, compose
from .errors import RequestRefused
from .feed import FeedItem
from .runs import ActiveRun
from .store import SessionRow
from .tasks import ServedTask
from .tokens import Token


@dataclass(frozen=True)
class Asked:
    """A conversation whose question is being answered."""

    active: ActiveRun
    session: SessionRow


class Conversations:
    """Asks conversations in sessions. To be used in the server's event loop."""

    def __init__(self, context: Context) -> None:
        self._context = context
        self._tasks: set[asyncio.Task[None]] = set()

    async def ask(
        self,
        token: Token,
        served: ServedTask,
        conversation: Conversation,
        inputs: Mapping[str, Any],
        *,
        session: SessionRow | None = None,
        after: str | None = None,
    ) -> Asked:
        """Ask in a session, `after` the question of a run; or, without a session, in that of the conversation."""
        context = self._context
        if session is None and conversation.before:
            known = context.store.turn(token.id, conversation.digest_before(token.id, served.name))
            if known is not None:
                session, after = context.store.session(token.id, known[0]), known[1]
        if session is None:
            asked = await self._in_new_session(token, served, conversation, inputs)
        else:
            asked = await self._in_session(token, served, conversation, inputs, session, after)
        task = asyncio.get_running_loop().create_task(self._remember(token, served, conversation, asked))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return asked

    async def _in_new_session(
        self, token: Token, served: ServedTask, conversation: Conversation, inputs: Mapping[str, Any]
    ) -> Asked:
        context = self._context
        fields = {field.name for field in served.task.signature.inputs}
        composed = compose(conversation, fields=fields, taken={}, continues=False)
        title = " ".join(composed.question.split())[:100]
        row = await context.sessions.create(token, served, {**composed.inputs, **inputs}, title)
        try:
            return Asked(await context.runs.ask(token, served, row, composed.question, {}), row)
        except BaseException:
            await context.sessions.remove(row)
            raise

    async def _in_session(
        self,
        token: Token,
        served: ServedTask,
        conversation: Conversation,
        inputs: Mapping[str, Any],
        row: SessionRow,
        after: str | None,
    ) -> Asked:
        context = self._context
        if row.model != served.name:
            raise RequestRefused(400, f"This conversation is with {row.model!r}.", "other_model", param="model")
        async with context.sessions.use(row) as session:
            questions = session.chat.questions
            if after is not None and (not questions or questions[-1].run_id != after):
                with context.runs.between(row.id):
                    row = await context.sessions.branch(token, row, after)
            fields = {field.name for field in session.chat.signature.inputs}
            composed = compose(conversation, fields=fields, taken=session.chat.inputs, continues=bool(questions))
        everything = {**composed.inputs, **inputs}
        return Asked(await context.runs.ask(token, served, row, composed.question, everything, lasting=True), row)

    async def _remember(self, token: Token, served: ServedTask, conversation: Conversation, asked: Asked) -> None:
        """Note what the conversation is with its answer, so that a client that sends all of it goes on there."""
        active = asked.active
        await active.done.wait()
        if active.ending in ("submitted", "extracted") and active.result is not None:
            digest = conversation.digest_after(token.id, served.name, answer_text(active.result["outputs"]))
            self._context.store.add_turn(token.id, digest, asked.session.id, active.id)


def progress_text(item: FeedItem, run_id: str) -> str | None:
    """Return what a reader is told of an event while there is no answer yet; None for most."""
    data = json.loads(item.data)
    if data.get("run") != run_id:
        return None  # of a child run
    match item.kind:
        case "iteration_started":
            return f"Iteration {data['iteration']}: asking the model.\n"
        case "cell_started":
            return f"Running:\n{data['code'].strip()}\n"
        case "cell_ended" if data["output"].strip():
            return f"Output:\n{data['output'].strip()}\n"
        case "trigger_fired":
            return f"{data['reason']}: extracting an answer.\n"
    return None


def usage_of(result: Mapping[str, Any] | None) -> tuple[int, int]:
    """Return the tokens that a run read and wrote."""
    usage = (result or {}).get("usage") or {}
    return int(usage.get("tokens_in") or 0), int(usage.get("tokens_out") or 0)


def about_answer(
    context: Context, active_id: str, session: str | None, result: Mapping[str, Any] | None
) -> dict[str, Any]:
    """Return the field `rlm` of an answer: where it is from, and how far to trust it."""
    result = result or {}
    return {
        "run": active_id,
        "session": session,
        "trace": context.trace_link(active_id),
        "ending": result.get("status"),
        "trust": result.get("trust"),
        "confidence": result.get("confidence"),
    }


def no_answer(active: ActiveRun, about: Mapping[str, Any]) -> RequestRefused:
    """Return the refusal that says that a run ended without an answer. Asking again would cost again: it is final."""
    reason = str((active.result or {}).get("reason") or active.ending or "no answer")
    refused = RequestRefused(422, f"No answer: {reason[:1_000]}", "no_answer")
    refused.details = {"rlm": dict(about)}
    return refused
