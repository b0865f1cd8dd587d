"""Requests that any Jupyter client may send and that run no cell: kernel info, completion, inspection, history."""

from __future__ import annotations

import sys
from typing import Any

from ..wire import PROTOCOL_VERSION
from . import completion


def reply_to(kind: str, request: dict[str, Any], namespace: dict[str, Any]) -> dict[str, Any] | None:
    """Return the content of the reply; None for a request that is not known."""
    code, position = request.get("code", ""), request.get("cursor_pos", 0)
    match kind:
        case "kernel_info_request":
            return _kernel_info()
        case "complete_request":
            return completion.complete(namespace, code, position)
        case "inspect_request":
            return completion.inspect(namespace, code, position)
        case "is_complete_request":
            return completion.is_complete(code)
        case "history_request":
            return {"status": "ok", "history": []}
        case "comm_info_request":
            return {"status": "ok", "comms": {}}
        case "interrupt_request":  # the signal has done it
            return {"status": "ok"}
    return None


def _kernel_info() -> dict[str, Any]:
    version = ".".join(map(str, sys.version_info[:3]))
    return {
        "status": "ok",
        "protocol_version": PROTOCOL_VERSION,
        "implementation": "rlm-sandbox",
        "implementation_version": "1",
        "language_info": {
            "name": "python",
            "version": version,
            "mimetype": "text/x-python",
            "file_extension": ".py",
            "pygments_lexer": "ipython3",
            "codemirror_mode": {"name": "ipython", "version": 3},
            "nbconvert_exporter": "python",
        },
        "banner": f"Python {version}, sandboxed",
        "help_links": [],
    }
