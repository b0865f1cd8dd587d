"""OpenAI's chat dialect as far as plain text goes: a request without its conversation, and answers that are only text.

What dspy would send is found out once, from dspy itself; a conversation is then put in its place.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

_FINISHED = {None: "stop", "stop": "stop", "length": "length", "content_filter": "content_filter"}
_MORE = ("tool_calls", "refusal", "reasoning_content", "reasoning", "annotations", "audio", "function_call")
_COUNTS = ("prompt_tokens", "completion_tokens", "total_tokens")

SAMPLE = (("user", "a"), ("assistant", "b"), ("user", "c"))
"""The conversation of the request from which a template is made; what stands above it is "s"."""


@dataclass(frozen=True, slots=True)
class Template:
    """A request without its conversation."""

    body: dict[str, Any]
    above: str
    """The role of what stands above a conversation."""

    @classmethod
    def of(cls, body: bytes) -> Template | None:
        """The template of a request with the sample, unless its turns are written in some other form."""
        made = json.loads(body)
        first, *turns = made["messages"]
        if turns != [{"role": role, "content": text} for role, text in SAMPLE] or first.get("content") != "s":
            return None
        return cls(made, first["role"])

    def messages(self, turns: Sequence[tuple[str, str]], system: str | None) -> list[dict[str, str]]:
        """A conversation as it is sent."""
        sent = [{"role": role, "content": text} for role, text in turns]
        return [{"role": self.above, "content": system}, *sent] if system else sent

    def written(self, messages: list[dict[str, str]]) -> bytes:
        """The request with this conversation."""
        return json.dumps({**self.body, "messages": messages}, ensure_ascii=False, separators=(",", ":")).encode()


@dataclass(frozen=True, slots=True)
class PlainReply:
    """An answer that is only text, with its usage in the form that dspy keeps."""

    text: str
    finish_reason: str
    model: str
    usage: dict[str, Any]

    @classmethod
    def of(cls, data: Any) -> PlainReply | None:
        """The answer in a body, if there is nothing more to it."""
        try:
            (choice,) = data["choices"]
            message, usage = choice["message"], data["usage"]
            text, model, finished = message["content"], data["model"], _FINISHED[choice["finish_reason"]]
            counts = [usage[name] for name in _COUNTS]
            more = [data.get("error"), choice.get("logprobs"), *map(message.get, _MORE)]
            more += [usage.get("prompt_tokens_details"), usage.get("completion_tokens_details")]
        except (KeyError, TypeError, ValueError, AttributeError):
            return None
        if any(more) or not isinstance(text, str) or not isinstance(model, str) or not model:
            return None
        if not all(type(count) is int and count >= 0 for count in counts):
            return None
        kept = dict(zip(_COUNTS, counts, strict=True))
        return cls(text, finished, model, {**kept, "prompt_tokens_details": None, "completion_tokens_details": None})
