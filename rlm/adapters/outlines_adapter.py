"""OutlinesAdapter: three ways to a typed answer, each tried where the one before gave nothing that can be parsed.

1. Chat markers, as in dspy's ChatAdapter: a model that can write them loses nothing.
2. JSON that the prompt asks for.
3. JSON or a choice that the model is constrained to: token by token in this process, by the structured output of a
   server elsewhere, and by the retry loop where there is neither.

Only an answer that cannot be parsed starts the next tier. A prompt that is too long, a network failure and a wrong key
are the same for all tiers, and text that was streamed to a listener cannot be taken back.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Mapping, Sequence
from typing import Any, Unpack

from dspy.adapters.chat_adapter import ChatAdapter
from dspy.utils.exceptions import AdapterParseError

from ..dspy_bridge import StreamProgress, adapter_fallback_scope
from ..extraction import MaxRetriesExceeded, Reply
from ..extraction.retry import DEFAULT_ATTEMPTS
from ..models.profile import name_of, profile_of, settings_of
from .call_log import Recording, recording
from .metrics import TierCounts, TierMetrics
from .output_spec import NoTarget, label_of, target_of_signature
from .registry import AdapterProfile
from .repair_loop import repair_messages, run_sync
from .structured_output import StructuredTier, Way
from .tiers import AdapterOptions, BriefTier, ConstrainedTier, JsonTier, check_fields, parse_error, run_adapter
from .typed_query import CUT_OFF, TypedQuestion

logger = logging.getLogger(__name__)

Outputs = list[dict[str, Any]]

_MARKER = re.compile(r"\[\[ ## (\w+) ## \]\]")
_IN_ORDER, _CONSTRAINED_FIRST = (1, 2, 3), (3, 1, 2)
_LEAST_TRIES = 5  # of a tier, before its failures count
_RETRY_EVERY = 20  # questions, after which a tier that was left out is tried again: the model may have changed


class OutlinesAdapter(ChatAdapter):  # type: ignore[misc]
    """Chat markers, then JSON, then constrained; `metrics` counts which of them answered."""

    profile = AdapterProfile(records_calls=True)

    def __init__(
        self,
        *,
        tiers: Sequence[int] | None = None,
        use_json_adapter_fallback: bool = True,
        learn: bool = False,
        choices_as_json: bool = False,
        max_attempts: int = DEFAULT_ATTEMPTS,
        **options: Unpack[AdapterOptions],
    ) -> None:
        """Create the adapter.

        `tiers` are the tiers to use, in order; the default is all of them. `use_json_adapter_fallback=False`, as dspy's
        `ChatAdapter` has it, uses the first one only. `learn` begins with a lower tier where a
        signature mostly fails on a model. A small local model begins with tier 3, unless `tiers` are given: constraints
        cost it little, and chat markers are often beyond it. Tiers 1 and 2 come after, for what has no constraint.

        `max_attempts` is for the retry loop, where tier 3 is one. `choices_as_json` constrains a local model to JSON
        around a single choice, too: it costs a few tokens, and some models choose better so where tier 3 comes last.
        """
        if tiers is not None and (not tiers or list(tiers) != sorted(set(tiers)) or not set(tiers) <= {1, 2, 3}):
            raise ValueError(f"tiers are some of 1, 2 and 3, in this order, not {tiers!r}")
        if tiers is None and not use_json_adapter_fallback:
            tiers = (1,)
        super().__init__(use_json_adapter_fallback=False, **options)
        self.tiers = None if tiers is None else tuple(tiers)
        self.learn = learn
        self.choices_as_json = choices_as_json
        self.max_attempts = max_attempts
        self.metrics = TierMetrics()

    def __call__(
        self, lm: Any, lm_kwargs: dict[str, Any], signature: Any, demos: list[Any], inputs: dict[str, Any]
    ) -> Outputs:
        """Return the outputs of the first tier whose answer can be parsed. Raises `AdapterParseError` if none can."""
        return run_sync(self._answer(lm, lm_kwargs, signature, demos, inputs, asynchronous=False))

    async def acall(
        self, lm: Any, lm_kwargs: dict[str, Any], signature: Any, demos: list[Any], inputs: dict[str, Any]
    ) -> Outputs:
        """Return the outputs as `__call__` does, without blocking the event loop."""
        return await self._answer(lm, lm_kwargs, signature, demos, inputs, asynchronous=True)

    def parse(self, signature: Any, completion: str) -> Any:
        """Return the outputs in an answer with chat markers; one marker at least, also where fields are optional."""
        if not any(name == "completed" or name in signature.output_fields for name in _MARKER.findall(completion)):
            raise parse_error(signature, completion, "none of the fields is in the answer")
        return super().parse(signature, completion)

    async def chat(self, asynchronous: bool, lm: Any, lm_kwargs: Mapping[str, Any], *about: Any) -> Outputs:
        """Return the outputs of an answer with chat markers, as dspy's adapter does."""
        keywords = dict(lm_kwargs)
        if asynchronous:
            return list(await super().acall(lm, keywords, *about))
        return list(super().__call__(lm, keywords, *about))

    async def _answer(
        self, lm: Any, lm_kwargs: Mapping[str, Any], signature: Any, demos: Any, inputs: Any, *, asynchronous: bool
    ) -> Outputs:
        label, model = label_of(signature), name_of(lm)
        failures: dict[int, AdapterParseError] = {}
        refused: Reply | None = None
        with adapter_fallback_scope() as progress:
            for tier in self._plan(lm, label, model):
                question = _Question(self, lm, lm_kwargs, (signature, demos, inputs), asynchronous, progress)
                try:
                    outputs = await question.ask(tier, refused, first=not failures)
                except NoTarget:
                    self.metrics.record_skip(label, model)
                    continue
                except AdapterParseError as error:
                    self._count(label, model, tier, question.record, success=False)
                    failures[tier] = error
                    if progress.emitted:
                        break
                    refused = Reply(error.lm_response, question.record.truncated) if tier == 2 else None
                else:
                    self._count(label, model, tier, question.record, success=True)
                    return outputs
        self.metrics.record_unanswered(label, model)
        raise _unanswered(signature, failures)

    def _plan(self, lm: Any, label: str, model: str) -> tuple[int, ...]:
        """Return the tiers to try, in order."""
        tiers = self.tiers
        if tiers is None:
            tiers = _CONSTRAINED_FIRST if profile_of(lm).small else _IN_ORDER
        if self.learn:
            counts = self.metrics.counts(label, model)
            if (counts.answers + counts.unanswered) % _RETRY_EVERY:
                tiers = tuple(tier for tier in tiers[:-1] if not _mostly_fails(counts, tier)) + tiers[-1:]
        if self.learn or tiers[0] > 1:
            self.metrics.record_start(label, model, tiers[0])
        return tiers

    def _count(self, label: str, model: str, tier: int, record: Recording, *, success: bool) -> None:
        used: dict[str, Any] = {"tokens_in": record.tokens_in, "tokens_out": record.tokens_out}
        self.metrics.record(label, model, tier, success=success, seconds=record.seconds, **used)


