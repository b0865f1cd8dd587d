"""`OutlinesLM`: a dspy language model in this process, whose answers can be constrained to any type."""

from __future__ import annotations

import copy
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal

import dspy
from dspy.lm15 import Request

from ...dspy_bridge import LM_CLASS_STATE_KEY, engines_of
from ..profile import ModelProfile
from .backend_choice import BackendName
from .constraints import constraint_of
from .embedded import embedded_gguf
from .engine import AsyncLocalEngine, LocalEngine
from .load import Progress, load
from .model_files import weights_size
from .outlines_api import DEFAULT_MAX_TOKENS
from .types import Settings

SMALL = 4_500_000_000
"""Bytes of weights: a model with fewer is small. Seven billion parameters of four bits have about so many."""


class OutlinesLM(dspy.LM):  # type: ignore[misc]
    """A local model for dspy. `lm.model` is the Outlines model over the same weights, callable with any output type.

    `model` is a GGUF file, a folder with MLX weights, or None for the embedded model. A call takes
    `_outlines_constraint=<type>` or a `response_format`.
    """

    def __init__(
        self,
        model: str | Path | None = None,
        *,
        backend: BackendName | Literal["auto"] = "auto",
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
        weights = embedded_gguf() if model is None else Path(model).expanduser()
        self.profile = ModelProfile(
            constrains=True,
            local=self.local,
            engine=AsyncLocalEngine(engine),
            small=weights_size(weights) < SMALL,
            context_window=self.local.context,
        )
        self._source = None if model is None else str(model)
        self._choice = {"backend": backend, "context": context, "parallel": parallel, "threads": threads}

    def __call__(self, prompt: Any = None, *, messages: Any = None, **options: Any) -> Any:
        """Call the model. `_outlines_constraint` is a type that the answer must have."""
        prompt, options = _constrained(prompt, options)
        return super().__call__(prompt, messages=messages, **options)

    async def acall(self, prompt: Any = None, *, messages: Any = None, **options: Any) -> Any:
        """Call the model without blocking the event loop."""
        prompt, options = _constrained(prompt, options)
        return await super().acall(prompt, messages=messages, **options)

    def __deepcopy__(self, memo: dict[int, Any]) -> OutlinesLM:
        """Copy the settings and the history, as dspy does with its models; the weights are shared."""
        shared = (self.local, *engines_of(self))
        memo.update({id(part): part for part in shared})
        copied = memo[id(self)] = type(self).__new__(type(self))
        copied.__setstate__(copy.deepcopy(self.__getstate__(), memo))
        return copied

    def dump_state(self) -> dict[str, Any]:
        """Return what is needed to create this model again: its path and its settings, not the weights."""
        cls = type(self)
        return {
            LM_CLASS_STATE_KEY: f"{cls.__module__}.{cls.__qualname__}",
            "model": self._source,
            "cache": self.cache,
            **self._choice,
            **self.kwargs,
        }

    @classmethod
    def load_state(cls, state: dict[str, Any], *, allow_custom_lm_class: bool = False) -> OutlinesLM:
        """Create the model of a saved state. dspy has asked whether custom classes are trusted."""
        return cls(**{name: value for name, value in state.items() if name != LM_CLASS_STATE_KEY})


def _constrained(prompt: Any, options: dict[str, Any]) -> tuple[Any, dict[str, Any]]:
    """Replace the constraint by a response format, which dspy passes to the engine, its cache key and its history."""
    if "_outlines_constraint" not in options:
        return prompt, options
    options = dict(options)
    output_type = options.pop("_outlines_constraint")
    if output_type is None:
        return prompt, options
    response_format = constraint_of(output_type).response_format()
    if isinstance(prompt, Request):
        return replace(prompt, config=replace(prompt.config, response_format=response_format)), options
    schema = {key: value for key, value in response_format.items() if key != "type"}
    return prompt, {**options, "response_format": {"type": "json_schema", "json_schema": schema}}
