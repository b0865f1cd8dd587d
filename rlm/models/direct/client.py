"""A client for one model on a server with OpenAI's chat API: dspy's call at a tenth of its processor time.

For each call dspy resolves the model again, in three threads, and searches its price list twice: two to four
milliseconds of processor time. A `DirectClient` resolves once. The content of requests and the reading of errors are
dspy's (`dspy.lm15`); so are the history, the usage tracker and the prices (`rlm.dspy_bridge`). Which models can be
called this way is decided in `routing`.
"""

from __future__ import annotations

import datetime
import json
import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from email.utils import parsedate_to_datetime
from typing import Any

from ...dspy_bridge import is_priced, load_prices, record_call, record_response
from ..requests import ModelResponse, request_for
from .http1 import RequestTemplate, ResponseReader, TextCompletion
from .transport import Endpoint

PROVIDER = "openai-chat"
"""dspy's name for servers with this API."""


class InvalidCompletion(Exception):
    """The server sent status 200 and a body that is no completion."""


@dataclass(frozen=True, slots=True)
class DirectClient:
    """Everything about a model that stays the same from call to call."""

    model: str
    """Its name on the server."""

    endpoint: Endpoint
    template: RequestTemplate
    config: Any
    provider: Any = field(repr=False)  # holds the key

    async def ask(self, lm: Any, turns: Sequence[tuple[str, str]], system: str | None) -> ModelResponse:
        """Make one attempt, and record it in dspy's histories and usage tracker."""
        messages = self.template.messages(turns, system)
        response = await self.endpoint.post(self.template.encode(messages))
        if response.status != 200:
            raise self._error(response)
        try:
            data = json.loads(response.body)
        except ValueError as error:
            raise InvalidCompletion(f"the body is not JSON ({error}); it begins {response.body[:100]!r}") from None
        plain = TextCompletion.of(data)
        if plain is None or "logprobs" in self.template.body or await is_priced(PROVIDER, plain.model, self.model):
            await load_prices()
            return self._read_by_dspy(lm, turns, system, data)
        record_call(lm, messages, plain.text, plain.usage, data, plain.model)
        usage = plain.usage
        tokens = usage["prompt_tokens"], usage["completion_tokens"]
        return ModelResponse(plain.text, plain.finish_reason, *tokens, cost_usd=None)

    def _read_by_dspy(self, lm: Any, turns: Sequence[tuple[str, str]], system: str | None, data: Any) -> ModelResponse:
        """Have dspy read and record a completion that has a price, or more in it than text."""
        from dspy.lm15 import response_from_openai_chat

        try:
            response = response_from_openai_chat(data, model=self.model)
        except (TypeError, ValueError) as error:
            raise InvalidCompletion(f"the body is no completion: {error}") from None
        request = request_for(lm.model, turns, system, self.config)
        cost = record_response(lm, request, response, provider=PROVIDER, model=self.model)
        return ModelResponse.of(response, cost)

    def _error(self, response: ResponseReader) -> Exception:
        error: Any = self.provider.normalize_error(response.status, response.body.decode("utf-8", "replace"))
        if error.retry_after is None:
            error.retry_after = retry_after_seconds(response.header("retry-after"))
        return error  # type: ignore[no-any-return]


def retry_after_seconds(value: str) -> float | None:
    """Return the seconds that a `Retry-After` header asks to wait: a number or a date. None for anything else."""
    try:
        seconds = float(value)
    except ValueError:
        try:
            when = parsedate_to_datetime(value)
            if when.tzinfo is None:
                when = when.replace(tzinfo=datetime.UTC)
            seconds = (when - datetime.datetime.now(datetime.UTC)).total_seconds()
        except (ValueError, OverflowError):  # years and time zones can have any number of digits
            return None
    return max(0.0, seconds) if math.isfinite(seconds) else None
