"""A direct line to a server that speaks OpenAI's chat dialect: what dspy would do, at a tenth of the cost.

dspy resolves a model anew in every call, in three threads, and searches its price list twice: two to four milliseconds
of processor time, which a thousand calls wait for. A line resolves once. What is sent and how errors are read is
dspy's (`dspy.lm15`); so are the history, the usage tracker and the prices, whose inner functions this module
and `prices` call. Which models have a line is in `lines`.
"""

from __future__ import annotations

import datetime
import json
import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from email.utils import parsedate_to_datetime
from typing import Any

from ..dspy_history import keep
from ..prices import is_priced
from ..requests import request_for
from .http1 import ReplyReader
from .messages import PlainReply, Template
from .transport import Endpoint

PROVIDER = "openai-chat"
"""What dspy calls a server of this dialect."""


@dataclass(frozen=True, slots=True)
class Reply:
    """What came of one attempt."""

    text: str
    finish_reason: str
    tokens_in: int
    tokens_out: int
    cost_usd: float | None
    cached: bool = False
    """Whether nobody was asked: dspy had the answer on disk."""

    @classmethod
    def of(cls, response: Any, cost_usd: float | None) -> Reply:
        """What is in a response of dspy's."""
        # Not `message.text`: that is empty when a model also shows its thoughts.
        text = "".join(part.text for part in response.message.parts if part.type == "text")
        used = response.usage
        return cls(text, response.finish_reason, used.input_tokens or 0, used.output_tokens or 0, cost_usd)


@dataclass(frozen=True, slots=True)
class Line:
    """Everything about a model that stays the same from call to call."""

    model: str
    """Its name at the server."""

    endpoint: Endpoint
    template: Template
    config: Any
    provider: Any = field(repr=False)  # holds the key

    async def ask(self, lm: Any, turns: Sequence[tuple[str, str]], system: str | None) -> Reply:
        """One attempt, kept in the histories and the usage tracker, as dspy does it."""
        messages = self.template.messages(turns, system)
        reply = await self.endpoint.post(self.template.written(messages))
        if reply.status != 200:
            raise self._error(reply)
        try:
            data = json.loads(reply.body)
        except ValueError as error:
            raise NotAnAnswer(f"the answer is not JSON ({error}); it begins {reply.body[:100]!r}") from None
        plain = PlainReply.of(data)
        if plain is None or "logprobs" in self.template.body or await is_priced(PROVIDER, plain.model, self.model):
            return self._kept_by_dspy(lm, turns, system, data)
        keep(lm, messages, plain.text, plain.usage, data, plain.model)
        used = plain.usage
        return Reply(plain.text, plain.finish_reason, used["prompt_tokens"], used["completion_tokens"], None)

    def _kept_by_dspy(self, lm: Any, turns: Sequence[tuple[str, str]], system: str | None, data: Any) -> Reply:
        """An answer with more to it than text, or with a price: read and kept by dspy."""
        from dspy.clients.call_result import CallResult
        from dspy.clients.costs import estimate_cost
        from dspy.clients.execution import PreparedCall, finalize
        from dspy.lm15 import response_from_openai_chat

        try:
            response = response_from_openai_chat(data, model=self.model)
        except (TypeError, ValueError) as error:
            raise NotAnAnswer(f"the answer cannot be read: {error}") from None
        request = request_for(lm.model, turns, system, self.config)
        logprobs = request.config.logprobs is not None
        result = CallResult.native(response, model_type="chat", logprobs=logprobs, provider=PROVIDER)
        result.cost, result.cost_details = estimate_cost(
            response, provider=PROVIDER, requested_model=self.model, request=request
        )
        finalize(lm, PreparedCall(None, None, {"cache": False}, {"model": lm.model}, request, False, 1, True), result)
        return Reply.of(response, result.cost)

    def _error(self, reply: ReplyReader) -> Exception:
        error: Any = self.provider.normalize_error(reply.status, reply.body.decode("utf-8", "replace"))
        if error.retry_after is None:
            error.retry_after = retry_after_seconds(reply.header("retry-after"))
        return error  # type: ignore[no-any-return]


class NotAnAnswer(Exception):
    """The server said that all is well, and sent something else."""


def retry_after_seconds(value: str) -> float | None:
    """How many seconds the server asks to wait: a number, or a date. None for anything else."""
    try:
        seconds = float(value)
    except ValueError:
        try:
            when = parsedate_to_datetime(value)
            if when.tzinfo is None:
                when = when.replace(tzinfo=datetime.UTC)
            seconds = (when - datetime.datetime.now(datetime.UTC)).total_seconds()
        except (ValueError, OverflowError):  # a zone can be further away than there are years
            return None
    return max(0.0, seconds) if math.isfinite(seconds) else None
