"""The secrets in the settings of a model: its API key, secret headers, the password in its address."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Any
from urllib.parse import urlsplit

from ..redaction import Redactor, is_secret_name, protect
from .profile import KEY_VARIABLES, profile_of, provider_of


def key_variables(lm: Any, named: tuple[str, ...] = ()) -> tuple[str, ...]:
    """Return the environment variables that may hold the API key; `named` are those that an error names."""
    if key_env := profile_of(lm).key_env:
        return (key_env,)
    provider = provider_of(str(getattr(lm, "model", ""))) or "openai"
    return named or KEY_VARIABLES.get(provider) or (f"{provider.upper()}_API_KEY",)


def protect_keys(lm: Any) -> None:
    """Redact the secrets of a model from now on in this process."""
    protect(*_secrets(lm))


def without_keys(text: str, lm: Any) -> str:
    """Return a text without secrets: a server may repeat what it was sent."""
    protect_keys(lm)
    return Redactor().text(text)


def holds_key(text: str, lm: Any) -> bool:
    """Return whether a text contains a secret of the model."""
    protect_keys(lm)
    return Redactor({}).input(text) != text


def _secrets(lm: Any) -> Iterator[str]:
    settings = getattr(lm, "kwargs", None) or {}
    headers = {**(settings.get("headers") or {}), **(settings.get("extra_headers") or {})}
    values = [settings.get("api_key"), *(os.environ.get(name) for name in key_variables(lm))]
    values += [value for name, value in headers.items() if _is_secret_header(name)]
    base = settings.get("api_base") or settings.get("base_url")
    if isinstance(base, str):
        values.append(urlsplit(base).password)
    for value in values:
        if isinstance(value, str):
            yield value.strip().removeprefix("Bearer ")


def _is_secret_header(name: Any) -> bool:
    return str(name).lower() == "authorization" or is_secret_name(str(name).replace("-", "_"))
