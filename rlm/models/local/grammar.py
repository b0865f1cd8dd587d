"""Constraints as grammars of llguidance, compiled once per tokenizer and cached."""

from __future__ import annotations

import json
import threading
from collections import OrderedDict
from typing import Any

from .constraints import Constraint
from .errors import UnsupportedConstraint
from .json_numbers import lark_of_schema

_MOST_COMPILED = 256
_ASCII = "ds"
"""`\\d` is 0 to 9 and `\\s` is ASCII white space, not the digits and spaces of all scripts."""

_JSON_FORM = {"whitespace_flexible": False, "item_separator": ", ", "key_separator": ": "}


def grammar_text(constraint: Constraint) -> str:
    """Return the constraint in llguidance's notation."""
    from llguidance import LLMatcher

    return str(LLMatcher.grammar_from_lark(lark_text(constraint)))


def lark_text(constraint: Constraint) -> str:
    """Return the constraint as a Lark grammar, which llama.cpp takes too. JSON has one form, to force more of it."""
    if constraint.kind == "json_schema":
        schema = json.loads(constraint.source)
        return lark_of_schema(schema, {**_JSON_FORM, **schema.pop("x-guidance", {})})
    if constraint.kind == "regex":
        from llguidance import regex_to_lark

        return f"start: /{regex_to_lark(constraint.source, _ASCII)}/"
    return constraint.source


class Grammars:
    """Compiled constraints of one tokenizer. Matchers have state, so each answer gets a copy of an unused one."""

    def __init__(self, tokenizer: Any) -> None:
        self.tokenizer = tokenizer
        self._unused: OrderedDict[Constraint, Any] = OrderedDict()
        self._lock = threading.Lock()

    def matcher(self, constraint: Constraint) -> Any:
        """Return a matcher at the start of the constraint. Raises `UnsupportedConstraint`."""
        with self._lock:
            unused = self._unused.get(constraint)
            if unused is None:
                unused = self._unused[constraint] = compiled(self.tokenizer, constraint)
                if len(self._unused) > _MOST_COMPILED:
                    self._unused.popitem(last=False)
            else:
                self._unused.move_to_end(constraint)
            return unused.deep_copy()


def compiled(tokenizer: Any, constraint: Constraint) -> Any:
    """Return a new matcher for this tokenizer. Raises `UnsupportedConstraint`."""
    from llguidance import LLMatcher

    try:
        matcher = LLMatcher(tokenizer, grammar_text(constraint))
    except ValueError as error:
        raise UnsupportedConstraint(_refusal(constraint, str(error))) from error
    if matcher.is_error():
        raise UnsupportedConstraint(_refusal(constraint, str(matcher.get_error())))
    return matcher


def _refusal(constraint: Constraint, reason: str) -> str:
    """Return llguidance's message, without the generated grammar that it shows for a schema."""
    if constraint.kind == "json_schema":
        reason = reason.partition("\n")[0].rpartition("failed to compile JSON schema: ")[2]
    return f"this {constraint.kind} has no grammar: {reason}"
