"""Classification and description of failed model calls: the kind of a failure, its message, and what to do about it.

The errors of dspy, of `dspy.lm15` and of the direct client are recognized by name, so nothing here imports dspy.
"""

from __future__ import annotations

import math
import os
import re
import ssl
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

from ..text import shorten
from .profile import (
    NO_KEY,
    OTHER_CREDENTIALS,
    key_variables,
    name_of,
    profile_of,
    provider_of,
    settings_of,
    without_keys,
)

# dspy's errors, and those of lm15 that they are created from.
_KINDS = {
    **dict.fromkeys(("ContextWindowExceededError", "ContextLengthError"), "context"),
    **dict.fromkeys(("LMAuthError", "AuthError", "LMNotConfiguredError", "NotConfiguredError"), "key"),
    **dict.fromkeys(("LMBillingError", "BillingError"), "billing"),
    **dict.fromkeys(("LMRateLimitError", "RateLimitError"), "rate"),
    **dict.fromkeys(("LMTimeoutError", "TimeoutError"), "timeout"),
    **dict.fromkeys(("LMTransportError", "TransportError", "OSError"), "transport"),
    **dict.fromkeys(("LMServerError", "ServerError", "InvalidResponse", "InvalidCompletion"), "server"),
    **dict.fromkeys(("LMUnsupportedModelError", "UnsupportedModelError", "UnknownModelError"), "model"),
    **dict.fromkeys(("LMInvalidRequestError", "InvalidRequestError"), "unknown"),
    **dict.fromkeys(("LMProviderError", "ProviderError"), "server"),
    "Refused": "refused",
}
_PASSING = frozenset({"rate", "timeout", "transport", "server"})
# Servers without error codes: vLLM, llama.cpp, Ollama and others.
_CONTEXT = re.compile(
    r"context.{0,20}(length|window|size)|(too many|maximum|exceed\w*).{0,40}tokens|prompt is too long", re.IGNORECASE
)
_NO_PROVIDER = "LLM Provider NOT provided"
"""dspy's message for a model name without a provider."""
_MISSING = re.compile(r"No module named '([\w.]+)'")
"""litellm imports the clients of providers when these are asked, and reports a missing one as a failed connection."""
_FILTER = re.compile(r"content[ _](filter|policy|management)", re.IGNORECASE)

_WHAT = {
    "key": "the server did not accept the key",
    "billing": "the account has no credit or no quota left",
    "rate": "too many requests",
    "timeout": "no answer in time",
    "transport": "the server could not be reached",
    "server": "the server failed",
    "context": "the request is longer than the model can read",
    "model": "there is no such model",
    "refused": "the answer was withheld by a content filter",
    "unknown": "the call did not succeed",
}
_ADVICE = {
    "billing": "Check the account with the provider.",
    "rate": "Make fewer requests at once, or go on later.",
    "timeout": "Is the server overloaded? A longer wait can be set on the model: timeout, in seconds.",
    "transport": "Is the server running at this address?",
    "server": "Try again later; see the server's log.",
    "context": "Send less at once, or choose a model that reads more.",
    "model": "Check the model's name, which has its provider before it, as in openai/gpt-5-mini, and api_base.",
    "refused": "Rephrase the request, or choose another model.",
    "unknown": "Check the settings of the model.",
}
_ADDRESS = "Check api_base: is it the address of an OpenAI-style API? It usually ends in /v1."
_SPECIAL = {
    "access": ("the server refused access", "Is this account allowed to use the model, from here?"),
    "address": ("there is nothing at this address", _ADDRESS),
    "redirected": ("the server names another address", _ADDRESS),
    "malformed": ("the server's response is no completion", _ADDRESS),
    "lost": ("the connection was lost", "See the server's log, if it is yours; a proxy between may have a time limit."),
}
"""What failed and what to do, where it is not what the kind of the failure says."""

_COMMAND_WHAT = {
    "key": "the program is not logged in",
    "server": "the output of the program could not be read",
    "model": "there is no such program or model",
}
_COMMAND_ADVICE = {
    "key": "Start the program once by hand and log in, or set the variable with its key.",
    "billing": _ADVICE["billing"],
    "rate": _ADVICE["rate"],
    "timeout": "A longer wait can be set on the model: timeout, in seconds.",
    "model": "Install the program, or check its name and the model's.",
    "context": _ADVICE["context"],
}


