"""Waiting for one's turn to ask a model, together with everybody else who asks it."""

from __future__ import annotations

import asyncio
import contextlib
import contextvars
import logging
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from .bucket import Limit, Place
from .store import Board, FileBoard, MemoryBoard

_LOOK_S = 2.0
"""Who waits looks this often whether it is earlier, or later, than was said."""
_CHARS_A_TOKEN = 4

_logger = logging.getLogger("rlm")

Waits = Callable[[float], None]
_told: contextvars.ContextVar[Waits | None] = contextvars.ContextVar("rlm_pace_told", default=None)


class TooLate(Exception):
    """The turn comes after the time that there is."""


@contextlib.contextmanager
def telling_waits(told: Waits) -> Iterator[None]:
    """Tell of waits inside the block before they begin, in seconds: time in which nothing could be done.

    Whoever was told of them outside of the block still is.
    """
    outer = _told.get()

    def tell(seconds: float) -> None:
        told(seconds)
        if outer is not None:
            outer(seconds)

    token = _told.set(tell)
    try:
        yield
    finally:
        _told.reset(token)


class Pace:
    """The pace of all models, for one process of several."""

    def __init__(self, board: Board) -> None:
        self._board = board

    @classmethod
    def at(cls, folder: Path) -> Pace:
        """The pace that processes of this machine share by a folder."""
        return cls(FileBoard(folder))

    async def do(self, name: str, verb: str, *about: Any) -> Any:
        """Ask the board; where it cannot be reached, this process keeps its own."""
        try:
            return await self._board.do(name, verb, *about)
        except OSError as error:
            if isinstance(self._board, MemoryBoard):
                raise
            _logger.warning("the pace of models is not shared with other processes any more: %s", error)
            self._board = MemoryBoard()
            return await self._board.do(name, verb, *about)

    def send(self, name: str, verb: str, *about: Any) -> None:
        """As `do`, without an answer."""
        self._board.send(name, verb, *about)


@dataclass(frozen=True, slots=True)
class Lane:
    """One model's line, as one caller sees it."""

    pace: Pace
    name: str
    limit: Limit

    async def enter(self, tokens_in: float, most_out: float | None, deadline: float | None) -> Place:
        """Wait for the next place. Raises `TooLate` if it is due after the deadline, a time of `time.monotonic()`."""
        while True:
            place: Place = await self.pace.do(self.name, "take", self.limit, tokens_in, most_out)
            left: float | None = place.due_in
            try:
                while left is not None and left > 0:
                    if deadline is not None and time.monotonic() + left > deadline:
                        raise TooLate
                    await _sleep(min(left, _LOOK_S))
                    left = await self.pace.do(self.name, "look", place)
            except (TooLate, asyncio.CancelledError):
                self.pace.send(self.name, "leave", place)
                raise
            if left is not None:
                return place

    async def settle(self, place: Place, tokens_in: int, tokens_out: int) -> None:
        """What was really used; nothing is what a server says that does not count."""
        if self.limit.tokens is not None and tokens_in + tokens_out > 0:
            await self.pace.do(self.name, "settle", self.limit, place, tokens_in, tokens_out)

    async def slow(self, place: Place, retry_after: float | None) -> float:
        """The server said "too many": slow everybody down. In how many seconds it can be asked again."""
        return float(await self.pace.do(self.name, "slow", self.limit, place, retry_after))


def lane_name(lm: Any) -> str:
    """Which models share a line: the same name at the same address."""
    settings = getattr(lm, "kwargs", None) or {}
    parts = urlsplit(str(settings.get("api_base") or settings.get("base_url") or ""))
    return f"{lm.model} {parts.scheme}://{parts.netloc.rpartition('@')[2]}{parts.path}"


def tokens_of(turns: Sequence[tuple[str, str]], system: str | None) -> float:
    """About how many tokens are sent."""
    return (len(system or "") + sum(len(text) for _, text in turns)) / _CHARS_A_TOKEN


async def _sleep(seconds: float) -> None:
    told = _told.get()
    if told is not None:
        told(seconds)
    await asyncio.sleep(seconds)
