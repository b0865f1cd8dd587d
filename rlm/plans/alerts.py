"""Telling an operator of an escalation: a command of the caller's, a webhook, or both. Neither can break the run."""

from __future__ import annotations

import json
import subprocess
import urllib.error
import urllib.request
from collections.abc import Sequence
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from .json_log import Entry
from .plan import Rejection
from .settings import Operator

_SECONDS = 30.0
_LOOPBACK = ("localhost", "127.0.0.1", "::1")


def alert(operator: Operator, entry: Entry, rejections: Sequence[Rejection], logs: Path) -> str:
    """Tell whoever is to be told; what was done, in words. It may take a while: not for an event loop."""
    message = json.dumps(payload(entry, rejections, logs)).encode()
    done = ["An operator is asked to look at the rejected plans."]
    if operator.command:
        name = Path(operator.command[0]).name
        problem = _run(operator.command, message)
        done.append(f"The command {name} {'was run' if problem is None else f'failed: {problem}'}.")
    if operator.webhook is not None:
        # Only the host is named: the rest of such an address is often a secret.
        host, problem = urlsplit(operator.webhook).hostname, _post(operator.webhook, message)
        done.append(f"The webhook at {host} {'was called' if problem is None else f'failed: {problem}'}.")
    return "Fallback triggered: " + " ".join(done)


def payload(entry: Entry, rejections: Sequence[Rejection], logs: Path) -> dict[str, Any]:
    """What an operator is told: the escalation, what was rejected and why, and how to answer."""
    shown = entry["log_entry_id"]
    return {
        "escalation": entry,
        "rejected": [
            {"plan_id": one.plan.plan_id, "name": one.plan.name, "reasons": one.reasons} for one in rejections
        ],
        "answer_with": [f"rlm escalations {verb} {shown} --logs {logs}" for verb in ("approve", "reject", "retry")],
    }


def _run(command: Sequence[str], message: bytes) -> str | None:
    """Start the command, without a shell; what went wrong, if anything."""
    try:
        done = subprocess.run(
            list(command), input=message, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, timeout=_SECONDS
        )
    except subprocess.TimeoutExpired:
        return f"it took longer than {_SECONDS:.0f} seconds"
    except OSError as error:
        return str(error.strerror)
    if done.returncode:
        said = done.stderr.decode(errors="replace").strip().splitlines()
        return f"exit code {done.returncode}" + (f", {said[-1][:200]}" if said else "")
    return None


def _post(url: str, message: bytes) -> str | None:
    headers = {"Content-Type": "application/json", "User-Agent": "rlm"}
    request = urllib.request.Request(url, data=message, headers=headers, method="POST")
    handlers = [urllib.request.ProxyHandler({})] if urlsplit(url).hostname in _LOOPBACK else []
    try:
        with urllib.request.build_opener(*handlers).open(request, timeout=_SECONDS):
            return None
    except urllib.error.HTTPError as error:
        with error:
            return f"it answered {error.code}"
    except (OSError, ValueError) as error:
        return str(getattr(error, "reason", error))
