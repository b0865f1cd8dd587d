"""What operators answer to escalations: kept in a log, so that a run that waits, or is started again, finds them."""

from __future__ import annotations

import asyncio
import contextlib
import os
import time
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Literal

from ..errors import RlmError
from .json_log import Entry, JsonLog, JsonLogError
from .plan import new_id, now

Choice = Literal["approve", "reject", "retry"]
CHOICES: tuple[Choice, ...] = ("approve", "reject", "retry")
_POLL_S = 0.2


class AlreadyAnswered(RlmError, ValueError):
    """An operator has answered this escalation before."""


@dataclass(frozen=True, slots=True)
class OperatorAnswer:
    """One answer to one escalation."""

    escalation_id: str
    answer: Choice
    """`approve` gives the best rejected answer (or that of `plan_id`), `reject` none, `retry` makes new plans."""

    plan_id: str | None = None
    outputs: Mapping[str, Any] | None = None
    """With `approve`: the operator's own answer, in place of one that was rejected."""

    note: str | None = None
    """Words of the operator. With `retry`, whoever makes the new plans reads them."""

    answered_by: Literal["operator", "timeout"] = "operator"
    timestamp: str = field(default_factory=now)

    def __post_init__(self) -> None:
        if self.answer not in CHOICES:
            raise ValueError(f"an operator answers {', '.join(CHOICES)}, not {self.answer!r}")
        if self.outputs is not None and not isinstance(self.outputs, Mapping):
            raise ValueError(f"an answer is an object with a value for each output, not {self.outputs!r}")

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> OperatorAnswer:
        """The answer that the log has."""
        return cls(**{name: data[name] for name in cls.__dataclass_fields__ if name in data})


class Answers:
    """The answers on record."""

    def __init__(self, path: Path) -> None:
        self.log = JsonLog(path)

    def to(self, escalation_id: str) -> OperatorAnswer | None:
        """The answer that counts: an operator's before one that was taken because nobody answered in time."""
        found = self._answers(self.log.read(), escalation_id)
        given = [one for one in found if one.answered_by == "operator"]
        return next(iter(given or found), None)

    def give(self, answer: OperatorAnswer) -> OperatorAnswer:
        """Record an answer; the one that counts then. An operator's second answer raises `AlreadyAnswered`."""
        entry = {"log_entry_id": new_id(), **asdict(answer)}

        def earlier(entries: list[Entry]) -> Entry | None:
            found = self._answers(entries, answer.escalation_id)
            in_the_way = [one for one in found if one.answered_by == "operator" or answer.answered_by == "timeout"]
            return asdict(in_the_way[0]) if in_the_way else None

        there = self.log.append_unless(entry, earlier)
        if there is not None and answer.answered_by == "operator":
            raise AlreadyAnswered(
                f"escalation {answer.escalation_id} was answered with {there['answer']} at {there['timestamp']}"
            )
        return answer if there is None else OperatorAnswer.from_dict(there)

    async def wait(self, escalation_id: str, timeout: float) -> OperatorAnswer | None:
        """The answer as soon as there is one; None when it does not come in time.

        A log that cannot be read is looked at again when it changes: somebody may be writing it by hand.
        """
        until, seen = time.monotonic() + timeout, object()
        while True:
            # The file is read again only when it is another one.
            state = _state(self.log.path)
            if state != seen:
                seen = state
                with contextlib.suppress(JsonLogError):
                    if (answer := self.to(escalation_id)) is not None:
                        return answer
            left = until - time.monotonic()
            if left <= 0:
                return None
            await asyncio.sleep(min(_POLL_S, left))

    def _answers(self, entries: list[Entry], escalation_id: str) -> list[OperatorAnswer]:
        try:
            return [OperatorAnswer.from_dict(one) for one in entries if one.get("escalation_id") == escalation_id]
        except (TypeError, ValueError) as error:
            raise JsonLogError(
                self.log.path, f"an answer to {escalation_id} cannot be read ({error}); repair it"
            ) from None


def _state(path: Path) -> Any:
    try:
        found = os.stat(path)
    except OSError:
        return None
    return found.st_ino, found.st_mtime_ns, found.st_size
