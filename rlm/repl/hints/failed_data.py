"""The data that code failed on: the nearest spelling of what it looked for, the first line that did not match.

Patterns come from a model, so they are tried under a time limit, and on a bounded part of the data.
"""

from __future__ import annotations

import ast
import re
import time
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from .code_facts import names_read, nodes_of
from .places import misplaced

SPELLED = "{text!r} is not in {name}, but {found!r} is, {times:,} times, as in {line!r}."
LOWERED = "The code compares with text in lower case, and {text!r} is not in lower case."
NEARLY = (
    "Nothing was found: {text!r} is not in {name}. But {part!r} is, {times} times, as in {line!r}. Look for that, "
    "unless nothing is the answer."
)
NEARLY_MATCHED = "{pattern!r} matches no line of {name}. Its beginning {part!r} does, as in {line!r}."
NEVER_MATCHED = "{pattern!r} matches no line of {name}. A line is {line!r}."
OTHER_CASE = "{pattern!r} matches no line of {name} in this case of letters; without regard to it, {line!r}."
ANCHORED = "re.match looks at the beginning of a line only, and {pattern!r} is further on: use re.search."
UNMATCHED = "The first line that {pattern!r} does not match is {line!r}. Leave out lines that do not match."
TOO_SHORT = (
    "The first line with too few parts is {line!r}: {parts:,}, and {wanted} was asked for. Leave such lines out."
)
LOOPING = "`{name}` was {value} then."

SEARCHED_CHARS = 5_000_000
_SEARCHED_TEXTS, _SEARCHED_LINES = 8, 20_000
_SECONDS = 0.1
_SHOWN = 160
_FUNCTIONS = ("search", "match", "fullmatch", "findall", "finditer", "compile", "split", "sub")


class Texts:
    """The long texts that a cell could read, and its constants."""

    def __init__(self, code: str, inputs: Mapping[str, Any]) -> None:
        self.code = code
        read = names_read(code, [name for name, value in inputs.items() if _is_searched(value)])
        self.texts: dict[str, Any] = {name: inputs[name] for name in sorted(read)}

    def nearest(self) -> str | None:
        """Return what is nearly there of what the code looks for; None if all of it is there, or nothing is."""
        patterns = dict(self._patterns())
        for name, text in self.texts.items():
            whole = "\n".join(map(str, text)) if isinstance(text, list) else text
            for wanted in self._constants():
                if wanted in patterns:
                    hint = _nearest_pattern(wanted, patterns[wanted], name, whole)
                else:
                    hint = _nearest_text(wanted, name, whole, lowered="lower" in _methods(self.code))
                if hint is not None:
                    return hint
            if (hint := misplaced(self.code, _lines(text))) is not None:
                return hint
        return None

    def unmatched(self) -> str | None:
        """Return the first line that a pattern of the code does not match."""
        for text in self.texts.values():
            for pattern, function in self._patterns():
                line = _first_without(pattern, function, _lines(text))
                if line is not None:
                    return UNMATCHED.format(pattern=pattern, line=line[:_SHOWN])
        return None

    def too_short(self) -> str | None:
        """Return the first line that has fewer parts than the code takes from it by an index."""
        for separators, index in _split_indexes(self.code):
            for text in self.texts.values():
                for line in _lines(text):
                    parts = len(line.split(*separators))
                    if parts <= index if index >= 0 else parts < -index:
                        return TOO_SHORT.format(line=line[:_SHOWN], parts=parts, wanted=index)
        return None

    def _constants(self) -> list[str]:
        constants = {node.value for node in nodes_of(self.code) if isinstance(node, ast.Constant)}
        wanted = [text for text in constants if isinstance(text, str) and 3 <= len(text) <= 200]
        return sorted(wanted, key=lambda text: (-len(text), text))[:_SEARCHED_TEXTS]

    def _patterns(self) -> Iterator[tuple[str, str]]:
        """Yield the patterns that the code gives to functions of `re`, with the function."""
        for node in nodes_of(self.code):
            match node:
                case ast.Call(
                    func=ast.Attribute(value=ast.Name(id="re"), attr=function),
                    args=[ast.Constant(value=str(pattern)), *_],
                ) if function in _FUNCTIONS and pattern:
                    yield pattern, function


def loop_variable(code: str, variables: Mapping[str, Any]) -> str | None:
    """Return what the variable of the innermost loop was, where a loop at the top of the code stopped."""
    loops = [node for node in nodes_of(code) if isinstance(node, ast.For) and isinstance(node.target, ast.Name)]
    names = [loop.target.id for loop in loops if isinstance(loop.target, ast.Name) and loop.target.id in variables]
    if not names:
        return None
    variable = variables[names[-1]]
    shown = repr(variable.value) if variable.has_value else variable.preview
    return LOOPING.format(name=names[-1], value=shown[:_SHOWN])


def _is_searched(value: Any) -> bool:
    if isinstance(value, str):
        return 160 < len(value) <= SEARCHED_CHARS
    return isinstance(value, list) and len(value) <= _SEARCHED_LINES and all(isinstance(line, str) for line in value)


