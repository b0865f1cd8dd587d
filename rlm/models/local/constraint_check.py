"""Whether a text is what its constraint allows. Asked of every constrained answer, whichever backend wrote it."""

from __future__ import annotations

import functools
import json
from typing import Any

from .constraints import Constraint
from .errors import ConstraintViolated
from .types import Generated


def checked(generated: Generated, constraint: Constraint | None, *, cut_is_error: bool = False) -> Generated:
    """The same answer. Raises `ConstraintViolated` if it claims to be complete and is not valid."""
    if constraint is None:
        return generated
    if generated.finish != "stop":
        if cut_is_error:
            raise ConstraintViolated(
                f"the answer was cut off after {generated.output_tokens} tokens, so it is not valid; allow more tokens"
            )
        return generated
    if not allows(constraint, generated.text):
        raise ConstraintViolated(
            f"the backend returned text that its {constraint.kind} does not allow: {generated.text[:200]!r}"
        )
    return generated


def allows(constraint: Constraint, text: str) -> bool:
    """Whether the whole text is a sentence of the constraint."""
    if constraint.kind == "json_schema":
        try:
            return bool(_validator(constraint.source).is_valid(json.loads(text)))
        except ValueError:
            return False
    matcher = byte_matcher(constraint).deep_copy()
    taken = text.encode()
    return matcher.try_consume_tokens(list(taken)) == len(taken) and bool(matcher.is_accepting())


@functools.lru_cache(maxsize=256)
def _validator(schema: str) -> Any:
    import jsonschema_rs

    return jsonschema_rs.validator_for(json.loads(schema))


@functools.lru_cache(maxsize=256)
def byte_matcher(constraint: Constraint) -> Any:
    """The constraint compiled for plain bytes, unused. Raises `UnsupportedConstraint`."""
    from llguidance import LLTokenizer

    from .grammar import compiled

    return compiled(LLTokenizer("byte"), constraint)
