"""Operators: their notification of an escalation, and the log of their answers, which a resumed run reads again."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import subprocess
import time
import urllib.error
import urllib.request
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Literal
from urllib.parse import urlsplit

from ..errors import RlmError
from .json_log import JsonEntry, JsonLog, JsonLogError
from .plan import Rejection, new_id, now
from .settings import Operator

Choice = Literal["approve", "reject", "retry"]
CHOICES: tuple[Choice, ...] = ("approve", "reject", "retry")
_POLL_S = 0.2
_NOTIFY_TIMEOUT_S = 30.0
_LOOPBACK = ("localhost", "127.0.0.1", "::1")


class AlreadyAnswered(RlmError, ValueError):
    """An operator has answered this escalation before."""


@dataclass(frozen=True, slots=True)
class OperatorAnswer:
    """An answer to an escalation."""

    escalation_id: str
    answer: Choice
    """`approve` returns the best rejected answer (or that of `plan_id`), `reject` none; `retry` makes new plans."""

    plan_id: str | None = None
    outputs: Mapping[str, Any] | None = None
    """With `approve`: the operator's own answer, instead of a rejected one."""

    note: str | None = None
    """A comment of the operator. With `retry`, it is part of the request for new plans."""

    answered_by: Literal["operator", "timeout"] = "operator"
    timestamp: str = field(default_factory=now)

    def __post_init__(self) -> None:
        if self.answer not in CHOICES:
            raise ValueError(f"an answer must be one of {', '.join(CHOICES)}, not {self.answer!r}")
        if self.outputs is not None and not isinstance(self.outputs, Mapping):
            raise ValueError(f"outputs must be an object with a value for each output, not {self.outputs!r}")

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> OperatorAnswer:
        """Return the answer in a log entry."""
        return cls(**{name: data[name] for name in cls.__dataclass_fields__ if name in data})


class OperatorAnswers:
    """The log of answers."""

    def __init__(self, path: Path) -> None:
        self.log = JsonLog(path)

    def to(self, escalation_id: str) -> OperatorAnswer | None:
        """Return the answer to an escalation: that of an operator before a default after a timeout."""
        answers = self._answers(self.log.read(), escalation_id)
        by_operator = [answer for answer in answers if answer.answered_by == "operator"]
        return next(iter(by_operator or answers), None)

    def add(self, answer: OperatorAnswer) -> OperatorAnswer:
        """Record an answer; return the effective one. Raises `AlreadyAnswered` for a second answer of an operator."""
        entry = {"log_entry_id": new_id(), **asdict(answer)}

        def earlier(entries: list[JsonEntry]) -> JsonEntry | None:
            answers = self._answers(entries, answer.escalation_id)
            final = [
                earlier for earlier in answers if earlier.answered_by == "operator" or answer.answered_by == "timeout"
            ]
            return asdict(final[0]) if final else None

        existing = self.log.append_unless(entry, earlier)
        if existing is not None and answer.answered_by == "operator":
            raise AlreadyAnswered(
                f"escalation {answer.escalation_id} was answered with {existing['answer']} at {existing['timestamp']}"
            )
        return answer if existing is None else OperatorAnswer.from_dict(existing)

    async def wait(self, escalation_id: str, timeout: float) -> OperatorAnswer | None:
        """Return the answer as soon as there is one; None after the timeout.

        A log that cannot be read is read again when it changes: it may be being edited by hand.
        """
        deadline, seen = time.monotonic() + timeout, object()
        while True:
            # The file is read again only if it has changed.
            state = _file_state(self.log.path)
            if state != seen:
                seen = state
                with contextlib.suppress(JsonLogError):
                    if (answer := self.to(escalation_id)) is not None:
                        return answer
            left = deadline - time.monotonic()
            if left <= 0:
                return None
            await asyncio.sleep(min(_POLL_S, left))

    def _answers(self, entries: list[JsonEntry], escalation_id: str) -> list[OperatorAnswer]:
        try:
            return [OperatorAnswer.from_dict(entry) for entry in entries if entry.get("escalation_id") == escalation_id]
        except (TypeError, ValueError) as error:
            raise JsonLogError(
                self.log.path, f"an answer to {escalation_id} cannot be read ({error}); repair it"
            ) from None


def _file_state(path: Path) -> Any:
    try:
        status = os.stat(path)
    except OSError:
        return None
    return status.st_ino, status.st_mtime_ns, status.st_size


def notify(operator: Operator, entry: JsonEntry, rejections: Sequence[Rejection], logs: Path) -> str:
    """Notify an operator by command and webhook; return a description of what was done.

    It blocks for as long as these take, so it must not be called in an event loop. Their failures are described, not
    raised.
    """
    message = json.dumps(notification(entry, rejections, logs)).encode()
    actions = ["An operator is asked to look at the rejected plans."]
    if operator.command:
        name = Path(operator.command[0]).name
        problem = _run(operator.command, message)
        actions.append(f"The command {name} {'was run' if problem is None else f'failed: {problem}'}.")
    if operator.webhook is not None:
        # Only the host is named: the rest of a webhook address is often secret.
        host, problem = urlsplit(operator.webhook).hostname, _post(operator.webhook, message)
        actions.append(f"The webhook at {host} {'was called' if problem is None else f'failed: {problem}'}.")
    return "Fallback triggered: " + " ".join(actions)


def notification(entry: JsonEntry, rejections: Sequence[Rejection], logs: Path) -> dict[str, Any]:
    """Return the message to an operator: the escalation, the rejected plans with reasons, and commands to answer."""
    entry_id = entry["log_entry_id"]
    return {
        "escalation": entry,
        "rejected": [
            {"plan_id": rejection.plan.plan_id, "name": rejection.plan.name, "reasons": rejection.reasons}
            for rejection in rejections
        ],
        "answer_with": [f"rlm escalations {verb} {entry_id} --logs {logs}" for verb in ("approve", "reject", "retry")],
    }


def _run(command: Sequence[str], message: bytes) -> str | None:
    """Run a command without a shell; return what went wrong, or None."""
    try:
        done = subprocess.run(
            list(command), input=message, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, timeout=_NOTIFY_TIMEOUT_S
        )
    except subprocess.TimeoutExpired:
        return f"it took longer than {_NOTIFY_TIMEOUT_S:.0f} seconds"
    except OSError as error:
        return str(error.strerror)
    if done.returncode:
        lines = done.stderr.decode(errors="replace").strip().splitlines()
        return f"exit code {done.returncode}" + (f", {lines[-1][:200]}" if lines else "")
    return None


def _post(url: str, message: bytes) -> str | None:
    """Post a message to a URL; return what went wrong, or None."""
    headers = {"Content-Type": "application/json", "User-Agent": "rlm"}
    request = urllib.request.Request(url, data=message, headers=headers, method="POST")
    handlers = [urllib.request.ProxyHandler({})] if urlsplit(url).hostname in _LOOPBACK else []
    try:
        with urllib.request.build_opener(*handlers).open(request, timeout=_NOTIFY_TIMEOUT_S):
            return None
    except urllib.error.HTTPError as error:
        with error:
            return f"it answered {error.code}"
    except (OSError, ValueError) as error:
        return str(getattr(error, "reason", error))
