"""Constrained answers from a server that exposes no logits, generated in segments.

The server generates freely, and each piece is checked as it arrives. Where the grammar forces the text that follows,
the server is stopped, that text is appended to the prompt, and the server continues from there: it reads the text in
one pass instead of generating it token by token. Where the grammar refuses a piece, the part that fits is taken, or
else the likeliest token that fits. Where the answer is complete before such a piece, it ends: `34 years` is 34.

Tokens often begin with a space, and ` ["` is one token, too. A prompt that ends in the middle of a token confuses a
model: it has never seen ` [` followed by a quote. So spaces and brackets at the end are not sent, and the text that
comes next must begin with them.
"""

from __future__ import annotations

import math
import random
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from ..types import OnText, Settings

Complete = Callable[[str, int, dict[str, Any], Callable[[dict[str, Any]], bool] | None], dict[str, Any]]
"""Continues a text by a number of tokens, with these options, and passes each chunk to a function."""

_LEAST_FORCED = 3  # bytes, for which stopping the server is worth it
_CANDIDATES = 200
_PARTIAL = " [{"  # characters that may be the beginning of a longer token


class NoCandidate(Exception):
    """None of the likeliest tokens fits the grammar."""


@dataclass
class SegmentedAnswer:
    """One answer as it is generated. `matcher` is for bytes; `count` returns the number of tokens of a text."""

    complete: Complete
    count: Callable[[str], int]
    matcher: Any
    settings: Settings
    on_text: OnText | None = None
    text: str = ""
    generated: int = 0
    forced: int = 0
    refused: int = 0
    cancelled: bool = False
    timings: dict[str, float] = field(default_factory=lambda: {"prompt_ms": 0.0, "predicted_ms": 0.0})
    cached: int | None = None

    @property
    def sent(self) -> str:
        """The text without a possible half of a token at its end."""
        return self.text.rstrip(_PARTIAL)

    @property
    def unsent(self) -> str:
        """The possible half of a token at the end."""
        return self.text[len(self.sent) :]

    def run(self) -> bool:
        """Generate the answer. Return whether it is complete, and not cut off. Raises `NoCandidate`."""
        chooser = random.Random(self.settings.seed)
        while not self.cancelled:
            self._force()
            if self.matcher.is_stopped():
                return not self.matcher.is_error()
            left = self.settings.max_tokens - self.generated - self.forced
            if left <= 0:
                return False
            segment = _Segment(self)
            answer = self.complete(self.sent, left, {}, segment.on_chunk)
            self._count(answer)
            if self.matcher.is_accepting() and (segment.ended or (segment.refused and self.text and not self.unsent)):
                return True
            if segment.refused or segment.ended:
                self._choose(chooser)
        return False

    def take(self, text: str) -> str:
        """Append as much of a text as the grammar allows, and return it."""
        data = text.encode()
        fits = self.matcher.try_consume_tokens(list(data))
        taken = data[:fits].decode(errors="ignore")
        if surplus := fits - len(taken.encode()):
            self.matcher.rollback(surplus)  # never half a character
        self._append(taken)
        return taken

    def is_forced(self) -> bool:
        """Return whether the grammar forces the text that follows, for long enough to stop the server for it."""
        return self.matcher.is_stopped() or len(self.matcher.compute_ff_bytes()) >= _LEAST_FORCED

    def _force(self) -> None:
        forced = self.matcher.compute_ff_bytes()
        if forced:
            self.forced += self.count(self.take(forced.decode(errors="ignore")))

    def _choose(self, chooser: random.Random) -> None:
        """Append the likeliest token that fits, where the model's own choice does not."""
        self.refused += 1
        sent, unsent = self.sent.encode(), self.unsent.encode()
        while True:
            data = self._sample(self._candidates(sent.decode(), unsent), chooser)
            if not unsent.startswith(data):
                break
            sent, unsent = sent + data, unsent[len(data) :]  # a part of the unsent text: the next token is still open
        self.generated += 1
        self.take(data[len(unsent) :].decode())

    def _candidates(self, sent: str, unsent: bytes) -> list[tuple[float, bytes]]:
        """Return the tokens that may follow, with their log probabilities. Raises `NoCandidate`."""
        answer = self.complete(sent, 1, {"n_probs": _CANDIDATES}, None)
        self._count(answer)
        likeliest = [
            (candidate["logprob"], bytes(candidate["bytes"]))
            for candidate in answer["choices"][0]["logprobs"]["content"][0]["top_logprobs"]
        ]
        fitting = [
            (logprob, data)
            for logprob, data in likeliest
            if data and (unsent.startswith(data) or (data.startswith(unsent) and self._fits(data[len(unsent) :])))
        ]
        if not fitting:
            raise NoCandidate
        return fitting

    def _sample(self, fitting: list[tuple[float, bytes]], chooser: random.Random) -> bytes:
        temperature = self.settings.temperature
        if temperature > 0:
            weights = [math.exp(logprob / temperature) for logprob, _ in fitting]
            return chooser.choices([data for _, data in fitting], weights)[0]
        return fitting[0][1]

    def _fits(self, data: bytes) -> bool:
        try:
            data.decode()
        except UnicodeDecodeError:
            return False
        return bool(self.matcher.validate_tokens(list(data)) == len(data))

    def _append(self, text: str) -> None:
        self.text += text
        if text and self.on_text is not None and not self.on_text(text):
            self.cancelled = True

    def _count(self, answer: dict[str, Any]) -> None:
        timings = answer.get("timings", {})
        for name in self.timings:
            self.timings[name] += timings.get(name, 0.0)
        if self.cached is None:
            self.cached = timings.get("cache_n", 0)


class _Segment:
    """One stretch of free generation."""

    def __init__(self, answer: SegmentedAnswer) -> None:
        self._answer = answer
        self._unsent = answer.unsent
        self.refused = False
        self.ended = False

    def on_chunk(self, chunk: dict[str, Any]) -> bool:
        """Add a chunk of the server. Return whether to stop it."""
        answer = self._answer
        for choice in chunk.get("choices", []):
            self.ended = self.ended or choice.get("finish_reason") == "stop"
            piece = choice.get("text") or ""
            if not piece:
                continue
            accepted = self._accept(piece)
            answer.generated += not self.refused
            if not accepted or answer.cancelled or answer.is_forced():
                return True
        return False

    def _accept(self, piece: str) -> bool:
        """Add a piece, which must begin with the unsent text. Return whether all of it fitted."""
        if self._unsent.startswith(piece):
            self._unsent = self._unsent[len(piece) :]
            return True
        if not piece.startswith(self._unsent):
            self.refused = True
            return False
        rest, self._unsent = piece[len(self._unsent) :], ""
        taken = self._answer.take(rest)
        self.refused = not taken
        return taken == rest
