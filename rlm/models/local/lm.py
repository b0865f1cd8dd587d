"""`OutlinesLM`: a dspy language model that runs here, and keeps what it writes inside any type it is given."""

from __future__ import annotations

import copy
from dataclasses import replace
from pathlib import Path
from typing import Any

import dspy
from dspy.clients.base_lm import LM_CLASS_STATE_KEY
from dspy.lm15 import Request

from .constraints import constraint_of
from .engine import AsyncLocalEngine, LocalEngine
from .limits import is_small
from .load import Backend, Progress, embedded, load
from .outlines_api import DEFAULT_MAX_TOKENS
from .types import Settings


class OutlinesLM(dspy.LM):  # type: ignore[misc]
    """A local model for dspy. `lm.model` is the Outlines model over the same weights, callable with any output type.

    `model` is a GGUF file, a folder with MLX weights, or None for the embedded one. A call takes
    `_outlines_constraint=<type>`; a `response_format` goes the same way.
    """

    constrains = True

    def __init__(
        self,
        model: str | Path | None = None,
        *,
        backend: Backend = "auto",
        max_tokens: int = DEFAULT_MAX_TOKENS,
        temperature: float = 0.0,
        context: int | None = None,
        parallel: int = 1,
        threads: int | None = None,
        cache: bool = False,
        progress: Progress | None = None,
        **options: Any,
    ) -> None:
        self.local = load(model, backend, context=context, parallel=parallel, threads=threads, progress=progress)
        engine = LocalEngine(self.local, Settings(max_tokens=max_tokens, temperature=temperature))
        super().__init__(
            self.local.outlines,
            max_tokens=max_tokens,
            temperature=temperature,
            cache=cache,
            num_retries=0,
            engine=engine,
            async_engine=AsyncLocalEngine(engine),
            **options,
        )
        self.own_engine = AsyncLocalEngine(engine)
        self.small = is_small(embedded() if model is None else Path(model).expanduser())
        self._source = None if model is None else str(model)
        self._choice = {"backend": backend, "context": context, "parallel": parallel, "threads": threads}

    def __call__(self, prompt: Any = None, *, messages: Any = None, **options: Any) -> Any:
        """Ask the model. `_outlines_constraint` is a type that the answer must be of."""
        prompt, options = _constrained(prompt, options)
        return super().__call__(prompt, messages=messages, **options)

    async def acall(self, prompt: Any = None, *, messages: Any = None, **options: Any) -> Any:
        """The same, without stalling the event loop."""
        prompt, options = _constrained(prompt, options)
        return await super().acall(prompt, messages=messages, **options)

    def __deepcopy__(self, memo: dict[int, Any]) -> OutlinesLM:
        """As dspy copies its models, settings and history too; the weights are shared."""
        shared = (self.local, self._engine_spec, self._async_engine_spec, self.own_engine)
        memo.update({id(one): one for one in shared})
        made = memo[id(self)] = type(self).__new__(type(self))
        made.__setstate__(copy.deepcopy(self.__getstate__(), memo))
        return made

    def dump_state(self) -> dict[str, Any]:
        """What is needed to make this model again: where it is and how it is asked, not the weights."""
        kind = type(self)
        return {
            LM_CLASS_STATE_KEY: f"{kind.__module__}.{kind.__qualname__}",
            "model": self._source,
            "cache": self.cache,
            **self._choice,
            **self.kwargs,
        }

    @classmethod
    def load_state(cls, state: dict[str, Any], *, allow_custom_lm_class: bool = False) -> OutlinesLM:
        """The model of a saved state. dspy asks whoever loads the file whether custom classes are trusted."""
        return cls(**{name: value for name, value in state.items() if name != LM_CLASS_STATE_KEY})


def _constrained(prompt: Any, options: dict[str, Any]) -> tuple[Any, dict[str, Any]]:
    """The constraint as a response format, which dspy carries to the engine, to its cache key and to its history."""
    if "_outlines_constraint" not in options:
        return prompt, options
    options = dict(options)
    output_type = options.pop("_outlines_constraint")
    if output_type is None:
        return prompt, options
    wanted = constraint_of(output_type).response_format()
    if isinstance(prompt, Request):
        return replace(prompt, config=replace(prompt.config, response_format=wanted)), options
    schema = {key: value for key, value in wanted.items() if key != "type"}
    return prompt, {**options, "response_format": {"type": "json_schema", "json_schema": schema}}
