"""OutlinesAdapter: three ways to a typed answer, each tried when the one before gave nothing that can be read.

1. Chat markers, as dspy's ChatAdapter has them: a model that can do it loses nothing.
2. JSON, asked for in words.
3. JSON or a choice that the model is held to: token by token where it runs here, by its server's structured output
   elsewhere, and by the retry loop where there is neither.

Only an answer that cannot be read starts the next tier. A prompt that is too long, a network that is down and a wrong
key are the same for all tiers, and text that a listener has seen cannot be taken back.
"""

from __future__ import annotations

import json
import logging
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from dspy.adapters.chat_adapter import ChatAdapter
from dspy.clients.call_context import StreamProgress, adapter_fallback_scope
from dspy.utils.exceptions import AdapterParseError

from ..extraction import MaxRetriesExceeded, Reply
from ..models.profile import profile_of
from .call_log import Recording, recording
from .metrics import TierCounts, TierMetrics
from .output_spec import NoTarget, label_of, target_of_signature
from .repair_loop import DEFAULT_ATTEMPTS, ask_again, finish, over_messages
from .repetition import loops, room_for
from .structured_output import StructuredTier, Way, by_server
from .tiers import BriefTier, ConstrainedTier, JsonTier, check_fields, put, refused

logger = logging.getLogger(__name__)

_MARKER = re.compile(r"\[\[ ## (\w+) ## \]\]")
_IN_ORDER, _HELD_FIRST = (1, 2, 3), (3, 1, 2)
_TRIES = 5  # of a tier, before its failures say anything about it
_LOOK_AGAIN = 20  # every so often a tier that was left out is tried again: the model may have changed


@dataclass(frozen=True, slots=True)
class _Question:
    """One call of the adapter."""

    lm: Any
    lm_kwargs: Mapping[str, Any]
    signature: Any
    demos: list[Any]
    inputs: dict[str, Any]
    asynchronous: bool
    progress: StreamProgress
    label: str
    model: str

    @property
    def about(self) -> tuple[Any, list[Any], dict[str, Any]]:
        """What dspy's adapters are called with, after the model and its keywords."""
        return self.signature, self.demos, self.inputs


