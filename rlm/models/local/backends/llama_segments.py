"""A constrained answer from a server that shows no logits, in segments.

The server writes freely and each piece is checked as it comes. Where the grammar forces what follows, the server is
stopped, the forced text is appended to the prompt, and it goes on from there: that text is read in one pass instead of
being written token by token. Where the grammar refuses a piece, the part of it that fits is kept, or else the likeliest
token that fits is taken. Where the answer is complete before such a piece, it is done: `34 years` is 34, not 3400.

Tokens often begin with a space, and ` ["` is one token, too. A prompt that ends in the middle of one leaves a model at
a loss: it has never seen ` [` followed by a quote. So spaces and brackets at the end are not sent, and what comes next
must begin with them.
"""

from __future__ import annotations

import math
import random
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from ..types import Say, Settings

Complete = Callable[[str, int, dict[str, Any], Callable[[dict[str, Any]], bool] | None], dict[str, Any]]
"""Asks the server to go on after a text, for so many tokens, with these options, and hear it piece by piece."""

_WORTH_A_STOP = 3
_CANDIDATES = 200
_HALF = " [{"


class NoCandidate(Exception):
    """None of the likeliest tokens fits the grammar."""


@dataclass
class Segments:
    """One answer in the making. `matcher` is for bytes; `count` says how many tokens a text has."""

    complete: Complete
    count: Callable[[str], int]
    matcher: Any
    settings: Settings
    say: Say | None = None
    text: str = ""
    written: int = 0
    forced: int = 0
    refused: int = 0
    cancelled: bool = False
    timings: dict[str, float] = field(default_factory=lambda: {"prompt_ms": 0.0, "predicted_ms": 0.0})
    cached: int | None = None

    @property
    def sent(self) -> str:
        """The text without what may be half a token at its end."""
        return self.text.rstrip(_HALF)

    @property
    def owed(self) -> str:
        """What may be half a token, at the end."""
        return self.text[len(self.sent) :]

    def run(self) -> bool:
        """Write the answer. Whether it is complete: False when it was cut off. Raises `NoCandidate`."""
        chooser = random.Random(self.settings.seed)
        while not self.cancelled:
            self._force()
            if self.matcher.is_stopped():
                return not self.matcher.is_error()
            left = self.settings.max_tokens - self.written - self.forced
            if left <= 0:
                return False
            segment = _Segment(self)
            answer = self.complete(self.sent, left, {}, segment.hear)
            self._count(answer)
            if self.matcher.is_accepting() and (segment.ended or (segment.refused and self.text and not self.owed)):
                return True
            if segment.refused or segment.ended:
                self._choose(chooser)
        return False

    def take(self, text: str) -> str:
        """Add as much of the text as the grammar allows. What was added."""
        data = text.encode()
        fits = self.matcher.try_consume_tokens(list(data))
        taken = data[:fits].decode(errors="ignore")
        if surplus := fits - len(taken.encode()):
            self.matcher.rollback(surplus)  # never half a character
        self._add(taken)
        return taken

    def forces(self) -> bool:
        """Whether the grammar says what follows, for long enough to stop the server for it."""
        return self.matcher.is_stopped() or len(self.matcher.compute_ff_bytes()) >= _WORTH_A_STOP

    def _force(self) -> None:
        forced = self.matcher.compute_ff_bytes()
        if forced:
            self.forced += self.count(self.take(forced.decode(errors="ignore")))

    def _choose(self, chooser: random.Random) -> None:
        """The likeliest token that fits, where the model's own choice does not."""
        self.refused += 1
        sent, owed = self.sent.encode(), self.owed.encode()
        while True:
            data = self._drawn(self._candidates(sent.decode(), owed), chooser)
            if not owed.startswith(data):
                break
            sent, owed = sent + data, owed[len(data) :]  # a token that is owed: what follows it is still to be chosen
        self.written += 1
        self.take(data[len(owed) :].decode())

    def _candidates(self, sent: str, owed: bytes) -> list[tuple[float, bytes]]:
        """The tokens that may follow, with their chances. Raises `NoCandidate`."""
        answer = self.complete(sent, 1, {"n_probs": _CANDIDATES}, None)
        self._count(answer)
        offered = [
            (one["logprob"], bytes(one["bytes"]))
            for one in answer["choices"][0]["logprobs"]["content"][0]["top_logprobs"]
        ]
        fitting = [
            (chance, data)
            for chance, data in offered
            if data and (owed.startswith(data) or (data.startswith(owed) and self._fits(data[len(owed) :])))
        ]
        if not fitting:
            raise NoCandidate
        return fitting

    def _drawn(self, fitting: list[tuple[float, bytes]], chooser: random.Random) -> bytes:
        heat = self.settings.temperature
        if heat > 0:
            return chooser.choices([data for _, data in fitting], [math.exp(chance / heat) for chance, _ in fitting])[0]
        return fitting[0][1]

    def _fits(self, data: bytes) -> bool:
        try:
            data.decode()
        except UnicodeDecodeError:
            return False
        return bool(self.matcher.validate_tokens(list(data)) == len(data))

    def _add(self, text: str) -> None:
        self.text += text
        if text and self.say is not None and not self.say(text):
            self.cancelled = True

    def _count(self, answer: dict[str, Any]) -> None:
        timings = answer.get("timings", {})
        for name in self.timings:
            self.timings[name] += timings.get(name, 0.0)
        if self.cached is None:
            self.cached = timings.get("cache_n", 0)


class _Segment:
    """One stretch of free writing."""

    def __init__(self, answer: Segments) -> None:
        self._answer = answer
        self._owed = answer.owed
        self.refused = False
        self.ended = False

    def hear(self, chunk: dict[str, Any]) -> bool:
        """Take in a piece. True stops the server."""
        answer = self._answer
        for choice in chunk.get("choices", []):
            self.ended = self.ended or choice.get("finish_reason") == "stop"
            piece = choice.get("text") or ""
            if not piece:
                continue
            paid = self._pay(piece)
            answer.written += not self.refused
            if not paid:
                return True
            if answer.cancelled or answer.forces():
                return True
        return False

    def _pay(self, piece: str) -> bool:
        """Take in a piece that begins with what was not sent. Whether all of it was right."""
        if self._owed.startswith(piece):
            self._owed = self._owed[len(piece) :]
            return True
        if not piece.startswith(self._owed):
            self.refused = True
            return False
        rest, self._owed = piece[len(self._owed) :], ""
        taken = self._answer.take(rest)
        self.refused = not taken
        return taken == rest