class Refused(Exception):
    """A content filter withheld the answer of the model."""


@dataclass(frozen=True, slots=True)
class Fault:
    """The failure of one attempt."""

    kind: str
    detail: str
    """The message of the error."""

    passing: bool
    """Whether another attempt may succeed."""

    retry_after: float | None = None
    """How many seconds the server asks to wait."""

    status: int | None = None
    """The HTTP status, if the server reported the failure."""

    env_keys: tuple[str, ...] = ()
    """Environment variables that could hold the key."""

    missing_module: str | None = None
    """The module that calls of the provider need and that is not installed."""

    special: str | None = None
    """A key of `_SPECIAL`, where more is known than the kind."""

    @property
    def summary(self) -> str:
        """The failure in a few words."""
        return _WHAT[self.kind] if self.special is None else _SPECIAL[self.special][0]


def read_fault(error: Exception) -> Fault:
    """Classify an error."""
    kind, passing = _kind(error)
    from .command.replies import CommandFailure

    # What follows an empty line is advice for users of another library.
    detail = str(getattr(error, "message", None) or error).partition("\n\n")[0].strip()
    if kind == "unknown" and not hasattr(error, "status") and not isinstance(error, CommandFailure):
        detail = f"{type(error).__name__}: {detail}"
    status = getattr(error, "status", None)
    env_keys = tuple(getattr(error, "env_keys", None) or ())
    code = status if isinstance(status, int) else None
    missing = _MISSING.search(detail)
    if missing is not None:
        return Fault("unknown", missing[0], False, None, code, env_keys, missing[1])
    return Fault(kind, detail, passing, _seconds(error), code, env_keys, special=_special(error, kind, code, detail))


def _special(error: Exception, kind: str, status: int | None, detail: str) -> str | None:
    """Return the key in `_SPECIAL` of a failure that is not quite what its kind says."""
    if kind == "key" and status == 403:
        return "access"
    if kind == "model" and status == 404 and detail.lstrip().startswith("<"):
        return "address"
    if status is not None and 300 <= status < 400:
        return "redirected"
    if type(error).__name__ == "InvalidCompletion":
        return "malformed"
    if kind == "transport" and any(
        isinstance(cause, ConnectionError) and not isinstance(cause, ConnectionRefusedError) for cause in _causes(error)
    ):
        return "lost"
    return None


def _kind(error: Exception) -> tuple[str, bool]:
    from .command.replies import CommandFailure
    from .direct.http1 import InvalidResponse

    names = [kind.__name__ for kind in type(error).__mro__]
    name = next((name for name in names if name in _KINDS), "")
    kind = error.kind if isinstance(error, CommandFailure) else _KINDS.get(name, "unknown")
    status = getattr(error, "status", None)
    words = f"{getattr(error, 'provider_code', None) or ''} {getattr(error, 'message', None) or error}"
    if kind == "transport" and any(
        type(cause).__name__.endswith(("Timeout", "TimeoutError")) for cause in _causes(error)
    ):
        kind = "timeout"
    elif "InvalidRequestError" in name or status == 413:
        if status == 413 or _CONTEXT.search(words):
            kind = "context"
        elif _FILTER.search(words):
            kind = "refused"
        elif status == 404 or _NO_PROVIDER in words:
            kind = "model"
    # A malformed response and a rejected certificate are the same at the next attempt.
    lasting = name in ("LMProviderError", "ProviderError", "InvalidCompletion") or any(
        isinstance(cause, InvalidResponse | ssl.SSLCertVerificationError) for cause in _causes(error)
    )
    return kind, kind in _PASSING and not lasting


def _causes(error: BaseException | None) -> Iterator[BaseException]:
    for _ in range(10):
        if error is None:
            return
        yield error
        error = error.__cause__


def _seconds(error: Exception) -> float | None:
    seconds = getattr(error, "retry_after", None)
    if isinstance(seconds, bool) or not isinstance(seconds, int | float) or not math.isfinite(seconds):
        return None
    return max(0.0, float(seconds))


