"""A model whose tokens are generated here: from the prompt to tokens, through the decode loop, and back to text."""

from __future__ import annotations

import time
from collections.abc import Callable
from concurrent.futures import Future
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import Any, Literal, Protocol, TypeVar

from .constraints import Constraint
from .decoding import CachedModel, Decoding
from .grammar import Grammars
from .limits import check_context, check_penalties, room_for
from .stop_sequences import StopSequences
from .types import Generated, OnText, Settings, Timings, Turns
from .worker import Worker

T = TypeVar("T")


class Tokenizer(Protocol):
    """A tokenizer, as far as it is used here."""

    def encode(self, turns: Turns | str) -> list[int]:
        """Return the tokens of a conversation, up to the beginning of the answer, or of a plain text."""

    def decoder(self) -> Callable[[int], str]:
        """Return a function that is called with one token after the other, and returns the text that each adds."""


@dataclass(frozen=True, slots=True)
class LoadedModel:
    """The parts of a model that a backend loads."""

    model: CachedModel
    tokenizer: Tokenizer
    grammars: Grammars
    context: int
    outlines: Any


class TokenModel:
    """One set of weights with one cache. It generates one answer at a time, in a thread of its own."""

    has_penalties = False

    def __init__(
        self,
        name: str,
        backend: str,
        load: Callable[[TokenModel], LoadedModel],
        limited_threads: Callable[[], AbstractContextManager[Any]] = nullcontext,
    ) -> None:
        self.name = name
        self.backend = backend
        self._limited_threads = limited_threads
        self._worker = Worker(name)
        self._loaded = self._worker.run(lambda: load(self))
        self.context = self._loaded.context
        self.outlines = self._loaded.outlines

    def submit(
        self,
        turns: Turns | str,
        settings: Settings,
        constraint: Constraint | None = None,
        on_text: OnText | None = None,
    ) -> Future[Generated]:
        """Generate one answer in the model's own thread."""
        check_penalties(settings, self.name)
        return self._worker.submit(lambda queued: self._generate(queued, turns, settings, constraint, on_text))

    def run_in_thread(self, work: Callable[[], T]) -> T:
        """Run `work` in the model's thread: the objects of a backend may belong to the thread that created them."""

        def limited() -> T:
            with self._limited_threads():
                return work()

        return self._worker.run(limited)

    def close(self) -> None:
        """Release the weights."""
        self._worker.close()

    def _generate(
        self,
        queued: float,
        turns: Turns | str,
        settings: Settings,
        constraint: Constraint | None,
        on_text: OnText | None,
    ) -> Generated:
        began = time.perf_counter()
        loaded = self._loaded
        prompt = loaded.tokenizer.encode(turns)
        check_context(len(prompt), self.context, self.name)
        matcher = loaded.grammars.matcher(constraint) if constraint else None
        decoding = Decoding(loaded.model, settings, matcher)
        output = TextOutput(loaded.tokenizer.decoder(), loaded.model.eos, () if constraint else settings.stop, on_text)
        most = room_for(settings.max_tokens, len(prompt), self.context)
        compiled = time.perf_counter()
        with self._limited_threads():
            output.add(decoding.begin(prompt)[:most])
            started = time.perf_counter()
            for run in decoding.tokens(most - output.tokens):
                output.add(run[: most - output.tokens])
                if output.ended:
                    break
        output.end()
        finished = time.perf_counter()
        return Generated(
            text=output.text,
            finish=_finish(output, decoding.complete if constraint else output.ended),
            prompt_tokens=len(prompt),
            output_tokens=output.tokens,
            cached_tokens=decoding.cached,
            forced_tokens=decoding.forced,
            masked_tokens=decoding.masked,
            timings=Timings(queued, compiled - began, started - compiled, finished - started),
        )


class TextOutput:
    """The text of the tokens so far, up to a stop sequence or to the token that ends a text."""

    def __init__(
        self, decode: Callable[[int], str], eos: frozenset[int], stop: tuple[str, ...], on_text: OnText | None
    ) -> None:
        self._decode = decode
        self._eos = eos
        self._stop = StopSequences(stop)
        self._on_text = on_text
        self.tokens = 0
        self.ended = False
        self.cancelled = False

    @property
    def text(self) -> str:
        """The whole text."""
        return self._stop.text

    def add(self, run: list[int]) -> None:
        """Add a run of tokens."""
        for token in run:
            self.tokens += 1
            if token in self._eos:
                self.ended = True
                return
            self._emit(self._stop.add(self._decode(token)))
            if self._stop.found:
                self.ended = True
                return

    def end(self) -> None:
        """Emit the withheld text: nothing follows."""
        self._emit(self._stop.end())

    def _emit(self, text: str) -> None:
        if text and self._on_text is not None and not self._on_text(text):
            self.ended = self.cancelled = True


def _finish(output: TextOutput, done: bool) -> Literal["stop", "length", "cancelled"]:
    if output.cancelled:
        return "cancelled"
    return "stop" if done else "length"