class _Question(TypedQuestion[Outputs]):
    """One signature with its inputs, for one tier. What cannot be parsed raises `AdapterParseError`."""

    def __init__(
        self,
        adapter: OutlinesAdapter,
        lm: Any,
        lm_kwargs: Mapping[str, Any],
        about: tuple[Any, list[Any], dict[str, Any]],
        asynchronous: bool,
        progress: StreamProgress,
    ) -> None:
        self.lm = lm
        self.record = Recording()
        self._adapter = adapter
        self._lm_kwargs = lm_kwargs
        self._signature = about[0]
        self._about = about
        self._asynchronous = asynchronous
        self._progress = progress
        self._brief = False

    @property
    def emitted(self) -> bool:
        """Whether a part of an answer has been streamed to a listener."""
        return bool(self._progress.emitted)

    @property
    def options(self) -> Mapping[str, Any]:
        """The keywords of the call."""
        return self._lm_kwargs

    async def ask(self, tier: int, refused: Reply | None, *, first: bool) -> Outputs:
        """Return the outputs by one tier. `NoTarget` where tier 3 has no constraint for the signature."""
        if tier == 1:
            return await self._chat()
        if tier == 2:
            return await self._complete("tier2", JsonTier(self._adapter))
        self.target = target_of_signature(self._signature)
        self._brief = first
        self._lm_kwargs = _one_answer(self.lm, self._lm_kwargs, self.target.label)
        return await self.answer(refused)

    async def constrained(self, room: int | None) -> Outputs:
        """Ask a model that can be constrained."""
        from ..models.local.errors import ConstraintViolated

        cls = BriefTier if self._brief else ConstrainedTier
        tier = cls(self._adapter, as_json=self._adapter.choices_as_json, room=room)
        try:
            return await self._complete("tier3", tier)
        except (ConstraintViolated, AdapterParseError) as error:
            reason = CUT_OFF if self.record.truncated else str(getattr(error, "message", error))
            raise self._error(reason) from error

    async def structured(self, way: Way) -> Outputs:
        """Ask for the structured output of a server."""
        return await self._complete("tier3", StructuredTier(self._adapter, way))

    async def repaired(self, refused: Reply | None) -> Outputs:
        """Ask in words, and again with feedback."""
        if refused is not None and not any(name in refused.text for name in self.target.fields):
            refused = None  # nothing in it can be repaired
        messages = JsonTier(self._adapter).format(*self._about)
        try:
            outputs = await repair_messages(
                self.target,
                self.lm,
                messages,
                self._lm_kwargs,
                asynchronous=self._asynchronous,
                record=self.record,
                first=refused,
                max_attempts=self._adapter.max_attempts,
            )
        except MaxRetriesExceeded as error:
            raise parse_error(self._signature, error.raw_output, str(error)) from error
        return [outputs]

    async def after_constrained(self, error: Exception) -> Outputs:
        """Leave it to the next tier."""
        raise error

    async def _chat(self) -> Outputs:
        with recording("tier1", self.lm, self.record):
            answers = await self._adapter.chat(self._asynchronous, self.lm, self._lm_kwargs, *self._about)
        if self.record.truncated and not all(_is_usable(self._signature, text) for text in self.record.texts):
            raise self._error(CUT_OFF)
        for outputs in answers:
            check_fields(self._signature, outputs, self.record.text)
        return answers

    async def _complete(self, step: str, tier: JsonTier) -> Outputs:
        with recording(step, self.lm, self.record):
            answers = await run_adapter(tier, self._asynchronous, self.lm, self._lm_kwargs, *self._about)
        if self.record.truncated:
            raise self._error(CUT_OFF)
        return list(answers)

    def _error(self, reason: str) -> AdapterParseError:
        return parse_error(self._signature, self.record.text, reason)


