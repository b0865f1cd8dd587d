"""Which models can be asked over a direct line: only those that plainly are servers of OpenAI's chat dialect.

Everything else goes dspy's way, and so does a call for which dspy has something to do: a cache, callbacks, a stream, a
proxy, settings that another engine carries.
"""

from __future__ import annotations

import os
import weakref
from collections.abc import Mapping
from typing import Any
from urllib.parse import urlsplit
from urllib.request import getproxies, proxy_bypass

from ..requests import CLIENT, config_for, request_for
from .client import PROVIDER, Line
from .messages import SAMPLE, Template
from .transport import READ_SECONDS, Endpoint

_PREFIX = "openai/"
_CLIENT_KNOWN = frozenset({"api_key", "api_base", "base_url", "timeout"})

_lines: weakref.WeakKeyDictionary[Any, tuple[Any, Line | None]] = weakref.WeakKeyDictionary()


def line_to(lm: Any, options: Mapping[str, Any]) -> Line | None:
    """The line to a model, if there can be one for a call with these options."""
    import dspy

    if type(lm) is not dspy.LM or options or lm.cache or lm.callbacks:
        return None
    settings = dspy.settings
    if settings.get("callbacks") or settings.get("send_stream") is not None:
        return None
    facts = (lm.model, lm.model_type, lm.engine, lm.kwargs)
    known, line = _lines.get(lm, (None, None))
    if known != facts:
        line = _new_line(lm)
        _lines[lm] = ((*facts[:3], dict(lm.kwargs)), line)
    return line


def _new_line(lm: Any) -> Line | None:
    clients = {name: value for name, value in lm.kwargs.items() if name in CLIENT}
    if not lm.model.startswith(_PREFIX) or lm.model_type != "chat" or lm.engine not in ("auto", "lm15"):
        return None
    if vars(lm).keys() & {"acall", "forward", "aforward"} or not clients.keys() <= _CLIENT_KNOWN:
        return None
    key, timeout = clients.get("api_key"), clients.get("timeout")
    if ("api_key" in clients and not isinstance(key, str)) or not isinstance(timeout, int | float | None):
        return None
    if lm.engine == "auto" and (os.getenv("OPENAI_API_BASE") or os.getenv("OPENAI_BASE_URL")):
        return None  # dspy leaves these to another engine
    base = clients.get("api_base") or clients.get("base_url")
    return _opened(lm, key, base, READ_SECONDS if timeout is None else timeout)


def _opened(lm: Any, key: str | None, base: str | None, seconds: float) -> Line | None:
    from dspy.lm15 import LM15Error, LMRouter, RouterConfig

    model = lm.model.removeprefix(_PREFIX)
    keys = {PROVIDER: key} if key is not None else None
    router = RouterConfig(api_keys=keys, base_urls={PROVIDER: base} if base else None)
    try:
        provider = LMRouter(router).lm(f"{PROVIDER}:{model}")
        config = config_for(lm.kwargs)
        sample = request_for(model, SAMPLE, "s", config)
        if callable(provider.api_key) or provider.plan(sample) or config.response_format:
            return None
        sent = provider.build_request(sample, stream=False)
        template, endpoint = Template.of(sent.body), Endpoint.at(sent.url, sent.headers, seconds)
    except (LM15Error, TypeError, ValueError):
        return None  # dspy says what is wrong with it
    if template is None or not _reached_directly(sent.url):
        return None
    return Line(model, endpoint, template, config, provider)


def _reached_directly(url: str) -> bool:
    """Whether there is no proxy in between."""
    parts, proxies = urlsplit(url), getproxies()
    if not (proxies.get(parts.scheme) or proxies.get("all")):
        return True
    return bool(proxy_bypass(parts.hostname or ""))
