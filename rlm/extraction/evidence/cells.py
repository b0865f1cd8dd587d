"""What the cells of a run printed, and what can be read in their code without running it."""

from __future__ import annotations

import ast
import re
import warnings
from collections.abc import Sequence
from typing import Any

from ...history import REPLHistoryEntry
from .match import Text, is_distinctive, leaves_of, spread

# What the runtime writes and code may print: places in code (tracebacks, warnings), and the rest of the budget.
_RUNTIME = re.compile(
    r"""File\ "[^"\n]{1,500}",\ line\ \d+ | <cell\ \d+>(?::\d+)? | \{['"]llm_calls['"]:[^{}\n]{0,200}\}""", re.VERBOSE
)


def printed(entry: REPLHistoryEntry) -> str:
    """Return what the code printed, with text of the runtime blanked. Positions are those in the output."""
    return _RUNTIME.sub(lambda match: " " * len(match[0]), entry.printed)


def literals(code: str) -> str:
    """Return the literals in some code, one a line; all of the code if it cannot be parsed."""
    tree = _parse(code)
    if tree is None:
        return code
    values = []
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant):
            values.append(str(node.value))
        elif isinstance(node, ast.UnaryOp) and isinstance(node.operand, ast.Constant):
            values.append(f"-{node.operand.value!r}")
    return "\n".join(values)


def loop_names(code: str) -> set[str]:
    """Return the names that loops bind. Afterwards they have the last item, which is rarely the answer."""
    tree = _parse(code)
    targets: list[ast.expr] = []
    for loop in ast.walk(tree) if tree is not None else ():
        if isinstance(loop, ast.For | ast.AsyncFor):
            targets.append(loop.target)
            # A loop that unpacks its items leaves the parts as well.
            unpacked = [statement for statement in loop.body if isinstance(statement, ast.Assign)]
            targets += [part for item in unpacked for part in item.targets if isinstance(part, ast.Tuple | ast.List)]
    return {node.id for target in targets for node in ast.walk(target) if isinstance(node, ast.Name)}


def _parse(code: str) -> ast.AST | None:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # warnings about the model's code are not for the user
            return ast.parse(code)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None


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
