"""What all questions to models pass: answers on disk, and the pace that everybody keeps. Set once for a process."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ..paths import home
from .cache import AnswerCache, Mode, next_number, not_answered, question_of
from .errors import holds_key
from .profile import profile_of
from .rate_limit.bucket import Limit
from .rate_limit.limiter import Lane, Pace, lane_name
from .rate_limit.store import Board, MemoryBoard

__all__ = ["Limit", "Traffic", "answers_path", "pace_path", "use"]


@dataclass(frozen=True, slots=True)
class Traffic:
    """How the models are asked in a process: plain data, for the processes that one starts."""

    pace: str | None = None
    """The folder by which processes of this machine keep one pace; None: every process by itself."""

    limits: Mapping[str, Limit | Mapping[str, float]] = field(default_factory=dict)
    """By a model's name, also as plain mappings. What stands on a model itself, from a task file, comes first."""

    cache: str | None = None
    """The file with answers; None: the usual one."""

    cache_mode: Mode = "off"


def pace_path() -> Path:
    """The folder by which all processes of this user keep one pace."""
    return home() / "pace"


def answers_path() -> Path:
    """The usual file for answers."""
    return home() / "answers.sqlite"


@dataclass(frozen=True, slots=True)
class _InUse:
    pace: Pace | None = None
    limits: Mapping[str, Limit] = field(default_factory=dict)
    cache: AnswerCache | None = None


_NOTHING = _InUse()
_in_use = _NOTHING
_own_pace: Pace | None = None


def use(traffic: Traffic | None, *, board: Board | None = None) -> None:
    """Ask all models like this from now on; None: as if it had never been said. `board` is a place for the pace."""
    global _in_use, _own_pace
    if _in_use.cache is not None:
        _in_use.cache.close()
    if traffic is None:
        _in_use, _own_pace = _NOTHING, None
        return
    pace = Pace(board) if board is not None else Pace.at(Path(traffic.pace)) if traffic.pace else Pace(MemoryBoard())
    cache = None
    if traffic.cache_mode != "off":
        cache = AnswerCache(traffic.cache or answers_path(), traffic.cache_mode)
    limits = {name: one if isinstance(one, Limit) else Limit(**one) for name, one in traffic.limits.items()}
    _in_use = _InUse(pace, limits, cache)


@contextlib.contextmanager
def using(traffic: Traffic) -> Iterator[None]:
    """Ask all models like this inside the block."""
    use(traffic)
    try:
        yield
    finally:
        use(None)


def in_use() -> bool:
    """Whether something was said: then dspy's own cache is not used where a task does not ask for it."""
    return _in_use is not _NOTHING


def lane_to(lm: Any) -> Lane | None:
    """The line to wait in before this model is asked; None where there is none."""
    global _own_pace
    limit = profile_of(lm).rate_limit or _in_use.limits.get(str(lm.model))
    if _in_use.pace is not None:
        return Lane(_in_use.pace, lane_name(lm), limit or Limit()) if limit or _is_elsewhere(lm) else None
    if limit is None:
        return None
    if _own_pace is None:  # a limit in a task file holds for all that runs here
        _own_pace = Pace.at(pace_path())
    return Lane(_own_pace, lane_name(lm), limit)


@dataclass(frozen=True, slots=True)
class Question:
    """A question that may have an answer on disk."""

    cache: AnswerCache
    lm: Any
    hash: bytes
    number: int

    def find(self) -> dict[str, Any] | None:
        """Its answer, if it is there."""
        return self.cache.find(self.hash, self.number)

    async def keep(self, answer: Mapping[str, Any]) -> None:
        """Put its answer on disk; not one that repeats the key."""
        if self.cache.mode == "read-write" and not holds_key(answer["text"], self.lm):
            await asyncio.to_thread(self.cache.keep, self.hash, self.number, answer)

    def failed(self) -> None:
        """There is no answer."""
        not_answered(self.hash)


def question_to(
    lm: Any, turns: Sequence[tuple[str, str]], system: str | None, options: Mapping[str, Any]
) -> Question | None:
    """The question as the cache knows it; None where there is no cache for it."""
    if _in_use.cache is None or not _is_elsewhere(lm):
        return None
    asked = question_of(lm, turns, system, options)
    return Question(_in_use.cache, lm, asked, next_number(asked))


def _is_elsewhere(lm: Any) -> bool:
    """Whether a model is asked over the network; what runs in this process has an engine of its own."""
    return profile_of(lm).engine is None and isinstance(getattr(lm, "engine", None), str)
