"""TwoStepAdapter: the main model answers in its own words, an extraction model makes typed values of them.

For models that think better than they fill in forms. The extraction model can be small: it only reads.
"""

from __future__ import annotations

import copy
import threading
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from dspy.adapters.types import ToolCalls
from dspy.dsp.utils.settings import settings as dspy_settings
from dspy.predict.predict import Predict
from dspy.primitives.module import Module
from dspy.signatures.signature import ensure_signature
from dspy.utils.exceptions import AdapterParseError

from ... import settings
from ...extraction import MaxRetriesExceeded, Reply
from ...models.middleware import paced
from ..call_log import Recording, recording
from ..output_spec import NoTarget, target_of_signature
from ..repair_loop import DEFAULT_ATTEMPTS, ask_again, finish, over_messages
from ..tiers import check_fields, put
from .errors import TwoStepError
from .extractors import (
    Kept,
    Pairs,
    check_types,
    default_adapter,
    examples,
    extractor_signature,
    kept_for,
    outputs_of,
    serving,
    without,
)
from .prompt import Words, WordsAdapter

__all__ = ["TwoStep", "TwoStepAdapter", "TwoStepError"]

_keeping = threading.Lock()
_OVERRIDES = ("two_step_extraction_lm", "two_step_extraction_adapter", "two_step_extraction_request_defaults")


@dataclass(frozen=True, slots=True)
class _Extraction:
    """What the second step is made with."""

    lm: Any
    adapter: Any
    request: Mapping[str, Any]