class OutlinesAdapter(ChatAdapter):  # type: ignore[misc]
    """Chat markers, then JSON, then constrained; `metrics` says which of them answered."""

    records_calls = True

    def __init__(
        self,
        *,
        tiers: Sequence[int] | None = None,
        learn: bool = False,
        choices_as_json: bool = False,
        max_attempts: int = DEFAULT_ATTEMPTS,
        callbacks: list[Any] | None = None,
        use_native_function_calling: bool = False,
        native_response_types: list[Any] | None = None,
        parallel_tool_calls: bool | None = None,
    ) -> None:
        """`tiers` are those to use, in order; all of them unless told. `learn` begins lower where a signature mostly
        fails on a model.

        A small model that runs here begins with tier 3, unless `tiers` are given: being held costs it little, and chat
        markers are often beyond it. Tiers 1 and 2 come after, for what it cannot be held to.

        `max_attempts` is for the retry loop, where tier 3 is one. `choices_as_json` holds a local model to the JSON
        around a single choice, too: a few tokens more, and some models choose better so where tier 3 comes last.
        """
        if tiers is not None and (not tiers or list(tiers) != sorted(set(tiers)) or not set(tiers) <= {1, 2, 3}):
            raise ValueError(f"tiers are some of 1, 2 and 3, in this order, not {tiers!r}")
        super().__init__(
            callbacks=callbacks,
            use_native_function_calling=use_native_function_calling,
            native_response_types=native_response_types,
            use_json_adapter_fallback=False,
            parallel_tool_calls=parallel_tool_calls,
        )
        self.tiers = None if tiers is None else tuple(tiers)
        self.learn = learn
        self.choices_as_json = choices_as_json
        self.max_attempts = max_attempts
        self.metrics = TierMetrics()

    def __call__(
        self, lm: Any, lm_kwargs: dict[str, Any], signature: Any, demos: list[Any], inputs: dict[str, Any]
    ) -> list[dict[str, Any]]:
        """The outputs, from the first tier whose answer can be read. Raises `AdapterParseError` after the last."""
        return finish(self._answer(lm, lm_kwargs, signature, demos, inputs, asynchronous=False))

    async def acall(
        self, lm: Any, lm_kwargs: dict[str, Any], signature: Any, demos: list[Any], inputs: dict[str, Any]
    ) -> list[dict[str, Any]]:
        """As `__call__`, without stalling the event loop."""
        return await self._answer(lm, lm_kwargs, signature, demos, inputs, asynchronous=True)

    def parse(self, signature: Any, completion: str) -> Any:
        """The outputs in an answer with chat markers. Without any it is none, though every field may be optional."""
        if not any(name in signature.output_fields for name in _MARKER.findall(completion)):
            raise refused(signature, completion, "none of the fields is in the answer")
        return super().parse(signature, completion)

    async def _answer(
        self, lm: Any, lm_kwargs: dict[str, Any], signature: Any, demos: Any, inputs: Any, *, asynchronous: bool
    ) -> list[dict[str, Any]]:
        label, model = label_of(signature), str(getattr(lm, "model", lm))
        failures: dict[int, AdapterParseError] = {}
        with adapter_fallback_scope() as progress:
            asked = _Question(lm, lm_kwargs, signature, demos, inputs, asynchronous, progress, label, model)
            last: Reply | None = None
            for tier in self._plan(asked):
                record = Recording()
                try:
                    answer = await self._try(tier, asked, record, last, first=not failures)
                except _Skipped:
                    self.metrics.record_skip(label, model)
                    continue
                except AdapterParseError as error:
                    self._count(asked, tier, record, success=False)
                    failures[tier] = error
                    if progress.emitted:  # somebody has read it already
                        break
                    last = Reply(error.lm_response, record.truncated) if tier == 2 else None
                else:
                    self._count(asked, tier, record, success=True)
                    return answer
        self.metrics.record_unanswered(label, model)
        raise _unanswered(signature, failures)

    async def _try(
        self, tier: int, asked: _Question, record: Recording, last: Reply | None, *, first: bool
    ) -> list[dict[str, Any]]:
        if tier == 1:
            return await self._chat(asked, record)
        if tier == 2:
            return await self._json(asked, record)
        return await self._held(asked, record, last, first=first)

    async def _chat(self, asked: _Question, record: Recording) -> list[dict[str, Any]]:
        keywords = dict(asked.lm_kwargs)
        with recording("tier1", asked.lm, record):
            if asked.asynchronous:
                answers = await super().acall(asked.lm, keywords, *asked.about)
            else:
                answers = super().__call__(asked.lm, keywords, *asked.about)
        if record.truncated and not all(_whole(asked.signature, text) for text in record.texts):
            raise refused(asked.signature, record.text, _CUT)
        for values in answers:
            check_fields(asked.signature, values, record.text)
        return list(answers)

    async def _json(self, asked: _Question, record: Recording) -> list[dict[str, Any]]:
        with recording("tier2", asked.lm, record):
            answers = await put(JsonTier(self), asked.asynchronous, asked.lm, asked.lm_kwargs, *asked.about)
        if record.truncated:
            raise refused(asked.signature, record.text, _CUT)
        return list(answers)

    # Tier 3 ------------------------------------------------------------------------------------------------------

    async def _held(
        self, asked: _Question, record: Recording, last: Reply | None, *, first: bool
    ) -> list[dict[str, Any]]:
        try:
            target_of_signature(asked.signature)
        except NoTarget as why:
            raise _Skipped from why
        asked = replace(asked, lm_kwargs=_one_answer(asked))
        if profile_of(asked.lm).constrains:
            return await self._constrained(asked, record, BriefTier if first else ConstrainedTier)
        return await self._structured(asked, record, last)

    async def _constrained(
        self, asked: _Question, record: Recording, kind: type[ConstrainedTier]
    ) -> list[dict[str, Any]]:
        from ..models.local.errors import ConstraintViolated, UnsupportedConstraint
        from ..models.local.outlines_api import DEFAULT_MAX_TOKENS

        async def ask(room: int | None) -> list[dict[str, Any]]:
            try:
                with recording("tier3", asked.lm, record):
                    tier = kind(self, as_json=self.choices_as_json, room=room)
                    answers = await put(tier, asked.asynchronous, asked.lm, asked.lm_kwargs, *asked.about)
            except (ConstraintViolated, AdapterParseError) as error:
                why = _CUT if record.truncated else str(getattr(error, "message", error))
                raise refused(asked.signature, record.text, why) from error
            if record.truncated:
                raise refused(asked.signature, record.text, _CUT)
            return list(answers)

        try:
            return await ask(None)
        except UnsupportedConstraint:
            return await self._retried(asked, record, None)
        except AdapterParseError:
            if not (record.truncated and loops(record.text)) or asked.progress.emitted:
                raise
        most = {**asked.lm.kwargs, **asked.lm_kwargs}.get("max_tokens") or DEFAULT_MAX_TOKENS
        return await ask(room_for(most))

    async def _structured(self, asked: _Question, record: Recording, last: Reply | None) -> list[dict[str, Any]]:
        """By the server's structured output, if a way to ask for it works; else by asking again."""

        async def ask(way: Way) -> list[dict[str, Any]]:
            with recording("tier3", asked.lm, record):
                tier = StructuredTier(self, way)
                answers = await put(tier, asked.asynchronous, asked.lm, asked.lm_kwargs, *asked.about)
            if record.truncated:
                raise refused(asked.signature, record.text, _CUT)
            return list(answers)

        async def otherwise(refused_answer: Reply | None) -> list[dict[str, Any]]:
            return await self._retried(asked, record, refused_answer)

        schema = json.dumps(target_of_signature(asked.signature).object_schema, sort_keys=True, default=str)
        heard = lambda: asked.progress.emitted  # noqa: E731
        return await by_server(asked.lm, ask, otherwise, record, about=schema, last=last, seen=heard)

    async def _retried(self, asked: _Question, record: Recording, last: Reply | None) -> list[dict[str, Any]]:
        messages = JsonTier(self).format(*asked.about)
        ask, prompt = over_messages(asked.lm, messages, asked.lm_kwargs, asynchronous=asked.asynchronous, record=record)
        target = target_of_signature(asked.signature)
        if last is not None and not any(name in last.text for name in target.fields):
            last = None  # nothing in it can be mended
        try:
            values, _ = await ask_again(target, ask, prompt, first=last, max_attempts=self.max_attempts)
        except MaxRetriesExceeded as error:
            raise refused(asked.signature, error.raw_output, str(error)) from error
        return [dict(values)]

    # Which tiers, and what came of them --------------------------------------------------------------------------

    def _plan(self, asked: _Question) -> tuple[int, ...]:
        """The tiers to try for this question."""
        tiers = self.tiers
        if tiers is None:
            tiers = _HELD_FIRST if profile_of(asked.lm).small else _IN_ORDER
        if self.learn:
            counts = self.metrics.counts(asked.label, asked.model)
            if (counts.answers + counts.unanswered) % _LOOK_AGAIN:
                tiers = tuple(tier for tier in tiers[:-1] if not _mostly_fails(counts, tier)) + tiers[-1:]
        if self.learn or tiers[0] > 1:
            self.metrics.record_start(asked.label, asked.model, tiers[0])
        return tiers

    def _count(self, asked: _Question, tier: int, record: Recording, *, success: bool) -> None:
        self.metrics.record(
            asked.label,
            asked.model,
            tier,
            success=success,
            seconds=record.seconds,
            tokens_in=record.tokens_in,
            tokens_out=record.tokens_out,
        )


