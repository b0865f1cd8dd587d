"""What stands beside a field's name in the output of cells: `weight: 41230`, `late ports = ['Hull']`."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from ...history import REPLHistoryEntry
from .flatten import leaves_of, spread
from .literals import literals
from .match import Text, is_distinctive
from .printed import printed

_NEXT = re.compile(r"[,;}]\s*['\"]?[^\W\d]\w*['\"]?\s*[:=]")  # where the next label begins
_WORDS = {None: ("none", "null", "nan"), True: ("true", "yes"), False: ("false", "no")}
_LONGEST = 300
_LEAVES = 20
_HEDGES = re.compile(
    r"(?<![a-z])(?:so far|partial(?:ly)?|approx\w*|about|roughly|guess\w*|maybe|perhaps|probably|estimate\w*|"
    r"incomplete|unsure|unknown|todo|draft|tentative\w*|temp|tmp|first half|sample)(?![a-z])"
)


def is_hedged(text: str) -> bool:
    """Whether a name or a line says of itself that it is not the last word: `n_so_far`, `about 40`."""
    return _HEDGES.search(text.lower().replace("_", " ")) is not None


def beside_name(field: str, value: Any, history: Sequence[REPLHistoryEntry]) -> bool | None:
    """Whether the last thing printed beside the field's name is its value; None where nothing was.

    A cell that has the value in its own code says nothing by printing it.
    """
    name = re.sub(r"[_\s]+", r"[_ -]?", re.escape(field).replace(r"\_", "_"))
    label = re.compile(rf"(?<!\w){name}(?!\w)['\"]?\s*(?:[:=]|->|\bis\b)\s*([^\n]{{1,{_LONGEST}}})", re.IGNORECASE)
    for entry in reversed(history):
        found = label.findall(printed(entry)[-20_000:])
        if found and not (_telling(value) and _says(Text(literals(entry.code)), value)):
            text = _NEXT.split(found[-1], maxsplit=1)[0].strip()
            return _says(Text(text), value) if _telling(value) else _says_word(text, value)
    return None


def _telling(value: Any) -> list[Any]:
    return spread([leaf.value for leaf in leaves_of(value, ()) if is_distinctive(leaf.value)], _LEAVES)


def _says(text: Text, value: Any) -> bool:
    return all(text.find(one) is not None for one in _telling(value))


def _says_word(text: str, value: Any) -> bool:
    if value is None or isinstance(value, bool):
        return text.lower().strip("'\"").startswith(_WORDS[value])
    return text.startswith(("[]", "{}", "set()", "()", "''", '""'))
