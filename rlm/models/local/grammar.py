"""Constraints compiled for one tokenizer by llguidance, each once, and kept."""

from __future__ import annotations

import json
import threading
from collections import OrderedDict
from typing import Any

from .constraints import Constraint
from .errors import UnsupportedConstraint
from .json_numbers import lark_of_schema

_KEPT = 256
_ASCII = "ds"
"""`\\d` is 0 to 9 and `\\s` is plain white space: the digits of all scripts are not what anybody means."""

_JSON_FORM = {"whitespace_flexible": False, "item_separator": ", ", "key_separator": ": "}


def grammar_text(constraint: Constraint) -> str:
    """The constraint in llguidance's own notation."""
    from llguidance import LLMatcher

    return str(LLMatcher.grammar_from_lark(lark_text(constraint)))


def lark_text(constraint: Constraint) -> str:
    """The constraint as a Lark grammar, which llama.cpp takes too. JSON has one form only, so more of it is forced."""
    if constraint.kind == "json_schema":
        schema = json.loads(constraint.source)
        return lark_of_schema(schema, {**_JSON_FORM, **schema.pop("x-guidance", {})})
    if constraint.kind == "regex":
        from llguidance import regex_to_lark

        return f"start: /{regex_to_lark(constraint.source, _ASCII)}/"
    return constraint.source


class Grammars:
    """Compiled constraints of one tokenizer. A matcher has state, so each answer gets a copy of an unused one."""

    def __init__(self, tokenizer: Any) -> None:
        self.tokenizer = tokenizer
        self._unused: OrderedDict[Constraint, Any] = OrderedDict()
        self._lock = threading.Lock()

    def matcher(self, constraint: Constraint) -> Any:
        """A matcher at the start of the constraint. Raises `UnsupportedConstraint`."""
        with self._lock:
            unused = self._unused.get(constraint)
            if unused is None:
                unused = self._unused[constraint] = self._compiled(constraint)
                if len(self._unused) > _KEPT:
                    self._unused.popitem(last=False)
            else:
                self._unused.move_to_end(constraint)
            return unused.deep_copy()

    def _compiled(self, constraint: Constraint) -> Any:
        return compiled(self.tokenizer, constraint)


def compiled(tokenizer: Any, constraint: Constraint) -> Any:
    """A new matcher for this tokenizer. Raises `UnsupportedConstraint`."""
    from llguidance import LLMatcher

    try:
        matcher = LLMatcher(tokenizer, grammar_text(constraint))
    except ValueError as error:
        raise UnsupportedConstraint(_refusal(constraint, str(error))) from error
    if matcher.is_error():
        raise UnsupportedConstraint(_refusal(constraint, str(matcher.get_error())))
    return matcher


def _refusal(constraint: Constraint, reason: str) -> str:
    """What llguidance says. Of a schema it shows the grammar that was made of it, which nobody has written."""
    if constraint.kind == "json_schema":
        reason = reason.partition("\n")[0].rpartition("failed to compile JSON schema: ")[2]
    return f"no grammar can be made of this {constraint.kind}: {reason}"