def _mostly_fails(counts: TierCounts, tier: int) -> bool:
    failures = counts.of(tier, "failures")
    tries = failures + counts.of(tier, "success")
    return bool(tries >= _LEAST_TRIES and failures > tries / 2)


def _is_usable(signature: Any, text: str) -> bool:
    """Return whether an answer in chat markers was cut off after its end, or in the middle of plain text."""
    fields = [name for name in _MARKER.findall(text) if name in signature.output_fields]
    if "[[ ## completed ## ]]" in text or not fields:
        return bool(fields)
    return signature.output_fields[fields[-1]].annotation is str


def _one_answer(lm: Any, lm_kwargs: Mapping[str, Any], label: str) -> dict[str, Any]:
    """Return the keywords for one answer: a constrained model gives the same one again and again."""
    keywords, defaults = dict(lm_kwargs), settings_of(lm)
    count = keywords.get("n") or defaults.get("n") or 1
    if count > 1:
        logger.warning("%s: n=%d answers were requested; tier 3 gives one", label, count)
        keywords["n"] = 1
    return keywords


def _unanswered(signature: Any, failures: Mapping[int, AdapterParseError]) -> AdapterParseError:
    if not failures:
        return parse_error(signature, "", "tier 3 cannot be used for this signature, and no other tier was to be tried")
    reasons = "; ".join(f"tier {tier}: {_reason(error)}" for tier, error in failures.items())
    last = list(failures.values())[-1]
    error = parse_error(signature, last.lm_response, f"No tier gave an answer that can be read. {reasons}.")
    error.__cause__ = last
    return error


def _reason(error: AdapterParseError) -> str:
    return str(error.message).strip().partition("\n")[0].rstrip(". ")
