"""The bodies of requests: read within limits of bytes and time, and checked before anything is done."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, TypeVar

import pydantic

from .errors import RequestRefused, bad_request

if TYPE_CHECKING:
    from starlette.requests import Request

    from .tokens import Token

TOKEN = "rlm.token"
"""The key in the scope of a request that has its token."""

ENVELOPE = 65_536
"""What a body may have beyond the inputs: names, structure, escapes."""

_READ_S, _BYTES_PER_S = 30.0, 100_000
_LARGE = 100_000
_SURROGATE = re.compile("[\ud800-\udfff]")
_MAX_PROBLEMS = 5

M = TypeVar("M", bound=pydantic.BaseModel)


class BodyMemory:
    """The memory that bodies may take together while they are read and parsed."""

    def __init__(self, most: int = 512_000_000) -> None:
        self._most, self._used = most, 0

    @contextmanager
    def reserved(self, size: int) -> Iterator[None]:
        """Reserve memory for a body. Raise `RequestRefused` where there is not enough."""
        if self._used and self._used + size > self._most:
            raise RequestRefused(
                503, "The server reads other large requests; send this one again.", "busy", retry_after=2
            )
        self._used += size
        try:
            yield
        finally:
            self._used -= size


def token_of(request: Request) -> Token:
    """Return the token of a request, which the guard has checked."""
    token: Token = request.scope[TOKEN]
    return token


def body_limit(token: Token) -> int:
    """Return how many bytes the body of a request may have."""
    return token.limits.input_bytes + ENVELOPE


async def read_model(request: Request, model: type[M], memory: BodyMemory) -> M:
    """Return the body of a request as a model. Raise `RequestRefused` where it is too large, too slow or invalid."""
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind != "application/json":
        raise RequestRefused(415, "Send JSON: content-type application/json.", "unsupported_media_type")
    limit = body_limit(token_of(request))
    length = request.headers.get("content-length")
    with memory.reserved(min(int(length), limit) if length is not None and length.isdigit() else limit):
        body = await _read(request, limit)
        if len(body) < _LARGE:
            return _parsed(body, model)
        return await asyncio.to_thread(_parsed, body, model)


async def _read(request: Request, limit: int) -> bytes:
    from starlette.requests import ClientDisconnect

    parts: list[bytes] = []
    size = 0
    try:
        async with asyncio.timeout(_READ_S + limit / _BYTES_PER_S):
            async for part in request.stream():
                size += len(part)
                if size > limit:
                    raise too_large(limit)
                parts.append(part)
    except TimeoutError:
        raise RequestRefused(408, "The request took too long to arrive.", "timeout") from None
    except ClientDisconnect:
        raise RequestRefused(400, "The request was not sent to its end.", "incomplete") from None
    return b"".join(parts)


def too_large(limit: int) -> RequestRefused:
    """Return the refusal of a body."""
    return RequestRefused(413, f"The request is too large: {limit:,} bytes at most.", "request_too_large")


def _parsed(body: bytes, model: type[M]) -> M:
    try:
        text = body.decode("utf-8")
        value = json.loads(text, parse_constant=_refuse_constant)
    except (ValueError, RecursionError) as error:
        reason = "nested too deep" if isinstance(error, RecursionError) else str(error)
        raise bad_request(f"The body is no JSON: {reason[:200]}") from None
    if "\\u" in text and _has_surrogate(value):
        raise bad_request("The body has half of a surrogate pair, which is no text.")
    try:
        return model.model_validate(value)
    except pydantic.ValidationError as error:
        raise _invalid(error) from None
    except RecursionError:
        raise bad_request("The body is nested too deep.") from None


def _invalid(error: pydantic.ValidationError) -> RequestRefused:
    problems = error.errors(include_url=False, include_input=False, include_context=False)
    places = [".".join(map(str, problem["loc"])) for problem in problems]
    texts = [f"{place or 'body'}: {problem['msg']}" for place, problem in zip(places, problems, strict=True)]
    more = f" (and {len(texts) - _MAX_PROBLEMS} more)" if len(texts) > _MAX_PROBLEMS else ""
    return bad_request("; ".join(texts[:_MAX_PROBLEMS])[:1_000] + more, places[0][:100] or None)


def _refuse_constant(name: str) -> Any:
    raise ValueError(f"{name} is not JSON")


def _has_surrogate(value: Any) -> bool:
    """Return whether a text in a parsed value cannot be encoded."""
    waiting = [value]
    while waiting:
        one = waiting.pop()
        if isinstance(one, str):
            if _SURROGATE.search(one):
                return True
        elif isinstance(one, dict):
            waiting += one.keys()
            waiting += one.values()
        elif isinstance(one, list):
            waiting += one
    return False
