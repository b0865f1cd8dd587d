"""A model whose tokens are in our hands: prompt into tokens, the decode loop, tokens into text."""

from __future__ import annotations

import time
from collections.abc import Callable
from concurrent.futures import Future
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import Any, Literal, Protocol, TypeVar

from .constraints import Constraint
from .decoding import Decoding, Reader
from .grammar import Grammars
from .limits import check_context, check_penalties, room_for
from .stop_sequences import Stops
from .types import Generated, Say, Settings, Timings, Turns
from .worker import Worker

T = TypeVar("T")


class Tokens(Protocol):
    """A tokenizer, as far as it is needed here."""

    def prompt(self, turns: Turns | str) -> list[int]:
        """The tokens of a conversation, up to where the answer begins, or of a plain text."""

    def writer(self) -> Callable[[int], str]:
        """A function that is given one token after the other, and says what text each adds."""


@dataclass(frozen=True, slots=True)
class Loaded:
    """What a backend loads."""

    reader: Reader
    tokens: Tokens
    grammars: Grammars
    context: int
    outlines: Any


class TokenModel:
    """One set of weights with one cache. One answer at a time, in a thread of its own."""

    penalises = False

    def __init__(
        self,
        name: str,
        backend: str,
        load: Callable[[TokenModel], Loaded],
        calm: Callable[[], AbstractContextManager[Any]] = nullcontext,
    ) -> None:
        self.name = name
        self.backend = backend
        self._calm = calm
        self._worker = Worker(name)
        self._loaded = self._worker.run(lambda: load(self))
        self.context = self._loaded.context
        self.outlines = self._loaded.outlines

    def submit(
        self, turns: Turns | str, settings: Settings, constraint: Constraint | None = None, say: Say | None = None
    ) -> Future[Generated]:
        """One answer, in the model's own thread."""
        check_penalties(settings, self.name)
        return self._worker.submit(lambda queued: self._generate(queued, turns, settings, constraint, say))

    def in_its_thread(self, work: Callable[[], T]) -> T:
        """Run `work()` where the model lives: what a backend makes may belong to the thread that made it."""

        def calmly() -> T:
            with self._calm():
                return work()

        return self._worker.run(calmly)

    def close(self) -> None:
        """Let go of the weights."""
        self._worker.close()

    def _generate(
        self, queued: float, turns: Turns | str, settings: Settings, constraint: Constraint | None, say: Say | None
    ) -> Generated:
        began = time.perf_counter()
        loaded = self._loaded
        prompt = loaded.tokens.prompt(turns)
        check_context(len(prompt), self.context, self.name)
        matcher = loaded.grammars.matcher(constraint) if constraint else None
        decoding = Decoding(loaded.reader, settings, matcher)
        writing = Writing(loaded.tokens.writer(), loaded.reader.eos, () if constraint else settings.stop, say)
        most = room_for(settings.max_tokens, len(prompt), self.context)
        compiled = time.perf_counter()
        with self._calm():
            writing.add(decoding.begin(prompt)[:most])
            started = time.perf_counter()
            for run in decoding.tokens(most - writing.tokens):
                writing.add(run[: most - writing.tokens])
                if writing.ended:
                    break
        writing.end()
        finished = time.perf_counter()
        return Generated(
            text=writing.text,
            finish=_finish(writing, decoding.complete if constraint else writing.ended),
            prompt_tokens=len(prompt),
            output_tokens=writing.tokens,
            cached_tokens=decoding.cached,
            forced_tokens=decoding.forced,
            masked_tokens=decoding.masked,
            timings=Timings(queued, compiled - began, started - compiled, finished - started),
        )


class Writing:
    """The text so far: tokens into pieces, up to a stop sequence or to the token that ends a text."""

    def __init__(
        self, writer: Callable[[int], str], eos: frozenset[int], stop: tuple[str, ...], say: Say | None
    ) -> None:
        self._writer = writer
        self._eos = eos
        self._stops = Stops(stop)
        self._say = say
        self.tokens = 0
        self.ended = False
        self.cancelled = False

    @property
    def text(self) -> str:
        """Everything that was written."""
        return self._stops.text

    def add(self, run: list[int]) -> None:
        """Take in a run of tokens."""
        for token in run:
            self.tokens += 1
            if token in self._eos:
                self.ended = True
                return
            self._pass(self._stops.add(self._writer(token)))
            if self._stops.found:
                self.ended = True
                return

    def end(self) -> None:
        """Nothing follows: what was held back is passed on."""
        self._pass(self._stops.end())

    def _pass(self, text: str) -> None:
        if text and self._say is not None and not self._say(text):
            self.ended = self.cancelled = True


def _finish(writing: Writing, done: bool) -> Literal["stop", "length", "cancelled"]:
    if writing.cancelled:
        return "cancelled"
    return "stop" if done else "length"