class TwoStepAdapter(WordsAdapter):
    """A free answer first, then typed values out of it.

    What is not given here is what `rlm.configure(two_step_extraction_...)` says. For one predictor it can be given
    there: `dspy.Predict(signature, two_step_extraction_lm=...)`.
    """

    records_calls = True
    own_words = True
    """A thought and a code block are a model's own words already: no second model copies code for it."""

    def __init__(
        self,
        extraction_lm: Any = None,
        *,
        extraction_adapter: Any = None,
        request_defaults: Mapping[str, Any] | None = None,
        max_attempts: int = DEFAULT_ATTEMPTS,
        callbacks: list[Any] | None = None,
        use_native_function_calling: bool = False,
        native_response_types: list[Any] | None = None,
        parallel_tool_calls: bool | None = None,
    ) -> None:
        super().__init__(
            callbacks=callbacks,
            use_native_function_calling=use_native_function_calling,
            native_response_types=native_response_types,
            parallel_tool_calls=parallel_tool_calls,
        )
        self.extraction_lm = extraction_lm
        self.extraction_adapter = extraction_adapter
        self.request_defaults = request_defaults
        self.max_attempts = max_attempts
        self._extractors: Kept = ()
        self._pairs: Pairs = ()

    def __call__(
        self, lm: Any, lm_kwargs: dict[str, Any], signature: Any, demos: list[Any], inputs: dict[str, Any]
    ) -> list[dict[str, Any]]:
        """The outputs, extracted from what `lm` answers. Raises `TwoStepError`."""
        return finish(self._answer(lm, lm_kwargs, signature, demos, inputs, asynchronous=False))

    async def acall(
        self, lm: Any, lm_kwargs: dict[str, Any], signature: Any, demos: list[Any], inputs: dict[str, Any]
    ) -> list[dict[str, Any]]:
        """As `__call__`, without stalling the event loop."""
        return await self._answer(lm, lm_kwargs, signature, demos, inputs, asynchronous=True)

    def parse(self, signature: Any, completion: str) -> dict[str, Any]:
        """The second step alone: the outputs in a text that is there already. Raises `TwoStepError`."""
        return finish(self._extract(self._extraction({}), signature, completion, [], asynchronous=False))

    # The extractor -----------------------------------------------------------------------------------------------

    def extractor_for(self, signature: Any) -> Any:
        """The predictor of the second step, `text -> <outputs>`, kept for all signatures with the same outputs.

        A module that keeps it as an attribute lets optimizers find it. `TwoStep` has one for each predictor instead.
        """
        signature = ensure_signature(signature)
        with _keeping:
            found = kept_for(signature, self._extractors)
            if found is None:
                found = Predict(extractor_signature(signature))
                self._extractors = (*self._extractors, (outputs_of(signature), found))
            return found

    def with_extractors(self, pairs: Iterable[tuple[Any, Any]]) -> TwoStepAdapter:
        """The same adapter where each of these predictors has an extractor of its own."""
        made = copy.copy(self)
        made._pairs = (*pairs, *self._pairs)
        return made

    def _extractor(self, signature: Any) -> Any:
        return serving(signature, self._pairs, self._extractors)

    def __deepcopy__(self, memo: dict[int, Any]) -> TwoStepAdapter:
        # Models are shared: a copy of a program must not copy weights.
        made = copy.copy(self)
        made._extractors = tuple((outputs, copy.deepcopy(one, memo)) for outputs, one in self._extractors)
        made._pairs = copy.deepcopy(self._pairs, memo)
        return made

    # The two steps -----------------------------------------------------------------------------------------------

    async def _answer(
        self, lm: Any, lm_kwargs: Mapping[str, Any], signature: Any, demos: Any, inputs: Any, *, asynchronous: bool
    ) -> list[dict[str, Any]]:
        keywords = {name: value for name, value in lm_kwargs.items() if name not in _OVERRIDES}
        extraction = self._extraction(lm_kwargs)
        self._need_lm(extraction, signature)  # before the main model is paid for
        with recording("answer", lm):
            answers = await put(self._words(), asynchronous, lm, keywords, signature, demos, inputs)
        made = []
        for answer in answers:
            given = self._native(signature, answer)
            wanted = without(signature, given)
            said = next((value for value in answer.values() if isinstance(value, Words)), None)
            if wanted is not None and said:
                given = {**await self._extract(extraction, wanted, said, demos, asynchronous=asynchronous), **given}
            made.append({**dict.fromkeys(signature.output_fields), **given})
        return made

    async def _extract(
        self, extraction: _Extraction, signature: Any, said: str, demos: list[Any], *, asynchronous: bool
    ) -> dict[str, Any]:
        predictor = self._extractor(signature)
        lm = self._need_lm(extraction, signature)
        lm = paced(lm) if asynchronous else lm
        (given,) = predictor.signature.input_fields
        about = {
            given: said,
            "lm": lm,
            "config": {**extraction.request, **predictor.config},
            "demos": predictor.demos or examples(given, signature, demos),
        }
        record, adapter = Recording(), extraction.adapter or default_adapter(lm, signature)
        try:
            # What a listener gets is the main model's words, not these.
            with (
                recording("extraction", lm, record, by=adapter),
                dspy_settings.context(adapter=adapter, send_stream=None),
            ):
                found = await predictor.acall(**about) if asynchronous else predictor(**about)
            values = {name: found.get(name) for name in signature.output_fields}
            if record.truncated:
                raise AdapterParseError("TwoStepAdapter", signature, record.text, "the answer was cut off")
            check_types(signature, values, record.text)
            check_fields(signature, values, record.text)
            return values
        except AdapterParseError as error:
            refused = Reply(record.text or error.lm_response, record.truncated)
            return await self._again(lm, extraction, signature, record, refused, error, asynchronous)

    async def _again(
        self,
        lm: Any,
        extraction: _Extraction,
        signature: Any,
        record: Recording,
        refused: Reply,
        error: AdapterParseError,
        asynchronous: bool,
    ) -> dict[str, Any]:
        """The retry loop, from the answer that could not be used."""
        try:
            target = target_of_signature(signature)
        except NoTarget:
            raise TwoStepError("extraction_parse_failed", _line(error)) from error
        messages = record.calls[-1].messages if record.calls else [{"role": "user", "content": error.lm_response}]
        ask, prompt = over_messages(lm, messages, extraction.request, asynchronous=asynchronous)
        try:
            values, _ = await ask_again(target, ask, prompt, first=refused, max_attempts=self.max_attempts)
        except MaxRetriesExceeded as spent:
            last = spent.history[-1]
            read = last.failure in ("schema", "callback")
            reason = f"{spent}; {'; '.join(str(one) for one in last.problems[:5])}".rstrip("; ")
            raise TwoStepError("extraction_validation_failed" if read else "extraction_parse_failed", reason) from spent
        return dict(values)

    # What it is made with ----------------------------------------------------------------------------------------

    def _extraction(self, lm_kwargs: Mapping[str, Any]) -> _Extraction:
        """The predictor's own settings first, then this adapter's, then what is configured."""
        configured = settings.current()
        own = (self.extraction_lm, self.extraction_adapter, self.request_defaults)
        chosen = []
        for name, mine in zip(_OVERRIDES, own, strict=True):
            given = lm_kwargs.get(name)
            chosen.append(given if given is not None else mine if mine is not None else getattr(configured, name))
        return _Extraction(*chosen)

    def _need_lm(self, extraction: _Extraction, signature: Any) -> Any:
        lm = extraction.lm if extraction.lm is not None else self._extractor(signature).lm
        if lm is None:
            raise TwoStepError("extraction_lm_not_configured")
        if isinstance(lm, str):
            raise TypeError(f"two_step_extraction_lm is a model, such as dspy.LM({lm!r}), not the name of one")
        return lm

    def _words(self) -> WordsAdapter:
        return WordsAdapter(
            callbacks=self.callbacks,
            use_native_function_calling=self.use_native_function_calling,
            native_response_types=self.native_response_types,
            parallel_tool_calls=self.parallel_tool_calls,
        )

    def _native(self, signature: Any, answer: Mapping[str, Any]) -> dict[str, Any]:
        """What the model's server gave apart from words: tool calls, its own reasoning, log probabilities."""
        kinds = (ToolCalls, *self.native_response_types)
        names = [name for name, field in signature.output_fields.items() if field.annotation in kinds]
        given = {name: answer.get(name) for name in (*names, "logprobs")}
        return {name: value for name, value in given.items() if value is not None and not isinstance(value, Words)}


class TwoStep(Module):  # type: ignore[misc]
    """A program whose predictors answer in two steps. `named_predictors()` finds theirs and the extractors."""

    def __init__(self, program: Any, adapter: TwoStepAdapter | None = None) -> None:
        """`program` is a module, or a signature for a `dspy.Predict`."""
        super().__init__()
        self.program = program if isinstance(program, Module) else Predict(program)
        self.adapter = adapter or TwoStepAdapter()
        inner = {name: one.signature for name, one in self.program.named_predictors()}
        self.extractors = {name: Predict(extractor_signature(one)) for name, one in inner.items()}

    def forward(self, **inputs: Any) -> Any:
        """What the program gives."""
        with dspy_settings.context(adapter=self._paired()):
            return self.program(**inputs)

    async def aforward(self, **inputs: Any) -> Any:
        """As `forward`, asynchronously."""
        with dspy_settings.context(adapter=self._paired()):
            return await self.program.acall(**inputs)

    def _paired(self) -> TwoStepAdapter:
        # By name and at each call: optimizers put other predictors and extractors in the place of these.
        inner = self.program.named_predictors()
        return self.adapter.with_extractors(
            (one, self.extractors[name]) for name, one in inner if name in self.extractors
        )


def _line(error: AdapterParseError) -> str:
    return str(error.message).strip().partition("\n")[0]
