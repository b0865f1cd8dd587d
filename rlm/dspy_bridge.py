"""Every private name of dspy that rlm uses. A new release of dspy is a change of this module and of no other.

Public are the names of `dspy`, `dspy.lm15` and `dspy.streaming`, which the other modules import themselves. `import
dspy` takes seconds, so nothing here is imported before it is used.
"""

from __future__ import annotations

import asyncio
import contextlib
import contextvars
import datetime
import importlib
import importlib.util
import os
import random
import sys
import threading
import weakref
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from sandbox.threads import threaded

if TYPE_CHECKING:
    from dspy._vendor.lm15.types import StreamDeltaEvent, StreamEndEvent, StreamStartEvent, TextDelta
    from dspy.adapters.utils import (
        apply_output_field_defaults,
        format_field_value,
        get_field_description_string,
        parse_value,
        serialize_for_json,
    )
    from dspy.clients.base_lm import LM_CLASS_STATE_KEY
    from dspy.clients.call_context import StreamProgress, adapter_fallback_scope
    from dspy.clients.engines.base import validate_request
    from dspy.utils.callback import with_callbacks
    from dspy.utils.callback_context import ACTIVE_CALL_ID

__all__ = [
    "ACTIVE_CALL_ID",
    "LM_CLASS_STATE_KEY",
    "RecordedCall",
    "StreamDeltaEvent",
    "StreamEndEvent",
    "StreamProgress",
    "StreamStartEvent",
    "TextDelta",
    "adapter_fallback_scope",
    "add_to_trace",
    "apply_output_field_defaults",
    "call_lm",
    "calling_predictor",
    "clear_global_history",
    "collect_calls",
    "engines_of",
    "format_field_value",
    "get_field_description_string",
    "import_litellm",
    "is_observed",
    "is_predictor_observed",
    "is_priced",
    "load_prices",
    "parse_value",
    "record_call",
    "record_response",
    "serialize_for_json",
    "validate_request",
    "with_callbacks",
    "without_streaming",
]

_HOME = {
    "ACTIVE_CALL_ID": "dspy.utils.callback_context",
    **dict.fromkeys(("StreamDeltaEvent", "StreamEndEvent", "StreamStartEvent", "TextDelta"), "dspy._vendor.lm15.types"),
    **dict.fromkeys(
        (
            "apply_output_field_defaults",
            "format_field_value",
            "get_field_description_string",
            "parse_value",
            "serialize_for_json",
        ),
        "dspy.adapters.utils",
    ),
    "LM_CLASS_STATE_KEY": "dspy.clients.base_lm",
    "StreamProgress": "dspy.clients.call_context",
    "adapter_fallback_scope": "dspy.clients.call_context",
    "validate_request": "dspy.clients.engines.base",
    "with_callbacks": "dspy.utils.callback",
}


def __getattr__(name: str) -> Any:
    if name in _HOME:
        value = globals()[name] = getattr(importlib.import_module(_HOME[name]), name)
        return value
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


# Observers of calls ----------------------------------------------------------------------------------------------


def is_observed(lm: Any) -> bool:
    """Return whether a callback or a stream takes part in calls of a model, which then have to go through dspy."""
    from dspy import settings

    return bool(lm.callbacks or settings.get("callbacks")) or settings.get("send_stream") is not None


def is_predictor_observed(predictor: Any) -> bool:
    """Return whether a dspy callback, stream or usage tracker is active, or the predictor is of a class of its own."""
    import dspy

    settings = dspy.settings
    active = settings.callbacks or predictor.callbacks or settings.send_stream is not None or settings.track_usage
    return bool(active) or type(predictor) is not dspy.Predict


def run_beside_stream(work: Callable[[], Any], otherwise: Callable[[], Any]) -> Any:
    """Run a coroutine function in the event loop that reads dspy's stream; without a stream, call `otherwise`.

    `dspy.streamify` calls a module in a worker thread. Its stream holds a few chunks only, and whoever sends more from
    another event loop waits for ever.
    """
    import dspy

    if dspy.settings.send_stream is None:
        return otherwise()
    from anyio import from_thread

    try:
        return from_thread.run(work)
    except RuntimeError as error:
        if "AnyIO worker thread" not in str(error):
            raise
        return otherwise()  # somebody else set a stream


def without_streaming(**settings: Any) -> Any:
    """Return a context with these settings of dspy, in which stream listeners receive nothing."""
    import dspy

    return dspy.context(send_stream=None, **settings)


def calling_predictor() -> Any:
    """Return the innermost dspy module that is being called; None outside of one."""
    from dspy import settings

    modules = settings.caller_modules
    return modules[-1] if modules else None


def add_to_trace(predictor: Any, inputs: dict[str, Any], outputs: dict[str, Any]) -> None:
    """Add a call of a predictor to dspy's trace, which its optimizers learn from."""
    import dspy

    trace, limit = dspy.settings.trace, dspy.settings.max_trace_size
    if trace is not None and limit > 0:
        del trace[: max(0, len(trace) + 1 - limit)]
        trace.append((predictor, inputs, dspy.Prediction.from_completions([outputs], signature=predictor.signature)))