def describe(fault: Fault, lm: Any, attempts: int) -> str:
    """Return one line: the model, what failed, the message of the error, what to do. Keys are redacted."""
    times = f", {attempts} times" if attempts > 1 else ""
    detail = shorten(fault.detail, 500)
    what = _COMMAND_WHAT.get(fault.kind, fault.summary) if _is_command(lm) else fault.summary
    text = f"{_where(lm)}: {what}{times}" + (f" ({detail})." if detail else ".")
    return without_keys(f"{text} {_advice(fault, lm)}".strip(), lm)


def describe_last_attempt(fault: Fault, lm: Any, attempts: int, pause: float) -> str:
    """Return one line on a call that is not retried because the run would be over before the next attempt."""
    times = f", {attempts} times" if attempts > 1 else ""
    detail = shorten(fault.detail, 500)
    text = f"{_where(lm)}: {fault.summary}{times}" + (f" ({detail})" if detail else "")
    late = f"The next attempt would be in {pause:,.0f} s, after the time of the run (max_duration)."
    return without_keys(f"{text}. {late} Raise it, or go on later.", lm)


def describe_deadline(fault: Fault | None, lm: Any, attempts: int, seconds: float, requests_ahead: int) -> str:
    """Return one line on a call whose deadline passed, or would pass before the next attempt.

    `fault` is the failure of the last attempt; None if the call waited for the rate limit all the time.
    """
    late = f"timed out after {max(0.0, seconds):.3g} s"
    if fault is None:
        ahead = f" ({requests_ahead:,} request{'s' * (requests_ahead != 1)} ahead)" if requests_ahead else ""
        return f"{late} waiting for the rate limit of {_where(lm)}{ahead}"
    detail = shorten(fault.detail, 500)
    last = f"{fault.summary} ({detail})" if detail else fault.summary
    count = f"after {attempts} attempts, the last one: " if attempts > 1 else ""
    return without_keys(f"{_where(lm)}: {late}; {count}{last}. {_advice(fault, lm)}".strip(), lm)


def _advice(fault: Fault, lm: Any) -> str:
    if fault.missing_module is not None:
        return f"Install the package with the module {fault.missing_module!r}, which calls of this provider need."
    if _is_command(lm):
        return _COMMAND_ADVICE.get(fault.kind, "")
    if fault.kind == "key":
        other = OTHER_CREDENTIALS.get(provider_of(name_of(lm)) or "")
        if other is not None and profile_of(lm).key_env is None:
            return f"{other[0].upper()}{other[1:]}."
        allowed = "" if fault.special is None else f"{_SPECIAL[fault.special][1]} "
        return allowed + _key_advice(lm, key_variables(lm, fault.env_keys))
    if fault.special is not None:
        return _SPECIAL[fault.special][1]
    if fault.kind == "unknown" and fault.status is None:
        return ""  # the message of an engine or of a setting is enough
    return _ADVICE[fault.kind]


def _key_advice(lm: Any, names: tuple[str, ...]) -> str:
    """Return what to do about a key: it is checked where there is one, and set where there is none."""
    used = next((name for name in names if os.environ.get(name)), None)
    given = settings_of(lm).get("api_key")
    if profile_of(lm).key_env is None and given not in (None, NO_KEY):
        return f"Check api_key on the model, or leave it out and set {' or '.join(names)}."
    if used is not None:
        return f"Check the value of {used}; `api_key_env:` in a task file names another variable."
    return f"Set {' or '.join(names)}, or say which key: `api_key_env:` in a task file, api_key= in Python."


def _is_command(lm: Any) -> bool:
    return provider_of(name_of(lm)) in ("cli", "command")


def _where(lm: Any) -> str:
    """Return the model and, where it was set, its address without a user, a password or a query."""
    model = name_of(lm)
    settings = settings_of(lm)
    base = settings.get("api_base") or settings.get("base_url")
    if not isinstance(base, str):
        return model
    parts = urlsplit(base)
    return f"{model} at {parts.scheme}://{parts.netloc.rpartition('@')[2]}{parts.path}"
