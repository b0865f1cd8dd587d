"""What cells printed beside the name of a field, `weight: 41230`, and names and lines that say they are tentative."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from ...history import REPLHistoryEntry
from .cells import literals, printed
from .flatten import leaves_of, spread
from .match import Text, is_distinctive

_NEXT_LABEL = re.compile(r"[,;}]\s*['\"]?[^\W\d]\w*['\"]?\s*[:=]")
_WORDS = {None: ("none", "null", "nan"), True: ("true", "yes"), False: ("false", "no")}
_MAX_CHARS = 300
_MAX_LEAVES = 20
_TENTATIVE = re.compile(
    r"(?<![a-z])(?:so far|partial(?:ly)?|approx\w*|about|roughly|guess\w*|maybe|perhaps|probably|estimate\w*|"
    r"incomplete|unsure|unknown|todo|draft|tentative\w*|temp|tmp|first half|sample)(?![a-z])"
)


def is_tentative(text: str) -> bool:
    """Return whether a name or a line says that its value is not final: `n_so_far`, `about 40`."""
    return _TENTATIVE.search(text.lower().replace("_", " ")) is not None


def beside_name(field: str, value: Any, history: Sequence[REPLHistoryEntry]) -> bool | None:
    """Return whether the last text printed beside the name of a field is its value; None if there is no such text.

    Cells that have the value as a literal do not count.
    """
    name = re.sub(r"[_\s]+", r"[_ -]?", re.escape(field).replace(r"\_", "_"))
    label = re.compile(rf"(?<!\w){name}(?!\w)['\"]?\s*(?:[:=]|->|\bis\b)\s*([^\n]{{1,{_MAX_CHARS}}})", re.IGNORECASE)
    for entry in reversed(history):
        texts = label.findall(printed(entry)[-20_000:])
        if texts and not (_distinctive(value) and _contains(Text(literals(entry.code)), value)):
            text = _NEXT_LABEL.split(texts[-1], maxsplit=1)[0].strip()
            return _contains(Text(text), value) if _distinctive(value) else _begins_with(text, value)
    return None


def _distinctive(value: Any) -> list[Any]:
    return spread([leaf.value for leaf in leaves_of(value, ()) if is_distinctive(leaf.value)], _MAX_LEAVES)


def _contains(text: Text, value: Any) -> bool:
    return all(text.find(part) is not None for part in _distinctive(value))


def _begins_with(text: str, value: Any) -> bool:
    if value is None or isinstance(value, bool):
        return text.lower().strip("'\"").startswith(_WORDS[value])
    return text.startswith(("[]", "{}", "set()", "()", "''", '""'))