# Calls -----------------------------------------------------------------------------------------------------------


def engines_of(lm: Any) -> tuple[Any, Any]:
    """Return what a model was given as its engines, the synchronous one first."""
    return lm._engine_spec, lm._async_engine_spec


async def call_lm(lm: Any, request: Any, **options: Any) -> tuple[Any, RecordedCall | None]:
    """Make one attempt with dspy's cache, callbacks and engines. Return the response and its entry in the history."""
    import dspy

    await load_prices()
    if "litellm" not in sys.modules and _needs_litellm(lm):
        await asyncio.to_thread(import_litellm)
    # The history of a copy has this call alone, whatever is called at the same time.
    copied = lm.copy(num_retries=0)
    if type(copied).aforward is dspy.BaseLM.aforward:  # a model of the caller's own without asynchronous calls
        context = contextvars.copy_context()
        response = await threaded(lambda: context.run(copied, request, **options))
    else:
        response = await copied.acall(request, **options)
    lm.history.extend(copied.history)
    del lm.history[: -dspy.settings.max_history_size or None]
    return response, RecordedCall.of(copied.history[-1]) if copied.history else None


# History, usage and prices ---------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class RecordedCall:
    """An entry of dspy's history."""

    id: str
    model: str
    messages: tuple[Mapping[str, Any], ...]
    texts: tuple[str, ...]
    truncated: bool
    tokens_in: int
    tokens_out: int
    cost_usd: float | None
    cached: bool
    """Whether a cache had the response: dspy's own, or rlm's."""

    response: Any

    @classmethod
    def of(cls, entry: Mapping[str, Any]) -> RecordedCall:
        """Read an entry."""
        usage, response = entry.get("usage") or {}, entry.get("response")
        outputs = entry.get("outputs") or [""]
        # For an answer from its cache, dspy records no usage; the response has the usage of the first time.
        hit = entry.get("usage") == {} and bool(getattr(getattr(response, "usage", None), "input_tokens", None))
        return cls(
            id=entry["uuid"],
            model=str(entry.get("model", "")),
            messages=tuple(entry.get("messages") or [{"role": "user", "content": entry.get("prompt")}]),
            texts=tuple(str((out.get("text") if isinstance(out, Mapping) else out) or "") for out in outputs),
            truncated=_is_truncated(response),
            tokens_in=int(usage.get("prompt_tokens") or 0),
            tokens_out=int(usage.get("completion_tokens") or 0),
            cost_usd=0.0 if hit else entry.get("cost"),
            cached=hit or (isinstance(response, Mapping) and response.get("cached") is True),
            response=response,
        )


def _is_truncated(response: Any) -> bool:
    """Return whether any answer of a recorded response was cut off: dspy's type, a list of them, or a provider's."""
    if isinstance(response, tuple | list):
        return any(map(_is_truncated, response))
    choices = response.get("choices") if isinstance(response, Mapping) else getattr(response, "choices", None)
    if choices:
        return any(_finish_reason(choice) == "length" for choice in choices)
    return bool(_finish_reason(response) == "length")


def _finish_reason(part: Any) -> Any:
    return part.get("finish_reason") if isinstance(part, Mapping) else getattr(part, "finish_reason", None)


@contextlib.contextmanager
def collect_calls(entries: list[dict[str, Any]]) -> Iterator[None]:
    """Add to `entries` what dspy records of the calls inside the block, whatever other threads do meanwhile."""
    from dspy import settings

    # dspy writes each call into the history of every calling module. The innermost stays last: dspy looks at it.
    with settings.context(caller_modules=[_Module(entries), *(settings.caller_modules or [])]):
        yield


@dataclass(frozen=True, slots=True)
class _Module:
    """Looks to dspy like a module that is being called."""

    history: list[dict[str, Any]]


def clear_global_history() -> None:
    """Clear the last 10,000 calls that dspy keeps for `dspy.inspect_history`."""
    from dspy.clients.base_lm import GLOBAL_HISTORY

    GLOBAL_HISTORY.clear()


def record_call(
    lm: Any,
    messages: Sequence[Mapping[str, str]],
    text: str,
    usage: Mapping[str, Any],
    response: Any,
    response_model: str | None,
    cost: float | None = None,
) -> None:
    """Add a call that did not go through dspy to its usage tracker and its histories, where these are wanted."""
    from dspy import settings

    if settings.usage_tracker:
        settings.usage_tracker.add_usage(lm.model, usage)
    if settings.disable_history:
        return
    lm.update_history(
        {
            "prompt": None,
            "messages": [{**turn, "role": "system"} if turn["role"] == "developer" else turn for turn in messages],
            "kwargs": {"cache": False},
            "response": response,
            "outputs": [text],
            "usage": usage,
            "cost": cost,
            "timestamp": datetime.datetime.now().isoformat(),
            "uuid": _uuid4(),
            "model": lm.model,
            "response_model": response_model,
            "model_type": "chat",
            "cost_details": {"kind": "unknown", "reason": "no matching pricing entry"},
        }
    )


