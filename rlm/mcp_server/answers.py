"""What the tools answer with: outputs, how far to trust them, and the places that show it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pydantic import BaseModel, Field

from ..evidence_text import describe
from ..results import Evidence, ExecutionResult
from ..text import shorten

_MAX_EVIDENCE = 100
_MAX_QUOTE = 500
_MAX_LEFT_OUT = 50


class EvidenceItem(BaseModel):
    """Where a value of the answer came from."""

    kind: str = Field(description="quoted, computed, said (by a model), typed, defaulted, none, or a further check")
    value: str = Field(description="the value, as a JSON pointer into the outputs: /answer/0")
    text: str = Field(description="the same in words")
    path: str | None = Field(None, description="the file that it was found in")
    line: int | None = Field(None, description="the line in that file, from 1")
    quote: str | None = Field(None, description="what is there")


class Answer(BaseModel):
    """The answer to a question."""

    answer: Any = Field(description="the answer; null where there is none")
    status: str = Field(description="submitted, extracted (from what a run without an answer found out), or failed")
    trust: str = Field(description="how far to trust the answer, in words that say by what")
    confidence: float | None = Field(
        description="a number for that, where there is one; a probability if `trust` says so"
    )
    reason: str | None = Field(None, description="why there is no answer, or why it was extracted")
    evidence: list[EvidenceItem] = Field(description="where its values came from: look there before you rely on it")
    run_id: str = Field(description="for show_run")
    session_id: str = Field(description="for ask_more")
    files: int = Field(description="how many files the question was about")
    left_out: list[str] = Field(description="files of named folders that were not read")


def answer_of(result: ExecutionResult[Any], session_id: str, paths: Mapping[str, str], left_out: list[str]) -> Answer:
    """Return the answer that a result is."""
    outputs = result.outputs_to_dict() or {}
    reason = getattr(result, "reason", None)
    return Answer(
        answer=outputs.get("answer"),
        status=result.status,
        trust=result.trust,
        confidence=_confidence(result),
        reason=None if reason is None else shorten(str(reason), 2_000),
        evidence=[_item(item, paths) for item in result.evidence[:_MAX_EVIDENCE]],
        run_id=result.run_id,
        session_id=session_id,
        files=len(paths),
        left_out=left_out[:_MAX_LEFT_OUT],
    )


def _confidence(result: ExecutionResult[Any]) -> float | None:
    """Return the confidence as callers are told it: none for an answer that nothing was found out about."""
    if result.status == "failed" or (result.status == "submitted" and result.confidence == 1):
        return None
    return round(float(result.confidence), 4)


def _item(item: Evidence, paths: Mapping[str, str]) -> EvidenceItem:
    head, _, rest = (item.input or "").partition("/")
    name = rest.replace("~1", "/").replace("~0", "~")
    return EvidenceItem(
        kind=item.kind,
        value=item.path,
        text=shorten(describe(item), _MAX_QUOTE),
        path=paths.get(name) if head == "documents" else None,
        line=item.line,
        quote=shorten(item.quote, _MAX_QUOTE) or None,
    )
