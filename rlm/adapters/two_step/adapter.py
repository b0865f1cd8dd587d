"""TwoStepAdapter: the main model answers in its own words, and an extraction model turns them into typed values.

It is for models that reason better than they fill in forms. The extraction model can be small: it only reads.
"""

from __future__ import annotations

import copy
import threading
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Unpack

from dspy.adapters.types import ToolCalls
from dspy.dsp.utils.settings import settings as dspy_settings
from dspy.predict.predict import Predict
from dspy.primitives.module import Module
from dspy.signatures.signature import ensure_signature
from dspy.utils.exceptions import AdapterParseError

from ... import settings
from ...dspy_bridge import without_streaming
from ...extraction import MaxRetriesExceeded, Reply
from ...extraction.retry import DEFAULT_ATTEMPTS
from ...models.middleware import with_middleware
from ..call_log import Recording, recording
from ..output_spec import NoTarget, target_of_signature
from ..registry import AdapterProfile
from ..repair_loop import repair_messages, run_sync
from ..tiers import AdapterOptions, check_fields, options_of, run_adapter
from .errors import Tag, TwoStepError, TwoStepParseError
from .extractors import (
    Extractors,
    Pairs,
    check_types,
    default_adapter,
    examples,
    extractor_for,
    extractor_signature,
    outputs_of,
    registered,
    without,
)
from .prompt import FreeTextAdapter, Words

__all__ = ["TwoStep", "TwoStepAdapter", "TwoStepError", "TwoStepParseError"]

_lock = threading.Lock()
_OVERRIDES = ("two_step_extraction_lm", "two_step_extraction_adapter", "two_step_extraction_request_defaults")


@dataclass(frozen=True, slots=True)
class _Extraction:
    """The model, the adapter and the request options of the second step."""

    lm: Any
    adapter: Any
    request: Mapping[str, Any]


