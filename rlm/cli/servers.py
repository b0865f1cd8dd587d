"""The model of a server that is named by its address: `--model http://localhost:8000/v1`."""

from __future__ import annotations

import json
import urllib.error
import urllib.request
from typing import Any
from urllib.parse import urlsplit

from ..redaction import Redactor
from .exit_codes import EnvironmentProblem

_TIMEOUT_S = 10
_MAX_BYTES = 1_000_000
_LOOPBACK = ("localhost", "127.0.0.1", "::1")


def model_at(address: str) -> str:
    """Return the name of the first model that a server offers, as `openai/NAME`: it is asked for its list.

    Raise `EnvironmentProblem` where it does not answer, or offers none.
    """
    url = address.rstrip("/") + "/models"
    shown = Redactor().text(url)
    try:
        offered = json.loads(_get(url))["data"]
        return f"openai/{offered[0]['id']}"
    except urllib.error.HTTPError as error:
        raise _problem(shown, f"HTTP status {error.code}") from None
    except OSError as error:
        raise _problem(shown, str(getattr(error, "reason", error))) from None
    except (ValueError, LookupError, TypeError):
        raise _problem(shown, "no list of models came back") from None


def _get(url: str) -> Any:
    handlers = [urllib.request.ProxyHandler({})] if urlsplit(url).hostname in _LOOPBACK else []
    with urllib.request.build_opener(*handlers).open(url, timeout=_TIMEOUT_S) as reply:
        return reply.read(_MAX_BYTES)


def _problem(url: str, what: str) -> EnvironmentProblem:
    return EnvironmentProblem(
        f"{url}: {what}. Is the server running, and is this the address before /chat/completions? A server that gives "
        "no list is named with its model: `--model openai/NAME --api-base ADDRESS`"
    )
