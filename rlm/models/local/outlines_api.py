"""Calling a local model the way Outlines' models are called: a prompt, an output type, text back."""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable, Generator, Iterator
from concurrent.futures import Future
from dataclasses import fields
from typing import Any

from .constraint_check import checked
from .constraints import Constraint, constraint_of
from .types import Generated, LocalModel, Say, Settings, Turns

DEFAULT_MAX_TOKENS = 1000
_OPTIONS = tuple(one.name for one in fields(Settings))


class NamedModel(str):
    """A model's name that can be called as Outlines' models are. dspy reads `lm.model` as a text, users call it.

    Copies share the model; what is pickled is the name.
    """

    local: LocalModel

    def __new__(cls, model: LocalModel, *_: Any) -> Any:
        """The name is the text; the model is behind it."""
        named = super().__new__(cls, model.name)
        named.local = model
        return named

    def __init__(self, model: LocalModel) -> None:
        """Nothing more to set."""

    def __call__(self, model_input: Any, output_type: Any = None, backend: str | None = None, **options: Any) -> Any:
        """The text that the model answers with. Raises `ConstraintViolated` when a typed answer was cut off."""
        self._refuse(backend)
        return ask_directly(self.local, model_input, output_type, options)

    def stream(
        self, model_input: Any, output_type: Any = None, backend: str | None = None, **options: Any
    ) -> Iterator[Any]:
        """The same, piece by piece."""
        self._refuse(backend)
        return stream_directly(self.local, model_input, output_type, options)

    def _refuse(self, backend: str | None) -> None:
        if backend is not None:
            raise ValueError(f"Outlines has no model for {self}, so backend={backend!r} cannot be used: leave it out")

    def __copy__(self) -> Any:
        return self

    def __deepcopy__(self, _: Any) -> Any:
        return self

    def __reduce__(self) -> Any:
        return str, (str(self),)


def ask_directly(model: LocalModel, model_input: Any, output_type: Any, options: dict[str, Any]) -> str:
    """The text that `model` answers with, inside `output_type`. Raises `ConstraintViolated` when it was cut off."""
    constraint = _constraint(output_type)
    generated = model.submit(_turns(model_input), _settings(options), constraint).result()
    return checked(generated, constraint, cut_is_error=True).text


def stream_directly(model: LocalModel, model_input: Any, output_type: Any, options: dict[str, Any]) -> Iterator[str]:
    """The same, piece by piece."""
    constraint, turns, settings = _constraint(output_type), _turns(model_input), _settings(options)
    generated = yield from pieces(lambda say: model.submit(turns, settings, constraint, say))
    checked(generated, constraint, cut_is_error=True)


def pieces(submit: Callable[[Say], Future[Generated]]) -> Generator[str, None, Generated]:
    """The pieces of text as the model writes them; returns the whole. Closed early, it stops the model."""
    said: queue.SimpleQueue[str | None] = queue.SimpleQueue()
    wanted = threading.Event()
    wanted.set()

    def say(text: str) -> bool:
        said.put(text)
        return wanted.is_set()

    future = submit(say)
    future.add_done_callback(lambda _: said.put(None))
    try:
        while (text := said.get()) is not None:
            yield text
        return future.result()
    finally:
        wanted.clear()
        future.cancel()


def _constraint(output_type: Any) -> Constraint | None:
    return None if output_type is None else constraint_of(output_type)


def _turns(model_input: Any) -> Turns:
    messages = getattr(model_input, "messages", None)
    if messages is None:
        return (("user", str(model_input)),)
    return tuple((message["role"], message["content"]) for message in messages)


def _settings(options: dict[str, Any]) -> Settings:
    if unknown := options.keys() - _OPTIONS:
        raise TypeError(f"{', '.join(sorted(unknown))}: no option of a local model; it takes {', '.join(_OPTIONS)}")
    stop = options.get("stop") or ()
    settings = {"max_tokens": DEFAULT_MAX_TOKENS, **options, "stop": (stop,) if isinstance(stop, str) else tuple(stop)}
    return Settings(**settings)