class TwoStepAdapter(FreeTextAdapter):
    """Free text first, then typed values out of it.

    What is not given here comes from `rlm.configure(two_step_extraction_...)`. One predictor can have its own:
    `dspy.Predict(signature, two_step_extraction_lm=...)`.
    """

    profile = AdapterProfile(records_calls=True, free_text=True)

    def __init__(
        self,
        extraction_lm: Any = None,
        *,
        extraction_model: Any = None,
        extraction_adapter: Any = None,
        request_defaults: Mapping[str, Any] | None = None,
        max_attempts: int = DEFAULT_ATTEMPTS,
        **options: Unpack[AdapterOptions],
    ) -> None:
        """Create the adapter. `max_attempts` is for the retry loop of the second step.

        `extraction_model` is what dspy's adapter calls `extraction_lm`.
        """
        if extraction_lm is not None and extraction_model is not None:
            raise TypeError("extraction_model is another name of extraction_lm: give one of them")
        super().__init__(**options)
        self.extraction_lm = extraction_lm if extraction_model is None else extraction_model
        self.extraction_adapter = extraction_adapter
        self.request_defaults = request_defaults
        self.max_attempts = max_attempts
        self._extractors: Extractors = ()
        self._pairs: Pairs = ()

    def __call__(
        self, lm: Any, lm_kwargs: dict[str, Any], signature: Any, demos: list[Any], inputs: dict[str, Any]
    ) -> list[dict[str, Any]]:
        """Return the outputs, extracted from the answer of `lm`. Raises `TwoStepError`."""
        return run_sync(self._answer(lm, lm_kwargs, signature, demos, inputs, asynchronous=False))

    async def acall(
        self, lm: Any, lm_kwargs: dict[str, Any], signature: Any, demos: list[Any], inputs: dict[str, Any]
    ) -> list[dict[str, Any]]:
        """Return the outputs as `__call__` does, without blocking the event loop."""
        return await self._answer(lm, lm_kwargs, signature, demos, inputs, asynchronous=True)

    def parse(self, signature: Any, completion: str) -> dict[str, Any]:
        """Run the second step alone: return the outputs in a text. Raises `TwoStepError`."""
        return run_sync(self._extract(self._extraction({}), signature, completion, [], asynchronous=False))

    # The extractor -----------------------------------------------------------------------------------------------

    def extractor_for(self, signature: Any) -> Any:
        """Return the predictor of the second step, `text -> <outputs>`, the same for all signatures with these outputs.

        Optimizers find it if a module keeps it as an attribute. `TwoStep` has one for each predictor instead.
        """
        signature = ensure_signature(signature)
        with _lock:
            extractor = registered(signature, self._extractors)
            if extractor is None:
                extractor = Predict(extractor_signature(signature))
                self._extractors = (*self._extractors, (outputs_of(signature), extractor))
            return extractor

    def with_extractors(self, pairs: Iterable[tuple[Any, Any]]) -> TwoStepAdapter:
        """Return an adapter like this one, where each of these predictors has its own extractor."""
        adapter = copy.copy(self)
        adapter._pairs = (*pairs, *self._pairs)
        return adapter

    def _extractor(self, signature: Any) -> Any:
        return extractor_for(signature, self._pairs, self._extractors)

    def __deepcopy__(self, memo: dict[int, Any]) -> TwoStepAdapter:
        # Models are shared: a copy of a program must not copy weights.
        adapter = copy.copy(self)
        adapter._extractors = tuple(
            (outputs, copy.deepcopy(extractor, memo)) for outputs, extractor in self._extractors
        )
        adapter._pairs = copy.deepcopy(self._pairs, memo)
        return adapter

    # The two steps -----------------------------------------------------------------------------------------------

    async def _answer(
        self, lm: Any, lm_kwargs: Mapping[str, Any], signature: Any, demos: Any, inputs: Any, *, asynchronous: bool
    ) -> list[dict[str, Any]]:
        keywords = {name: value for name, value in lm_kwargs.items() if name not in _OVERRIDES}
        extraction = self._extraction(lm_kwargs)
        self._extraction_lm(extraction, signature)  # raises before the main model is paid for
        adapter = FreeTextAdapter(**options_of(self))
        with recording("answer", lm):
            answers = await run_adapter(adapter, asynchronous, lm, keywords, signature, demos, inputs)
        results = []
        for answer in answers:
            outputs = self._native(signature, answer)
            remaining = without(signature, outputs)
            words = next((value for value in answer.values() if isinstance(value, Words)), None)
            if remaining is not None and words:
                try:
                    extracted = await self._extract(extraction, remaining, words, demos, asynchronous=asynchronous)
                except TwoStepParseError as error:
                    error.signature = signature  # optimizers look for the predictor that has it
                    raise
                outputs = {**extracted, **outputs}
            results.append({**dict.fromkeys(signature.output_fields), **outputs})
        return results

    async def _extract(
        self, extraction: _Extraction, signature: Any, words: str, demos: list[Any], *, asynchronous: bool
    ) -> dict[str, Any]:
        predictor = self._extractor(signature)
        lm = self._extraction_lm(extraction, signature)
        lm = with_middleware(lm) if asynchronous else lm
        (text_field,) = predictor.signature.input_fields
        arguments = {
            text_field: words,
            "lm": lm,
            "config": {**extraction.request, **predictor.config},
            "demos": predictor.demos or examples(text_field, signature, demos),
        }
        record, adapter = Recording(), extraction.adapter or default_adapter(lm, signature)
        try:
            # Listeners get the main model's words, not these.
            with (
                recording("extraction", lm, record, by=adapter),
                without_streaming(adapter=adapter),
            ):
                prediction = await predictor.acall(**arguments) if asynchronous else predictor(**arguments)
            values = {name: prediction.get(name) for name in signature.output_fields}
            if record.truncated:
                raise AdapterParseError("TwoStepAdapter", signature, record.text, "the answer was cut off")
            check_types(signature, values, record.text)
            check_fields(signature, values, record.text)
            return values
        except AdapterParseError as error:
            return await self._repair(lm, extraction, signature, record, error, asynchronous)

    async def _repair(
        self,
        lm: Any,
        extraction: _Extraction,
        signature: Any,
        record: Recording,
        error: AdapterParseError,
        asynchronous: bool,
    ) -> dict[str, Any]:
        """Run the retry loop, from the answer that was refused."""
        try:
            target = target_of_signature(signature)
        except NoTarget:
            reason = _first_line(error)
            raise TwoStepParseError(
                "extraction_parse_failed", reason, signature=signature, lm_response=error.lm_response
            ) from error
        messages = record.calls[-1].messages if record.calls else [{"role": "user", "content": error.lm_response}]
        try:
            return await repair_messages(
                target,
                lm,
                messages,
                extraction.request,
                asynchronous=asynchronous,
                first=Reply(record.text or error.lm_response, record.truncated),
                max_attempts=self.max_attempts,
            )
        except MaxRetriesExceeded as spent:
            last = spent.history[-1]
            parsed = last.failure in ("schema", "callback")
            reason = f"{spent}; {'; '.join(map(str, last.problems[:5]))}".rstrip("; ")
            tag: Tag = "extraction_validation_failed" if parsed else "extraction_parse_failed"
            raise TwoStepParseError(tag, reason, signature=signature, lm_response=spent.raw_output) from spent

    # Settings ----------------------------------------------------------------------------------------------------

    def _extraction(self, lm_kwargs: Mapping[str, Any]) -> _Extraction:
        """Return the predictor's own settings, else this adapter's, else the configured ones."""
        configured = settings.current()
        own = (self.extraction_lm, self.extraction_adapter, self.request_defaults)
        chosen = []
        for name, setting in zip(_OVERRIDES, own, strict=True):
            override = lm_kwargs.get(name)
            setting = override if override is not None else setting
            chosen.append(setting if setting is not None else getattr(configured, name))
        return _Extraction(*chosen)

    def _extraction_lm(self, extraction: _Extraction, signature: Any) -> Any:
        lm = extraction.lm if extraction.lm is not None else self._extractor(signature).lm
        if lm is None:
            raise TwoStepError("extraction_lm_not_configured")
        if isinstance(lm, str):
            raise TypeError(f"two_step_extraction_lm is a model, such as dspy.LM({lm!r}), not the name of one")
        return lm

    def _native(self, signature: Any, answer: Mapping[str, Any]) -> dict[str, Any]:
        """Return what the server returned beside the text: tool calls, its own reasoning, log probabilities."""
        types = (ToolCalls, *self.native_response_types)
        names = [name for name, field in signature.output_fields.items() if field.annotation in types]
        values = {name: answer.get(name) for name in (*names, "logprobs")}
        return {name: value for name, value in values.items() if value is not None and not isinstance(value, Words)}


