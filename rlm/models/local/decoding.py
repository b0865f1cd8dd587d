"""The decode loop: what a model says next, kept inside a grammar at next to no cost. The same for every backend.

The model's own choice is looked at first, and a mask over the vocabulary is computed only where the grammar refuses it.
Tokens that the grammar forces are appended without asking the model, in one pass with the token before them. The keys
and values of a prompt stay, so the next prompt is read only from where it differs.

Where an answer is complete and the model goes on with something that does not fit, it is done: a mask would make
`34 years` into `3400`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from typing import Any

from .types import Settings

Pick = Callable[[Any, bytes | None], int]
"""The next token, from the scores of all tokens; the bits say which are allowed."""

_CHUNK = 512


class Reader(ABC):
    """Weights, and the keys and values of what they have read. One thread uses it at a time."""

    def __init__(self, eos: frozenset[int]) -> None:
        self.eos = eos
        self._read: list[int] = []

    @abstractmethod
    def picker(self, settings: Settings) -> Pick:
        """How the next token is chosen."""

    @abstractmethod
    def _advance(self, tokens: list[int]) -> Any:
        """Read these tokens. The scores for the token that follows, perhaps still being computed."""

    @abstractmethod
    def _shorten(self, size: int) -> int:
        """Forget what was read after `size` tokens. How many are left: fewer where the model cannot go back so far."""

    def wait(self, scores: Any) -> None:  # noqa: B027
        """Until the scores have been computed. Nothing to do for backends that compute at once."""

    def begin(self, prompt: list[int], forced: list[int]) -> tuple[Any, int]:
        """Read a prompt and what is forced after it. The scores, and how many tokens had been read before."""
        most = min(len(self._read), len(prompt) - 1)
        same = next((at for at in range(most) if self._read[at] != prompt[at]), most)
        if same < len(self._read):
            same = self._shorten(same)
            del self._read[same:]
        scores = self.forward(prompt[same:] + forced)
        self.wait(scores)
        return scores, same

    def forward(self, tokens: list[int]) -> Any:
        """Read on, in pieces of a size that fits in memory. After a failure everything is forgotten."""
        try:
            for start in range(0, len(tokens), _CHUNK):
                piece = tokens[start : start + _CHUNK]
                scores = self._advance(piece)
                self._read.extend(piece)
                if start + _CHUNK < len(tokens):
                    self.wait(scores)
        except BaseException:
            self._shorten(0)
            self._read.clear()
            raise
        return scores

    def free(self, scores: Any, pick: Pick, most: int) -> Iterator[int]:
        """Tokens without a grammar, up to and with the one that ends the text."""
        for left in range(most, 0, -1):
            token = pick(scores, None)
            yield token
            if token in self.eos or left == 1:
                return
            scores = self.forward([token])


class Decoding:
    """One answer: its tokens, and how it came to them."""

    def __init__(self, reader: Reader, settings: Settings, matcher: Any | None) -> None:
        self._reader = reader
        self._pick = reader.picker(settings)
        self._matcher = matcher
        self._scores: Any = None
        self._begun = False
        self.cached = 0
        self.forced = 0
        self.masked = 0

    @property
    def complete(self) -> bool:
        """Whether the grammar is satisfied by what was written."""
        return self._matcher is not None and self._matcher.is_accepting() and not self._matcher.is_error()

    def begin(self, prompt: list[int]) -> list[int]:
        """Read the prompt. The tokens that the grammar forces at the start."""
        forced = self._next_forced()
        if self._matcher is None or not self._matcher.is_stopped():
            self._scores, self.cached = self._reader.begin(prompt, forced)
        return forced

    def tokens(self, most: int) -> Iterator[list[int]]:
        """The tokens that follow, in runs, about `most`. Ends sooner where the model or the grammar ends."""
        if self._matcher is None:
            yield from ([token] for token in self._reader.free(self._scores, self._pick, most))
            return
        scores = self._scores
        while most > 0 and not self._matcher.is_stopped():
            token = self._choose(scores, self._matcher)
            if token is None:
                return
            self._matcher.consume_token(token)
            self._begun = True
            if token in self._reader.eos:
                yield [token]
                return
            run = [token, *self._next_forced()]
            most -= len(run)
            if most > 0 and not self._matcher.is_stopped():
                scores = self._reader.forward(run)
            yield run

    def _choose(self, scores: Any, matcher: Any) -> int | None:
        """The next token; None where the answer is complete and the model would go on with something else."""
        token = self._pick(scores, None)
        if matcher.validate_tokens([token]) == 1:
            return token
        if self._begun and matcher.is_accepting():
            return None
        self.masked += 1
        return self._pick(scores, matcher.compute_bitmask())

    def _next_forced(self) -> list[int]:
        if self._matcher is None:
            return []
        forced: list[int] = self._matcher.compute_ff_tokens()
        if forced:
            self._matcher.consume_tokens(forced)
            self.forced += len(forced)
            self._begun = True
        return forced
