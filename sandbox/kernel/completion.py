"""Requests of editors: completions, help for a name, whether a cell is complete."""

from __future__ import annotations

import codeop
import pydoc
import re
import rlcompleter
from typing import Any

_NAME = re.compile(r"[\w.]*$")
_MAX_MATCHES = 200


def complete(namespace: dict[str, Any], code: str, position: int) -> dict[str, Any]:
    """Names and attributes that continue what stands before the cursor."""
    found = _NAME.search(code[:position])
    word = found.group() if found else ""
    completer = rlcompleter.Completer(namespace)
    matches: list[str] = []
    try:
        while len(matches) < _MAX_MATCHES and (match := completer.complete(word, len(matches))) is not None:
            matches.append(match.rstrip("("))
    except Exception:
        matches = []  # an object of the user's that cannot be looked into
    return {
        "status": "ok",
        "matches": matches,
        "cursor_start": position - len(word),
        "cursor_end": position,
        "metadata": {},
    }


def inspect(namespace: dict[str, Any], code: str, position: int) -> dict[str, Any]:
    """Documentation of the name at the cursor."""
    left = _NAME.search(code[:position])
    right = re.match(r"\w*", code[position:])
    word = (left.group() if left else "") + (right.group() if right else "")
    nothing = {"status": "ok", "found": False, "data": {}, "metadata": {}}
    parts = word.split(".")
    if parts[0] not in namespace:
        return nothing
    value = namespace[parts[0]]
    try:
        for part in parts[1:]:
            value = getattr(value, part)
        text = pydoc.plain(pydoc.render_doc(value))
    except Exception:
        return nothing
    return {"status": "ok", "found": True, "data": {"text/plain": text}, "metadata": {}}


def is_complete(code: str) -> dict[str, Any]:
    """Whether Enter should run the cell or add a line."""
    try:
        compiled = codeop.compile_command(code, "<input>", "exec")
    except (SyntaxError, ValueError, OverflowError):
        return {"status": "invalid"}
    return {"status": "complete"} if compiled is not None else {"status": "incomplete", "indent": "    "}