class TwoStep(Module):  # type: ignore[misc]
    """A program whose predictors answer in two steps. `named_predictors()` finds theirs and the extractors."""

    def __init__(self, program: Any, adapter: TwoStepAdapter | None = None) -> None:
        """Wrap a program: a module, or a signature for a `dspy.Predict`."""
        super().__init__()
        self.program = program if isinstance(program, Module) else Predict(program)
        self.adapter = adapter or TwoStepAdapter()
        signatures = {name: predictor.signature for name, predictor in self.program.named_predictors()}
        self.extractors = {name: Predict(extractor_signature(signature)) for name, signature in signatures.items()}

    def forward(self, **inputs: Any) -> Any:
        """Return the program's prediction."""
        with dspy_settings.context(adapter=self._paired()):
            return self.program(**inputs)

    async def aforward(self, **inputs: Any) -> Any:
        """Return the program's prediction, asynchronously."""
        with dspy_settings.context(adapter=self._paired()):
            return await self.program.acall(**inputs)

    def _paired(self) -> TwoStepAdapter:
        # Pair by name and at each call: optimizers replace predictors and extractors.
        predictors = self.program.named_predictors()
        return self.adapter.with_extractors(
            (predictor, self.extractors[name]) for name, predictor in predictors if name in self.extractors
        )


def _first_line(error: AdapterParseError) -> str:
    return str(error.message).strip().partition("\n")[0]
