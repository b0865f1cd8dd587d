"""Requests and completions of OpenAI's chat API, as far as plain text goes.

dspy itself writes the request for a sample conversation, once; later requests differ from it in their messages only.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

_FINISH_REASONS = {None: "stop", "stop": "stop", "length": "length", "content_filter": "content_filter"}
_NOT_TEXT = ("tool_calls", "refusal", "reasoning_content", "reasoning", "annotations", "audio", "function_call")
_COUNTS = ("prompt_tokens", "completion_tokens", "total_tokens")

SAMPLE = (("user", "a"), ("assistant", "b"), ("user", "c"))
"""The conversation from which a template is made, with the system prompt "s"."""


@dataclass(frozen=True, slots=True)
class RequestTemplate:
    """A request without its messages."""

    body: dict[str, Any]
    system_role: str

    @classmethod
    def of(cls, body: bytes) -> RequestTemplate | None:
        """Make a template from the request with the sample; None if its messages are not role and text only."""
        request = json.loads(body)
        first, *turns = request["messages"]
        if turns != [{"role": role, "content": text} for role, text in SAMPLE] or first.get("content") != "s":
            return None
        return cls(request, first["role"])

    def messages(self, turns: Sequence[tuple[str, str]], system: str | None) -> list[dict[str, str]]:
        """Return a conversation in the form of the API."""
        messages = [{"role": role, "content": text} for role, text in turns]
        return [{"role": self.system_role, "content": system}, *messages] if system else messages

    def encode(self, messages: list[dict[str, str]]) -> bytes:
        """Return the body of a request with these messages."""
        return json.dumps({**self.body, "messages": messages}, ensure_ascii=False, separators=(",", ":")).encode()


@dataclass(frozen=True, slots=True)
class TextCompletion:
    """A completion that is only text, with its usage in the form of dspy's history."""

    text: str
    finish_reason: str
    model: str
    usage: dict[str, Any]

    @classmethod
    def of(cls, data: Any) -> TextCompletion | None:
        """Read the JSON of a completion; None if there is more in it than text, or anything unusual."""
        try:
            (choice,) = data["choices"]
            message, usage = choice["message"], data["usage"]
            text, model, finish_reason = message["content"], data["model"], _FINISH_REASONS[choice["finish_reason"]]
            counts = [usage[name] for name in _COUNTS]
            more = [data.get("error"), choice.get("logprobs"), *map(message.get, _NOT_TEXT)]
            more += [usage.get("prompt_tokens_details"), usage.get("completion_tokens_details")]
        except (KeyError, TypeError, ValueError, AttributeError):
            return None
        if any(more) or not isinstance(text, str) or not isinstance(model, str) or not model:
            return None
        if not all(type(count) is int and count >= 0 for count in counts):
            return None
        details = {"prompt_tokens_details": None, "completion_tokens_details": None}
        return cls(text, finish_reason, model, dict(zip(_COUNTS, counts, strict=True)) | details)
