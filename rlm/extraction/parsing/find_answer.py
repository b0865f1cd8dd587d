"""The search for the answer in the text of a model: one value that the schema accepts, or a `ParseError`.

The whole text is tried first. Otherwise the text is walked once, and only the last attempt at an answer in it counts:
an earlier draft is never returned because the final answer is wrong or truncated. `lenient_json.py` parses the values.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from ..errors import ParseError
from ..schema import Schema
from .lenient_json import Unreadable, read, read_strict

MAX_CHARS = 1_000_000
_MAX_REREADING = 4  # how often the walk may read the text again
_MAX_OPENINGS = 20_000
_STRICT_TRIALS = 50  # the standard library counts lines from the start of the text each time it fails

_THOUGHT = re.compile(r"<(think|thinking|reasoning|thought)>", re.IGNORECASE)
_THOUGHT_END = re.compile(r"</(think|thinking|reasoning|thought)>", re.IGNORECASE)
_START = re.compile(r"[{\[]|<(?:think|thinking|reasoning|thought)>", re.IGNORECASE)
_OBJECT = re.compile(r"""\{\s*(?:["'“\u2018}#]|//|/\*|[^\W\d][\w$]{0,100}\s*(?::|\Z)|\d{1,30}\s*:|/?\Z)""")
_LIST = re.compile(
    r"""\[\s*(?:["'“\u2018\[\]{(\d+.#-]|//|/\*|(?:true|false|null|True|False|None)\b|[A-Za-z]{1,4}\Z|/?\Z)"""
)
_BRACKET = re.compile(r'[{}\[\]"]')
_IN_STRING = re.compile(r'["\\]')
_FENCE = re.compile(r"^[ \t]*(?:```|~~~)", re.MULTILINE)
_OPEN_FENCE = re.compile(r"(?:```|~~~)[ \t]*\w{1,20}\s*\Z")
_NESTED = re.compile(r"""["'”\u2019]\s*:\s*\Z""")
_KEY_END = re.compile(r"""\w["'”\u2019]\s*:""")
_ONLY_CLOSERS = re.compile(r"[\s}\]]*(?:\Z|(?:```|~~~)\s*\Z)")
_LABEL = re.compile(r"\A[\w ]{1,30}:\s+")


@dataclass(frozen=True, slots=True)
class _Span:
    """A part of the text that begins like an answer."""

    start: int
    end: int
    value: Any = None
    fault: str = ""  # why it cannot be parsed
    broken_at: int = 0
    unfinished: bool = False
    thought: bool = False


def parse(text: str, schema: Schema, *, truncated: bool = False) -> Any:
    """Return the value in `text` that `schema` accepts. With `truncated`, raise: the model was cut off."""
    if len(text) > MAX_CHARS:
        raise ParseError("invalid", f"the answer has {len(text):,} characters; at most {MAX_CHARS:,} are read")
    try:
        value = _parse(text.strip().lstrip("\ufeff"), schema)
    except ParseError as error:
        if truncated and error.kind != "truncated":
            raise ParseError("truncated", _CUT, best=error.best, problems=error.problems) from None
        raise
    if truncated:
        raise ParseError("truncated", _CUT, best=value)
    return value


_CUT = "the answer was cut off at the limit of its length"


def _parse(text: str, schema: Schema) -> Any:
    try:
        whole = read_strict(text)
    except ValueError:
        return _search(_without_orphan(text), schema)
    if isinstance(whole, str) and "string" not in schema.root_types:
        return _search(whole.strip(), schema)  # JSON in a JSON string
    return _validated(whole, schema)


def _validated(value: Any, schema: Schema) -> Any:
    if problems := schema.problems(value):
        count = "one problem" if len(problems) == 1 else f"{len(problems)} problems"
        raise ParseError("invalid", f"the answer does not fit the schema: {count}", best=value, problems=problems)
    return value


def _search(text: str, schema: Schema) -> Any:
    spans = list(_walk(text, schema))
    last = next((span for span in reversed(spans) if _is_attempt(span, text, schema)), None)
    if last is None:  # no part has a field of the schema: the last value of the right type counts
        readable = (span for span in reversed(spans) if not span.fault and not span.thought)
        last = next((span for span in readable if schema.takes_type_of(span.value)), None)
    if last is None or _OPEN_FENCE.search(text[-60:]):
        return _scalar(text, schema)
    if last.unfinished:
        raise ParseError("truncated", f"the answer stops before its end: {last.fault}")
    if last.fault:
        raise ParseError("invalid", f"the answer cannot be read: {last.fault}, at {_where(text, last.broken_at)}")
    if not _stands_free(last, text, spans):
        raise ParseError("invalid", "the answer is torn: brackets do not match around the last object")
    return _validated(last.value, schema)


def _scalar(text: str, schema: Schema) -> Any:
    """Return a single number, word or string that the schema accepts: the fenced block, or the last line."""
    if schema.root_types - {"object", "array"}:
        lines = [line for line in text.splitlines() if line.strip() and not _FENCE.match(line)]
        for line in lines[-1:]:
            bare = line.strip()
            for candidate in (bare, _LABEL.sub("", bare, count=1)):
                try:
                    value, end = read(candidate, 0)
                except Unreadable:
                    continue
                if end == len(candidate) and schema.takes_type_of(value):
                    return _validated(value, schema)
    if _OPEN_FENCE.search(text[-60:]):
        raise ParseError("truncated", "the answer stops before its end: a fence is opened and nothing is in it")
    raise ParseError("no_json", f"there is no JSON value in the answer; expected {schema.root_words}")


def _without_orphan(text: str) -> str:
    """Remove thinking whose opening tag was in the prompt."""
    close = _THOUGHT_END.search(text)
    if close and not _THOUGHT.search(text, 0, close.start()):
        before = text[: close.start()].lstrip()
        if not before.startswith(("{", "[", "```")):
            return text[close.end() :]
    return text


def _walk(text: str, schema: Schema) -> Iterator[_Span]:
    """Yield the parts that begin like an answer, in order. Each part of the text is read a bounded number of times."""
    position, openings, faults, allowance = 0, 0, 0, _MAX_REREADING * len(text) + 10_000
    fences = [match.start() for match in _FENCE.finditer(text)]
    while match := _START.search(text, position):
        start, opener = match.start(), match.group()
        if opener not in "{[":
            close = _THOUGHT_END.search(text, start)
            if not close:
                yield _Span(start, len(text), fault="the thinking has no end", unfinished=True)
                return
            position = close.end()
            yield _Span(start, position, thought=True)
            continue
        if not (_OBJECT if opener == "{" else _LIST).match(text, start):
            position = start + 1
            continue
        openings += 1
        if openings > _MAX_OPENINGS:
            raise ParseError("invalid", f"more than {_MAX_OPENINGS:,} things in the answer look like JSON")
        try:
            value, position = read(text, start, strict_first=faults < _STRICT_TRIALS)
        except Unreadable as error:
            faults += 1
            allowance -= (len(text) if error.unfinished else error.position) - start
            if allowance < 0:
                yield _Span(start, len(text), fault="too many pieces of it are never closed", unfinished=True)
                return
            unfinished = error.unfinished or text.startswith(("```", "~~~"), error.position)
            if not _is_data(error, opener, schema):
                position = max(error.position, start + 1)
                continue
            next_fence = bisect_right(fences, start)
            limit = fences[next_fence] if next_fence < len(fences) else len(text)
            end = limit if unfinished else _broken_end(text, start, limit)
            yield _Span(start, end or limit, None, error.reason, error.position, unfinished or end is None)
            position = end or limit
        else:
            yield _Span(start, position, value)


def _is_data(error: Unreadable, opener: str, schema: Schema) -> bool:
    """Return whether a part that cannot be parsed is data, not brackets in prose."""
    if error.first_key is None:
        return (error.unfinished and opener == "{") or (opener == "[" and "array" in schema.root_types)
    return error.quoted_key or error.first_key in schema.names


def _broken_end(text: str, start: int, limit: int) -> int | None:
    """Return the end of a part that cannot be parsed, by its brackets; None if they do not close before `limit`."""
    depth, position = 0, start
    while match := _BRACKET.search(text, position, limit):
        position = match.end()
        if match.group() == '"':
            while (stop := _IN_STRING.search(text, position, limit)) and stop.group() == "\\":
                position = stop.end() + 1
            position = stop.end() if stop else limit
            continue
        depth += 1 if match.group() in "{[" else -1
        if depth == 0:
            return position
    return None


def _is_attempt(span: _Span, text: str, schema: Schema) -> bool:
    if span.thought:
        return False
    if span.fault:
        part = text[span.start : span.end]
        return span.unfinished or not schema.names or any(name in part for name in schema.names)
    if schema.names:
        inside = span.value if isinstance(span.value, list) else [span.value]
        if any(not schema.names.isdisjoint(item) for item in inside if isinstance(item, dict)):
            return True
    elif schema.takes_type_of(span.value):
        return True
    return not schema.problems(span.value)


def _stands_free(span: _Span, text: str, spans: list[_Span]) -> bool:
    """Return whether a value is complete, not a piece of a larger value that could not be parsed."""
    if _NESTED.search(text, max(0, span.start - 50), span.start):
        return False
    index = spans.index(span)
    ends = [0, *(other.end for other in spans)]
    gaps = [text[end : other.start] for end, other in zip(ends, spans, strict=False)]
    before, after = gaps[: index + 1], [*gaps[index + 1 :], text[spans[-1].end :]]
    if _ONLY_CLOSERS.match(text, span.end) and not any(other.fault for other in spans):
        # One brace too many at the very end is harmless where no bracket before it was left open.
        return text[span.end :].strip(" \n`~") == "" or not any("{" in gap or "[" in gap for gap in before)
    return not (_KEY_END.search(after[0]) or after[0].strip() == "," or any(map(_closes_more, after)))


def _closes_more(gap: str) -> bool:
    """Return whether brackets are closed here that were not opened here."""
    depth = 0
    for match in _BRACKET.finditer(gap):
        depth += {"{": 1, "[": 1, '"': 0}.get(match.group(), -1)
        if depth < 0:
            return True
    return False


def _where(text: str, position: int) -> str:
    line = text.count("\n", 0, position) + 1
    column = position - (text.rfind("\n", 0, position) + 1) + 1
    return f"line {line}, column {column}"
