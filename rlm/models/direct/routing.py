"""Which models are called directly: those that are certain to be servers with OpenAI's chat API.

All others are called through dspy, and so is a call for which dspy has work to do: a cache, callbacks, streaming, a
proxy, settings that another engine supports.
"""

from __future__ import annotations

import os
import weakref
from collections.abc import Mapping
from typing import Any
from urllib.parse import urlsplit
from urllib.request import getproxies, proxy_bypass

from ...dspy_bridge import is_observed
from ..requests import CLIENT, config_for, request_for
from .client import PROVIDER, DirectClient
from .http1 import SAMPLE, RequestTemplate
from .transport import TIMEOUT_SECONDS, Endpoint

_PREFIX = "openai/"
_SUPPORTED = frozenset({"api_key", "api_base", "base_url", "timeout"})

_clients: weakref.WeakKeyDictionary[Any, tuple[Any, DirectClient | None]] = weakref.WeakKeyDictionary()


def direct_client(lm: Any, options: Mapping[str, Any]) -> DirectClient | None:
    """Return the client for a call of `lm` with these options; None if the call has to go through dspy."""
    import dspy

    if type(lm) is not dspy.LM or options or lm.cache or is_observed(lm):
        return None
    fingerprint = (lm.model, lm.model_type, lm.engine, lm.kwargs)
    known, client = _clients.get(lm, (None, None))
    if known != fingerprint:
        client = _new_client(lm)
        _clients[lm] = ((*fingerprint[:3], dict(lm.kwargs)), client)
    return client


def _new_client(lm: Any) -> DirectClient | None:
    given = {name: value for name, value in lm.kwargs.items() if name in CLIENT}
    if not lm.model.startswith(_PREFIX) or lm.model_type != "chat" or lm.engine not in ("auto", "lm15"):
        return None
    if vars(lm).keys() & {"acall", "forward", "aforward"} or not given.keys() <= _SUPPORTED:
        return None
    key, timeout = given.get("api_key"), given.get("timeout")
    if ("api_key" in given and not isinstance(key, str)) or not isinstance(timeout, int | float | None):
        return None
    if lm.engine == "auto" and (os.getenv("OPENAI_API_BASE") or os.getenv("OPENAI_BASE_URL")):
        return None  # dspy leaves these to another engine
    base = given.get("api_base") or given.get("base_url")
    return _resolved(lm, key, base, TIMEOUT_SECONDS if timeout is None else timeout)


def _resolved(lm: Any, key: str | None, base: str | None, seconds: float) -> DirectClient | None:
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
        request = provider.build_request(sample, stream=False)
        template = RequestTemplate.of(request.body)
        endpoint = Endpoint.at(request.url, request.headers, seconds)
    except (LM15Error, TypeError, ValueError):
        return None  # the call through dspy says what is wrong
    if template is None or _has_proxy(request.url):
        return None
    return DirectClient(model, endpoint, template, config, provider)


def _has_proxy(url: str) -> bool:
    parts, proxies = urlsplit(url), getproxies()
    return bool(proxies.get(parts.scheme) or proxies.get("all")) and not proxy_bypass(parts.hostname or "")