_CUT = "the answer was cut off at the limit of its length; raise max_tokens"


class _Skipped(Exception):
    """Tier 3 cannot be put to this signature."""


def _mostly_fails(counts: TierCounts, tier: int) -> bool:
    failures = counts.of(tier, "failures")
    tries = failures + counts.of(tier, "success")
    return bool(tries >= _TRIES and failures > tries / 2)


def _whole(signature: Any, text: str) -> bool:
    """Whether an answer in chat markers is of use though it was cut: after its end, or in the middle of plain text."""
    begun = [name for name in _MARKER.findall(text) if name in signature.output_fields]
    if "[[ ## completed ## ]]" in text or not begun:
        return bool(begun)
    return signature.output_fields[begun[-1]].annotation is str


def _one_answer(asked: _Question) -> dict[str, Any]:
    """The keywords for one answer: a model that is held to a form gives the same one again and again."""
    keywords, defaults = dict(asked.lm_kwargs), getattr(asked.lm, "kwargs", None) or {}
    wanted = keywords.get("n") or defaults.get("n") or 1
    if wanted > 1:
        logger.warning("%s: n=%d answers were asked for; tier 3 gives one", asked.label, wanted)
        keywords["n"] = 1
    return keywords


def _unanswered(signature: Any, failures: Mapping[int, AdapterParseError]) -> AdapterParseError:
    if not failures:
        return refused(signature, "", "tier 3 cannot be used for this signature, and no other tier was to be tried")
    told = "; ".join(f"tier {tier}: {_reason(error)}" for tier, error in failures.items())
    last = list(failures.values())[-1]
    error = refused(signature, last.lm_response, f"No tier gave an answer that can be read. {told}.")
    error.__cause__ = last
    return error


def _reason(error: AdapterParseError) -> str:
    return str(error.message).strip().partition("\n")[0].rstrip(". ")
