"""Extraction of typed values from text: parsing, validation, retries. It works without a model or a sandbox."""

from __future__ import annotations

from ..signatures import Problem
from .errors import ExtractionError, MaxRetriesExceeded, ParseError, PatchError, SchemaError
from .feedback import refusal, validate_json
from .parsing.find_answer import parse
from .retry import Attempt, ExtractionMetrics, ExtractionOrchestrator, Reply
from .schema import Schema, describe

__all__ = [
    "Attempt",
    "ExtractionError",
    "ExtractionMetrics",
    "ExtractionOrchestrator",
    "MaxRetriesExceeded",
    "ParseError",
    "PatchError",
    "Problem",
    "Reply",
    "Schema",
    "SchemaError",
    "describe",
    "parse",
    "refusal",
    "validate_json",
]
