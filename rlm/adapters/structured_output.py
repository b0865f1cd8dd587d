"""Structured output of remote models: which way of requesting it works is tried once per model and remembered.

No list of servers can be trusted: LiteLLM only knows that an unknown server is unknown, and some servers accept the
schema and ignore it. So each way is tried, and the answer is checked.
"""

from __future__ import annotations

import threading
import weakref
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any, TypeVar

from ..extraction import ParseError, Reply
from ..json_schema import is_open
from ..models.client import ModelError
from ..models.profile import name_of, settings_of
from .call_log import Recording
from .output_spec import Target
from .tiers import StrictTier

_Key = tuple[str, str, Any]
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Way:
    """One way to pass a JSON schema to a server."""

    name: str
    request: Callable[[Mapping[str, Any]], dict[str, Any]]

    def keywords(self, schema: Mapping[str, Any], others: Mapping[str, Any]) -> dict[str, Any]:
        """Return the keywords for a call, next to the `others` that it has already."""
        keywords = self.request(schema)
        if "extra_body" in keywords:
            keywords["extra_body"] = {**(others.get("extra_body") or {}), **keywords["extra_body"]}
        return keywords


def _response_format(schema: Mapping[str, Any]) -> dict[str, Any]:
    # Servers refuse `strict` for schemas with open objects.
    inner = {"name": "answer", "schema": dict(schema), "strict": not is_open(schema)}
    return {"response_format": {"type": "json_schema", "json_schema": inner}}


WAYS = (
    Way("response_format", _response_format),
    Way("structured_outputs", lambda schema: {"extra_body": {"structured_outputs": {"json": dict(schema)}}}),  # vLLM
    Way("json_schema", lambda schema: {"extra_body": {"json_schema": dict(schema)}}),  # llama.cpp's server
)


class WayMemory:
    """How often each way has worked and failed with each model. Safe under threads."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._counts: dict[_Key, dict[str, list[int]]] = {}
        self._refused: dict[tuple[_Key, str], set[str]] = {}

    def ways(self, lm: Any, schema: str = "") -> list[Way]:
        """Return the ways worth trying with a model: the one that works, or all that have not been tried.

        A way that was refused with this very schema is left out.
        """
        key = _key(lm)
        with self._lock:
            counts = self._counts.get(key, {})
            allowed = [way for way in WAYS if schema not in self._refused.get((key, way.name), ())]
            working = [way for way in allowed if _works(counts.get(way.name))]
            tried = set(counts)
        return working or [way for way in _possible(lm) if way in allowed and way.name not in tried]

    def worked(self, lm: Any, way: Way) -> None:
        """Note that the answer fitted the schema."""
        self._count(lm, way, 0)

    def failed(self, lm: Any, way: Way) -> None:
        """Note that the server accepted the request, and that the answer did not fit."""
        self._count(lm, way, 1)

    def refused(self, lm: Any, way: Way, schema: str) -> None:
        """Note that the server refused the request: because of the schema, or of the way if it refuses two schemas."""
        with self._lock:
            schemas = self._refused.setdefault((_key(lm), way.name), set())
            schemas.add(schema)
            several = len(schemas) > 1
        if several:
            self._count(lm, way, 1)

    def known(self, lm: Any) -> str | None:
        """Return the name of the way that works with a model, if one is known."""
        with self._lock:
            counts = self._counts.get(_key(lm), {})
            return next((way.name for way in WAYS if _works(counts.get(way.name))), None)

    def forget(self) -> None:
        """Forget all models."""
        with self._lock:
            self._counts.clear()
            self._refused.clear()

    def _count(self, lm: Any, way: Way, which: int) -> None:
        with self._lock:
            self._counts.setdefault(_key(lm), {}).setdefault(way.name, [0, 0])[which] += 1


memory = WayMemory()


def _works(counts: list[int] | None) -> bool:
    """Decide by majority: a model may write what fits by chance, and a good server may fail once."""
    return counts is not None and counts[0] > counts[1]


def _possible(lm: Any) -> tuple[Way, ...]:
    """Return all ways for a server; an engine of this process says itself whether it takes a schema."""
    if isinstance(getattr(lm, "engine", None), str):
        return WAYS
    return WAYS[:1] if getattr(lm, "supports_response_schema", False) else ()


def _key(lm: Any) -> _Key:
    settings = settings_of(lm)
    engine = getattr(lm, "engine", None)
    address = str(settings.get("api_base") or settings.get("base_url") or "")
    # An engine of this process is remembered for as long as it lives, and not kept alive by that.
    reference = engine if engine is None or isinstance(engine, str) else weakref.ref(engine)
    return name_of(lm), address, reference


class StructuredTier(StrictTier):
    """Tier 3 for a model whose server constrains its answer to a schema."""

    def __init__(self, like: Any, way: Way) -> None:
        super().__init__(like)
        self._way = way

    def constrain(self, target: Target, lm_kwargs: dict[str, Any]) -> None:
        """Request structured output from the server."""
        lm_kwargs.update(self._way.keywords(target.object_schema, lm_kwargs))


async def by_server(
    lm: Any,
    ask: Callable[[Way], Awaitable[T]],
    otherwise: Callable[[Reply | None], Awaitable[T]],
    record: Recording,
    *,
    schema: str = "",
    refused: Reply | None = None,
    emitted: Callable[[], bool] = lambda: False,
) -> T:
    """Return what `ask` gives for the first way that works, or what `otherwise` makes of the last refused answer.

    `record` has the calls that `ask` makes. An answer that was cut off, or emitted to a stream, ends the attempts.
    """
    from dspy.utils.exceptions import AdapterParseError, LMError

    rejected: list[Way] = []
    for way in memory.ways(lm, schema):
        try:
            value = await ask(way)
        except (AdapterParseError, ParseError):
            if record.truncated or emitted():
                raise
            memory.failed(lm, way)
            refused = Reply(record.text)
        except (LMError, ModelError) as error:
            if not _rejects_request(error):
                raise
            rejected.append(way)
        else:
            memory.worked(lm, way)
            break
    else:
        value = await otherwise(refused)
    # Only now is it certain that the server rejected the way or the schema, and not the question.
    for way in rejected:
        memory.refused(lm, way, schema)
    return value


def _rejects_request(error: Exception) -> bool:
    """Return whether the error is about the form of the request, and nothing else is wrong."""
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
