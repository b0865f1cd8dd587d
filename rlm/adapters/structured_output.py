"""Structured output of models that run elsewhere: which way of asking for it works is found out once and remembered.

There is no list of servers to trust: what LiteLLM says of an unknown server is only that it is unknown, and some
servers take the schema and ignore it. So each way is tried, and the answer is checked.
"""

from __future__ import annotations

import threading
import weakref
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any, TypeVar

from ..extraction import ParseError, Reply
from ..models.client import ModelError
from .call_log import Recording
from .output_spec import Target
from .strict_schema import is_open
from .tiers import HeldTier

_Ask = Callable[[Mapping[str, Any]], dict[str, Any]]
_Key = tuple[str, str, Any]
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Way:
    """One way to hand a JSON schema to a server."""

    name: str
    ask: _Ask

    def keywords(self, schema: Mapping[str, Any], given: Mapping[str, Any]) -> dict[str, Any]:
        """What to call a model with, next to what the call is `given` already."""
        made = self.ask(schema)
        if "extra_body" in made:
            made["extra_body"] = {**(given.get("extra_body") or {}), **made["extra_body"]}
        return made


def _response_format(schema: Mapping[str, Any]) -> dict[str, Any]:
    # Strict is a promise that only closed objects can keep, and servers refuse it for others.
    inner = {"name": "answer", "schema": dict(schema), "strict": not is_open(schema)}
    return {"response_format": {"type": "json_schema", "json_schema": inner}}


WAYS = (
    Way("response_format", _response_format),
    Way("structured_outputs", lambda schema: {"extra_body": {"structured_outputs": {"json": dict(schema)}}}),  # vLLM
    Way("json_schema", lambda schema: {"extra_body": {"json_schema": dict(schema)}}),  # llama.cpp's server
)


class Memory:
    """What is known of models: how often each way has worked and failed. Safe under threads."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._seen: dict[_Key, dict[str, list[int]]] = {}
        self._refused: dict[tuple[_Key, str], set[str]] = {}

    def ways(self, lm: Any, about: str = "") -> list[Way]:
        """The ways worth trying with this model: the one that works, or all that have not been tried.

        `about` is the schema: what was refused with this very one is not tried again.
        """
        key = _key(lm)
        with self._lock:
            seen = self._seen.get(key, {})
            open_ways = [way for way in WAYS if about not in self._refused.get((key, way.name), ())]
            worked = [way for way in open_ways if _is_good(seen.get(way.name))]
            tried = set(seen)
        return worked or [way for way in _possible(lm) if way in open_ways and way.name not in tried]

    def worked(self, lm: Any, way: Way) -> None:
        """The answer was what was asked for."""
        self._count(lm, way, 0)

    def failed(self, lm: Any, way: Way) -> None:
        """The server took the request, and did not do what it says."""
        self._count(lm, way, 1)

    def refused(self, lm: Any, way: Way, about: str) -> None:
        """The server refused the request. It may have been this schema; with a second one, it is the way of asking."""
        with self._lock:
            schemas = self._refused.setdefault((_key(lm), way.name), set())
            schemas.add(about)
            several = len(schemas) > 1
        if several:
            self._count(lm, way, 1)

    def known(self, lm: Any) -> str | None:
        """The way that works with this model, if one is known to."""
        with self._lock:
            seen = self._seen.get(_key(lm), {})
            return next((way.name for way in WAYS if _is_good(seen.get(way.name))), None)

    def forget(self) -> None:
        """Start again from nothing."""
        with self._lock:
            self._seen.clear()
            self._refused.clear()

    def _count(self, lm: Any, way: Way, which: int) -> None:
        with self._lock:
            self._seen.setdefault(_key(lm), {}).setdefault(way.name, [0, 0])[which] += 1


memory = Memory()


def _is_good(counts: list[int] | None) -> bool:
    """A model may write what fits by luck, and a good server may fail once: the majority says."""
    return counts is not None and counts[0] > counts[1]


def _possible(lm: Any) -> tuple[Way, ...]:
    """All ways for a server; an engine in this process says itself whether it takes a schema."""
    if isinstance(getattr(lm, "engine", None), str):
        return WAYS
    return WAYS[:1] if getattr(lm, "supports_response_schema", False) else ()


def _key(lm: Any) -> _Key:
    given = getattr(lm, "kwargs", None) or {}
    engine = getattr(lm, "engine", None)
    where = str(given.get("api_base") or given.get("base_url") or "")
    # An engine of this process is remembered for as long as it lives, and not kept alive for it.
    made_by = engine if engine is None or isinstance(engine, str) else weakref.ref(engine)
    return str(getattr(lm, "model", "")), where, made_by


class StructuredTier(HeldTier):
    """Tier 3 for a model whose server holds it to a schema."""

    def __init__(self, like: Any, way: Way) -> None:
        super().__init__(like)
        self._way = way

    def held_by(self, target: Target, lm_kwargs: dict[str, Any]) -> None:
        """By the server's own means."""
        lm_kwargs.update(self._way.keywords(target.object_schema, lm_kwargs))


async def by_server(
    lm: Any,
    ask: Callable[[Way], Awaitable[T]],
    otherwise: Callable[[Reply | None], Awaitable[T]],
    record: Recording,
    *,
    about: str = "",
    last: Reply | None = None,
    seen: Callable[[], bool] = lambda: False,
) -> T:
    """What `ask` gives for the first way that works; where none does, what `otherwise` makes of the last answer.

    `record` has the calls that `ask` makes, `about` names the schema. An answer that was cut off, or that somebody has
    `seen`, ends it.
    """
    from dspy.utils.exceptions import AdapterParseError, LMError

    unknown: list[Way] = []
    for way in memory.ways(lm, about):
        try:
            value = await ask(way)
        except (AdapterParseError, ParseError):
            if record.truncated or seen():
                raise
            memory.failed(lm, way)
            last = Reply(record.text)
        except (LMError, ModelError) as error:
            if not _refuses(error):
                raise
            unknown.append(way)
        else:
            memory.worked(lm, way)
            break
    else:
        value = await otherwise(last)
    # Only now is it sure that the server refused the way of asking or the schema, and not the question.
    for way in unknown:
        memory.refused(lm, way, about)
    return value


def _refuses(error: Exception) -> bool:
    """Whether the error says that this way of asking is not known, and nothing else is wrong."""
    from dspy.utils.exceptions import (
        ContextWindowExceededError,
        LMInvalidRequestError,
        LMUnsupportedFeatureError,
        LMUnsupportedModelError,
    )

    if isinstance(error, ModelError):
        return error.kind == "unknown"
    if isinstance(error, ContextWindowExceededError | LMUnsupportedModelError):
        return False
    return isinstance(error, LMInvalidRequestError | LMUnsupportedFeatureError)
