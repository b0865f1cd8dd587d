"""Readers of what commands print: the answer, its tokens and its cost. Each program has a format of its own."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

_AUTH = re.compile(r"log ?in|logged in|auth|api[ _-]?key|credential|401|403|no key|unauthori[sz]ed", re.IGNORECASE)
_LIMIT = re.compile(r"rate.?limit|usage limit|too many requests|quota|overloaded|429|529", re.IGNORECASE)
_MODEL = re.compile(r"(unknown|no such|invalid) model|model.{0,60}(not (found|supported|exist)|does not exist)", re.I)
_CONTEXT = re.compile(r"(prompt|context|input).{0,30}(too long|length|window|exceed)", re.IGNORECASE)
_LLM_USAGE = re.compile(r"Token usage: ([\d,]+) input(?:, ([\d,]+) output)?")


@dataclass(frozen=True, slots=True)
class CommandReply:
    """The answer that a command printed."""

    text: str
    tokens_in: int | None = None
    tokens_out: int | None = None
    cost_usd: float | None = None


class CommandFailure(Exception):
    """A command that gave no answer. `kind` is one of the kinds of failed model calls."""

    def __init__(self, kind: str, message: str) -> None:
        super().__init__(kind, message)
        self.kind, self.message = kind, message

    def __str__(self) -> str:
        return self.message


def kind_of(message: str) -> str:
    """Return the kind of failure that the message of a program means."""
    for kind, pattern in (("rate", _LIMIT), ("context", _CONTEXT), ("model", _MODEL), ("key", _AUTH)):
        if pattern.search(message):
            return kind
    return "unknown"


def read_reply(reader: str, stdout: str, stderr: str) -> CommandReply:
    """Return the answer in what a command printed. Raises `CommandFailure`."""
    known = _READERS.get(reader)
    if known is not None:
        return known(stdout, stderr)
    value = _document(stdout)
    for step in reader.split("."):
        try:
            value = value[int(step)] if isinstance(value, list) else value[step]
        except (KeyError, IndexError, TypeError, ValueError):
            raise CommandFailure("server", f"its output has no {reader!r} (at {step!r}): {stdout[:300]}") from None
    return CommandReply(value if isinstance(value, str) else json.dumps(value, ensure_ascii=False))


def _document(stdout: str) -> Any:
    """Return the JSON document that the output is or, after other lines, ends with."""
    start = stdout.find("{")
    while start >= 0:
        try:
            return json.loads(stdout[start:])
        except (ValueError, RecursionError):
            start = stdout.find("\n{", start)
            start = start + 1 if start >= 0 else -1
    raise CommandFailure("server", f"its output is not JSON: {stdout[:300]}")


def _mapping(value: Any) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


def _number(value: Any) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) and value >= 0 else None


def _sum(*values: Any) -> int | None:
    numbers = [number for value in values if (number := _number(value)) is not None]
    return sum(numbers) if numbers else None


def _text(stdout: str, stderr: str) -> CommandReply:
    return CommandReply(stdout.strip())


def _llm(stdout: str, stderr: str) -> CommandReply:
    usage = _LLM_USAGE.search(stderr)
    counts = [int(count.replace(",", "")) if count else None for count in usage.groups()] if usage else [None, None]
    return CommandReply(stdout.strip(), *counts)


def _claude(stdout: str, stderr: str) -> CommandReply:
    document = _mapping(_document(stdout))
    text = document.get("result")
    if document.get("is_error") or not isinstance(text, str):
        message = text if isinstance(text, str) else f"no result ({document.get('subtype')})"
        raise CommandFailure(kind_of(message), message)
    usage, cost = _mapping(document.get("usage")), document.get("total_cost_usd")
    cached = [usage.get(name) for name in ("cache_creation_input_tokens", "cache_read_input_tokens")]
    priced = float(cost) if isinstance(cost, int | float) and not isinstance(cost, bool) and cost >= 0 else None
    return CommandReply(text, _sum(usage.get("input_tokens"), *cached), _number(usage.get("output_tokens")), priced)


def _gemini(stdout: str, stderr: str) -> CommandReply:
    document = _mapping(_document(stdout))
    text = document.get("response")
    if not isinstance(text, str):
        message = str(_mapping(document.get("error")).get("message") or "no response")
        raise CommandFailure(kind_of(message), message)
    models = _mapping(_mapping(document.get("stats")).get("models")).values()
    tokens = [_mapping(_mapping(model).get("tokens")) for model in models]
    read = _sum(*(count.get("prompt") for count in tokens))
    written = _sum(*(count.get(name) for count in tokens for name in ("candidates", "thoughts")))
    return CommandReply(text, read, written)


def _codex(stdout: str, stderr: str) -> CommandReply:
    text, usage, error = None, {}, None
    for event in _lines(stdout):
        item = _mapping(event.get("item"))
        if event.get("type") == "item.completed" and item.get("type") == "agent_message":
            text = item.get("text")
        elif event.get("type") == "turn.completed":
            usage = _mapping(event.get("usage"))
        elif event.get("type") in ("error", "turn.failed"):
            error = str(event.get("message") or _mapping(event.get("error")).get("message") or "the turn failed")
    if not isinstance(text, str):
        message = error or "no message of the agent"
        raise CommandFailure(kind_of(message), message)
    return CommandReply(text, _number(usage.get("input_tokens")), _number(usage.get("output_tokens")))


def _lines(stdout: str) -> Iterator[dict[str, Any]]:
    for line in stdout.splitlines():
        try:
            yield _mapping(json.loads(line))
        except (ValueError, RecursionError):
            continue  # programs also print warnings


_READERS: dict[str, Callable[[str, str], CommandReply]] = {
    "text": _text,
    "claude": _claude,
    "codex": _codex,
    "gemini": _gemini,
    "llm": _llm,
}
READERS = tuple(_READERS)