def record_response(lm: Any, request: Any, response: Any, *, provider: str, model: str) -> float | None:
    """Have dspy record a response that did not come through it, with everything in it. Return its cost."""
    from dspy.clients.call_result import CallResult
    from dspy.clients.costs import estimate_cost
    from dspy.clients.execution import PreparedCall, finalize

    logprobs = request.config.logprobs is not None
    result = CallResult.native(response, model_type="chat", logprobs=logprobs, provider=provider)
    result.cost, result.cost_details = estimate_cost(
        response, provider=provider, requested_model=model, request=request
    )
    finalize(lm, PreparedCall(None, None, {"cache": False}, {"model": lm.model}, request, False, 1, True), result)
    cost: float | None = result.cost
    return cost


def _uuid4() -> str:
    """Return a random UUID of version 4. `uuid.uuid4()` makes a system call each time."""
    bits = random.getrandbits(128) & ~(0xF << 76) & ~(3 << 62) | 4 << 76 | 2 << 62
    digits = f"{bits:032x}"
    return f"{digits[:8]}-{digits[8:12]}-{digits[12:16]}-{digits[16:20]}-{digits[20:]}"


_priced: dict[tuple[str, ...], bool] = {}
_price_lock = threading.Lock()


_PRICE_SETTINGS = ("LITELLM_LOCAL_MODEL_COST_MAP", "LITELLM_MODEL_COST_MAP_URL")
"""Environment variables of dspy that say which price list is wanted."""


def _prices_are_loaded() -> bool:
    from dspy.clients import model_metadata

    return model_metadata._data is not None


async def load_prices() -> None:
    """Have the price list in memory before dspy looks for a cost: it would fetch a list, at any call."""
    if not _prices_are_loaded():
        await asyncio.to_thread(_load_prices)


def _load_prices() -> None:
    """Take the price list that came with dspy, unless the environment says which. dspy itself would fetch the newest.

    Nobody expects a call of a model on this machine to connect to the internet.
    """
    from dspy.clients import model_metadata

    with _price_lock:
        if model_metadata._data is None and not any(name in os.environ for name in _PRICE_SETTINGS):
            os.environ[_PRICE_SETTINGS[0]] = "true"
            try:
                model_metadata._load()
            finally:
                del os.environ[_PRICE_SETTINGS[0]]


def import_litellm() -> None:
    """Import litellm with the price list that came with it, unless the environment says which. It would fetch one."""
    with _price_lock:
        wanted = any(name in os.environ for name in _PRICE_SETTINGS)
        if not wanted:
            os.environ[_PRICE_SETTINGS[0]] = "True"
        try:
            importlib.import_module("litellm")
        finally:
            if not wanted:
                del os.environ[_PRICE_SETTINGS[0]]


_native: weakref.WeakSet[Any] = weakref.WeakSet()
"""Models that dspy calls without litellm."""


def _needs_litellm(lm: Any) -> bool:
    """Return whether dspy will import litellm to call this model. Without litellm, the call says what is missing."""
    from dspy.clients.backend_selection import select_backend

    if lm in _native or not isinstance(getattr(lm, "_engine_spec", None), str):
        return False
    try:
        native = select_backend(lm).native
    except Exception:  # the call says what is wrong
        native = True
    if native or importlib.util.find_spec("litellm") is None:
        _native.add(lm)
        return False
    return True


async def token_prices(model: str) -> tuple[float, float] | None:
    """Return the prices in US dollars of a token that a model reads and of one that it writes; None if not known."""
    provider, _, name = model.partition("/")
    info = await asyncio.to_thread(_model_info, provider, name)
    prices = (info.get("input_cost_per_token"), info.get("output_cost_per_token"))
    return None if None in prices else prices  # type: ignore[return-value]


def _model_info(provider: str, name: str) -> Mapping[str, Any]:
    from dspy.clients.model_metadata import model_info

    _load_prices()
    return model_info(provider, name) or {}


async def is_priced(provider: str, *names: str) -> bool:
    """Return whether dspy's price list has a model of one of these names. The list is long: look each up once."""
    known = _priced.get((provider, *names))
    if known is None:
        # In a thread: the first look-up reads the list, or fetches it if that was asked for.
        known = await asyncio.to_thread(_look_up_price, provider, names)
    return known


def _look_up_price(provider: str, names: tuple[str, ...]) -> bool:
    from dspy.clients.model_metadata import model_info

    _load_prices()
    with _price_lock:
        if (provider, *names) not in _priced:
            if len(_priced) > 1000:
                _priced.clear()
            _priced[(provider, *names)] = any(model_info(provider, name) for name in names)
        return _priced[(provider, *names)]
