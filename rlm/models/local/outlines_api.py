"""The calling convention of Outlines' models: a prompt, an output type, text back."""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable, Generator, Iterator
from concurrent.futures import Future
from dataclasses import fields
from typing import Any

from .constraint_check import checked
from .constraints import Constraint, constraint_of
from .types import Generated, LocalModel, OnText, Settings, Turns

DEFAULT_MAX_TOKENS = 1000
_OPTIONS = tuple(field.name for field in fields(Settings))


class NamedModel(str):
    """A model's name that can be called as Outlines' models are: dspy reads `lm.model` as a text, users call it.

    Copies share the model; only the name is pickled.
    """

    local: LocalModel

    def __new__(cls, model: LocalModel, *_: Any) -> Any:
        """Create the name, with the model as its attribute."""
        named = super().__new__(cls, model.name)
        named.local = model
        return named

    def __init__(self, model: LocalModel) -> None:
        """Do nothing: `__new__` has set everything."""

    def __call__(self, model_input: Any, output_type: Any = None, backend: str | None = None, **options: Any) -> Any:
        """Return the text of an answer. Raises `ConstraintViolated` when a typed answer was cut off."""
        self._refuse(backend)
        return generate(self.local, model_input, output_type, options)

    def stream(
        self, model_input: Any, output_type: Any = None, backend: str | None = None, **options: Any
    ) -> Iterator[Any]:
        """Yield the text of an answer in pieces."""
        self._refuse(backend)
        return stream(self.local, model_input, output_type, options)

    def _refuse(self, backend: str | None) -> None:
        if backend is not None:
            raise ValueError(f"Outlines has no model for {self}, so backend={backend!r} cannot be used: leave it out")

    def __copy__(self) -> Any:
        return self

    def __deepcopy__(self, _: Any) -> Any:
        return self

    def __reduce__(self) -> Any:
        return str, (str(self),)


def generate(model: LocalModel, model_input: Any, output_type: Any, options: dict[str, Any]) -> str:
    """Return the text of an answer of `output_type`. Raises `ConstraintViolated` when it was cut off."""
    constraint = _constraint(output_type)
    generated = model.submit(_turns(model_input), _settings(options), constraint).result()
    return checked(generated, constraint, cut_is_error=True).text


def stream(model: LocalModel, model_input: Any, output_type: Any, options: dict[str, Any]) -> Iterator[str]:
    """Yield the text of an answer of `output_type` in pieces. Raises `ConstraintViolated` when it was cut off."""
    constraint, turns, settings = _constraint(output_type), _turns(model_input), _settings(options)
    generated = yield from text_pieces(lambda on_text: model.submit(turns, settings, constraint, on_text))
    checked(generated, constraint, cut_is_error=True)


def text_pieces(submit: Callable[[OnText], Future[Generated]]) -> Generator[str, None, Generated]:
    """Yield pieces of text as the model generates them, and return the answer. Closing it early stops the model."""
    pieces: queue.SimpleQueue[str | None] = queue.SimpleQueue()
    open_ = threading.Event()
    open_.set()

    def on_text(text: str) -> bool:
        pieces.put(text)
        return open_.is_set()

    future = submit(on_text)
    future.add_done_callback(lambda _: pieces.put(None))
    try:
        while (text := pieces.get()) is not None:
            yield text
        return future.result()
    finally:
        open_.clear()
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
