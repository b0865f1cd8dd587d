"""The check of every constrained answer against its constraint, whichever backend wrote it."""

from __future__ import annotations

import functools
import json
from dataclasses import replace
from typing import Any

from ...signatures.validation import MAX_DIGITS, may_run_away
from .constraints import Constraint
from .errors import ConstraintViolated
from .types import Generated


def checked(generated: Generated, constraint: Constraint | None, *, cut_is_error: bool = False) -> Generated:
    """Return the answer. Raises `ConstraintViolated` if it claims to be complete and is not valid.

    An answer with a number that reaches `MAX_DIGITS` was cut off there: its `finish` becomes `length`.
    """
    if constraint is None:
        return generated
    if generated.finish == "stop":
        if not allows(constraint, generated.text):
            raise ConstraintViolated(
                f"the backend returned text that its {constraint.kind} does not allow: {generated.text[:200]!r}"
            )
        if constraint.kind == "json_schema" and _has_cut_number(generated.text, constraint.source):
            generated = replace(generated, finish="length")
    if cut_is_error and generated.finish != "stop":
        raise ConstraintViolated(
            f"the answer was cut off after {generated.output_tokens} tokens, so it is not valid; allow more tokens"
        )
    return generated


def allows(constraint: Constraint, text: str) -> bool:
    """Return whether the whole text is a sentence of the constraint."""
    if constraint.kind == "json_schema":
        try:
            return bool(_validator(constraint.source).is_valid(json.loads(text)))
        except ValueError:
            return False
    matcher = byte_matcher(constraint).deep_copy()
    taken = text.encode()
    return matcher.try_consume_tokens(list(taken)) == len(taken) and bool(matcher.is_accepting())


def _has_cut_number(text: str, schema: str) -> bool:
    """Return whether a number in JSON has as many digits as a grammar allows; those that the schema names may."""
    if not may_run_away(text):
        return False
    cut: list[str] = []

    def note(number: str) -> None:
        digits = number.lstrip("-").partition(".")[0].lower().partition("e")[0]
        if len(digits) >= MAX_DIGITS and digits not in schema:
            cut.append(number)

    json.loads(text, parse_int=note, parse_float=note)
    return bool(cut)


@functools.lru_cache(maxsize=256)
def _validator(schema: str) -> Any:
    import jsonschema_rs

    return jsonschema_rs.validator_for(json.loads(schema))


@functools.lru_cache(maxsize=256)
def byte_matcher(constraint: Constraint) -> Any:
    """Return an unused matcher of the constraint for plain bytes. Raises `UnsupportedConstraint`."""
    from llguidance import LLTokenizer

    from .grammar import compiled

    return compiled(LLTokenizer("byte"), constraint)