def _lines(text: Any) -> Sequence[str]:
    return (text if isinstance(text, list) else text[: SEARCHED_CHARS // 2].splitlines())[:_SEARCHED_LINES]


def _methods(code: str) -> set[str]:
    return {node.attr for node in nodes_of(code) if isinstance(node, ast.Attribute)}


def _nearest_text(wanted: str, name: str, text: str, *, lowered: bool) -> str | None:
    if wanted in text:
        return LOWERED.format(text=wanted) if lowered and wanted != wanted.lower() else None
    found = re.search(re.escape(wanted), text, re.IGNORECASE)
    if found is not None and lowered:
        return None
    if found is not None:
        part = found[0]
        return SPELLED.format(text=wanted, name=name, found=part, times=text.count(part), line=_line_at(found, text))
    folded = text.lower()
    longest = _longest_part(wanted, text) or _longest_part(wanted.lower(), folded)
    if longest is None:
        return None
    at = folded.index(longest.lower()) if len(folded) == len(text) else text.find(longest)
    part = text[at : at + len(longest)]
    return NEARLY.format(text=wanted, name=name, part=part, times=text.count(part), line=_line_with(part, text))


def _nearest_pattern(pattern: str, function: str, name: str, text: str) -> str | None:
    lines = _lines(text)
    until = time.monotonic() + _SECONDS
    if _first_with(pattern, lines, until) is not None:
        anchored = function in ("match", "fullmatch") and _first_with(pattern, lines, until, function) is None
        return ANCHORED.format(pattern=pattern) if anchored else None
    other_case = _first_with(pattern, lines, until, ignore_case=True)
    if other_case is not None:
        return OTHER_CASE.format(pattern=pattern, name=name, line=other_case[:_SHOWN])
    for end in range(len(pattern) - 1, 2, -1):
        part = pattern[:end]
        line = _first_with(part, lines, until, ignore_case=True)
        if line is not None:
            return NEARLY_MATCHED.format(pattern=pattern, name=name, part=part, line=line[:_SHOWN])
    return NEVER_MATCHED.format(pattern=pattern, name=name, line=lines[0][:_SHOWN]) if lines else None


def _first_with(
    pattern: str, lines: Sequence[str], until: float, function: str = "search", *, ignore_case: bool = False
) -> str | None:
    """Return the first line that a pattern matches; None if none does, or that cannot be told in time."""
    return next((line for line, matched in _tried(pattern, function, lines, until, ignore_case) if matched), None)


def _first_without(pattern: str, function: str, lines: Sequence[str]) -> str | None:
    function = function if function in ("match", "fullmatch") else "search"
    tried = _tried(pattern, function, lines, time.monotonic() + _SECONDS, False)
    return next((line for line, matched in tried if not matched and line.strip()), None)


def _tried(
    pattern: str, function: str, lines: Sequence[str], until: float, ignore_case: bool
) -> Iterator[tuple[str, bool]]:
    import regex  # re has no time limit

    try:
        compiled = regex.compile(pattern, regex.IGNORECASE if ignore_case else 0)
        match = getattr(compiled, function)
        for line in lines:
            left = until - time.monotonic()
            if left <= 0:
                return
            yield line, match(line[:2_000], timeout=left) is not None
    except (regex.error, TimeoutError, OverflowError, RecursionError):
        return


def _split_indexes(code: str) -> Iterator[tuple[tuple[Any, ...], int]]:
    """Yield `(" ",), 4` for `line.split(" ")[4]`."""
    for node in nodes_of(code):
        if not (isinstance(node, ast.Subscript) and isinstance(node.value, ast.Call)):
            continue
        call = node.value
        if not (isinstance(call.func, ast.Attribute) and call.func.attr == "split"):
            continue
        try:
            index, separators = ast.literal_eval(node.slice), tuple(ast.literal_eval(arg) for arg in call.args)
        except ValueError:
            continue
        if isinstance(index, int) and all(
            isinstance(separator, str | int | None) and separator != "" for separator in separators
        ):
            yield separators, index


def _longest_part(wanted: str, text: str) -> str | None:
    """Return the longest beginning of `wanted` that is in the text, up to where a word or number differs."""
    low, high = 0, len(wanted)
    while low < high:
        middle = (low + high + 1) // 2
        low, high = (middle, high) if wanted[:middle] in text else (low, middle - 1)
    part = wanted[:low].rstrip("0123456789")
    if part == wanted[:low] and wanted[low : low + 1].isalpha() and not re.search(re.escape(part) + r"(?!\w)", text):
        part = re.sub(r"[^\W\d_]+$", "", part)  # no word of the text ends here
    part = part.rstrip()
    return part if len(part) >= 3 and low < len(wanted) else None


def _line_with(part: str, text: str) -> str:
    at = text.index(part)
    begin, end = text.rfind("\n", 0, at) + 1, text.find("\n", at)
    return text[begin : end if end >= 0 else None][:100]


def _line_at(found: re.Match[str], text: str) -> str:
    begin, end = text.rfind("\n", 0, found.start()) + 1, text.find("\n", found.end())
    return text[begin : end if end >= 0 else None][:_SHOWN]
