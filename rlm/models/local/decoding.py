"""The decode loop of constrained and free generation, the same for every backend.

The model's own choice is checked first, and a mask over the vocabulary is computed only where the grammar refuses it.
Tokens that the grammar forces are appended without sampling, in one pass with the token before them. The key-value
cache is kept, so that the next prompt is read only from where it differs.

Where an answer is complete and the model continues with something that does not fit, the answer ends: a mask would turn
`34 years` into `3400`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from typing import Any

from .types import Settings

Sampler = Callable[[Any, bytes | None], int]
"""Returns the next token for the logits of all tokens and a bit mask of those that are allowed."""

_CHUNK = 512


class CachedModel(ABC):
    """Weights with the key-value cache of the tokens that they have read. One thread uses it at a time."""

    def __init__(self, eos: frozenset[int]) -> None:
        self.eos = eos
        self._tokens: list[int] = []

    @abstractmethod
    def sampler(self, settings: Settings) -> Sampler:
        """Return the sampler for these settings."""

    @abstractmethod
    def _advance(self, tokens: list[int]) -> Any:
        """Read tokens. Return the logits of the token that follows, which may still be under computation."""

    @abstractmethod
    def _truncate(self, size: int) -> int:
        """Shorten the cache to `size` tokens. Return how many are left: fewer where the model cannot go back so far."""

    def wait(self, logits: Any) -> None:  # noqa: B027
        """Wait for the logits; not needed for backends that compute at once."""

    def begin(self, prompt: list[int], forced: list[int]) -> tuple[Any, int]:
        """Read a prompt and the forced tokens after it. Return the logits, and how many tokens the cache had."""
        most = min(len(self._tokens), len(prompt) - 1)
        common = next((at for at in range(most) if self._tokens[at] != prompt[at]), most)
        if common < len(self._tokens):
            common = self._truncate(common)
            del self._tokens[common:]
        logits = self.forward(prompt[common:] + forced)
        self.wait(logits)
        return logits, common

    def forward(self, tokens: list[int]) -> Any:
        """Read tokens in chunks that fit in memory, and return the last logits. A failure empties the cache."""
        try:
            for start in range(0, len(tokens), _CHUNK):
                chunk = tokens[start : start + _CHUNK]
                logits = self._advance(chunk)
                self._tokens.extend(chunk)
                if start + _CHUNK < len(tokens):
                    self.wait(logits)
        except BaseException:
            self.clear()
            raise
        return logits

    def clear(self) -> None:
        """Empty the cache."""
        self._truncate(0)
        self._tokens.clear()

    def generate(self, logits: Any, sample: Sampler, most: int) -> Iterator[int]:
        """Yield at most `most` tokens without a grammar, up to and with the one that ends the text."""
        for left in range(most, 0, -1):
            token = sample(logits, None)
            yield token
            if token in self.eos or left == 1:
                return
            logits = self.forward([token])


class Decoding:
    """The generation of one answer, with counts of cached, forced and masked tokens."""

    def __init__(self, model: CachedModel, settings: Settings, matcher: Any | None) -> None:
        self._model = model
        self._sample = model.sampler(settings)
        self._matcher = matcher
        self._logits: Any = None
        self._started = False
        self.cached = 0
        self.forced = 0
        self.masked = 0

    @property
    def complete(self) -> bool:
        """Whether the tokens so far are a sentence of the grammar."""
        return self._matcher is not None and self._matcher.is_accepting() and not self._matcher.is_error()

    def begin(self, prompt: list[int]) -> list[int]:
        """Read the prompt. Return the tokens that the grammar forces at the start."""
        forced = self._next_forced()
        if self._matcher is None or not self._matcher.is_stopped():
            self._logits, self.cached = self._model.begin(prompt, forced)
        return forced

    def tokens(self, most: int) -> Iterator[list[int]]:
        """Yield the tokens that follow in runs, about `most` of them, until the model or the grammar ends."""
        if self._matcher is None:
            yield from ([token] for token in self._model.generate(self._logits, self._sample, most))
            return
        logits = self._logits
        while most > 0 and not self._matcher.is_stopped():
            token = self._choose(logits, self._matcher)
            if token is None:
                return
            self._matcher.consume_token(token)
            self._started = True
            if token in self._model.eos:
                yield [token]
                return
            run = [token, *self._next_forced()]
            most -= len(run)
            if most > 0 and not self._matcher.is_stopped():
                logits = self._model.forward(run)
            yield run

    def _choose(self, logits: Any, matcher: Any) -> int | None:
        """Return the next token; None where the answer is complete and the model's own choice does not fit."""
        token = self._sample(logits, None)
        if matcher.validate_tokens([token]) == 1:
            return token
        if self._started and matcher.is_accepting():
            return None
        self.masked += 1
        return self._sample(logits, matcher.compute_bitmask())

    def _next_forced(self) -> list[int]:
        if self._matcher is None:
            return []
        forced: list[int] = self._matcher.compute_ff_tokens()
        if forced:
            self._matcher.consume_tokens(forced)
            self.forced += len(forced)
            self._started = True
        return forced
