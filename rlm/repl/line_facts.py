"""Facts about the lines of a text that a script shows a small model: fields by their place, lines about the task.

Counts are exact: of a text that is too long to be read whole, fields are described without them.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Sequence

from ..text import shorten

_PLACES, _FEW_VALUES, _FEW_LINES = 12, 8, 5
_SAMPLED_PARTS, _SAMPLED_CHARS = 40, 10_000
_SEARCHED_CHARS, _STEMS, _ABOUT, _ABOUT_WIDTH = 5_000_000, 16, 3, 200
_PATTERN_CHARS, _PATTERN_LINES = 90, 3
_ENDING = re.compile(r"(?<=\w{4})(?:ing|ed|es|ions?|ment|s)$")
_WORD = re.compile(r"\S+")
_COMMON_WORDS = """
the and for are was were that this with what which who whom how many much most often times time number count line lines
log logs file does did has have had not from into than more less any all each every there their its give list name names
such per where when then them they one two first last different distinct total occur occurs
"""


def fields_of_lines(text: str) -> str:
    """Describe the words of the lines by their place: the first line in parts, and the values of each place."""
    lines = [line for line in sample_lines(text) if line.strip()]
    rows = [line.split()[:_PLACES] for line in lines]
    if len(rows) < _FEW_LINES:
        return ""
    whole = len(text) <= _SAMPLED_PARTS * _SAMPLED_CHARS
    numbered = " ".join(f"[{place}] {word[:40]!r}" for place, word in enumerate(rows[0]))
    parts = [f"{'The first' if whole else 'A'} line in parts, as line.split() gives them: {numbered}"]
    columns = [Counter(row[place] for row in rows) for place in range(min(_PLACES, min(map(len, rows))))]
    last = _last_field(columns, len(rows))
    for place, values in enumerate(columns):
        if 1 < len(values) <= _FEW_VALUES:
            listed = ", ".join(repr(value[:40]) for value, _ in values.most_common())
            parts.append(f"line.split()[{place}] is {'one' if whole else 'often one'} of {listed}")
        elif place <= last and whole and len(values) > _FEW_VALUES:
            (first, _), (second, _), *_ = values.most_common(2)
            ends = _common_end(values)
            note = f"; each ends with {ends!r}: .rstrip({ends!r})" if ends else ""
            some = f"such as {first[:40]!r}, {second[:40]!r}"
            parts.append(f"line.split()[{place}] has {len(values):,} values, {some}{note}")
    return "\n".join(parts)


def _last_field(columns: Sequence[Counter[str]], rows: int) -> int:
    """Return the place of the last word before the message: one that ends with a colon, or has few values."""
    for place, values in enumerate(columns):
        if sum(number for value, number in values.items() if value.endswith(":")) >= 0.8 * rows:
            return place
    few = [place for place, values in enumerate(columns) if 1 < len(values) <= _FEW_VALUES]
    return few[-1] if few else -1


def _common_end(values: Counter[str]) -> str:
    """Return the punctuation that all values end with."""
    ends = {value[-1] for value in values}
    return ends.pop() if len(ends) == 1 and ends <= set(":,;]") else ""


def lines_about(task: str, text: str) -> str:
    """Describe the lines that have the most words of the task in them, however they are spelled, with their number.

    A word that few lines have counts more than one that many have. Lines with values are also written as a pattern.
    """
    if len(text) > _SEARCHED_CHARS:
        return ""
    lines = text.lower().splitlines()
    originals = text.splitlines()
    stems = [stem for stem in _stems(task) if any(stem in line for line in lines)]
    found = Counter(tuple(stem for stem in stems if stem in line) for line in lines) if stems else Counter()
    if len(lines) != len(originals) or not found:
        return ""
    weights = {stem: math.log(len(lines) / sum(n for key, n in found.items() if stem in key)) for stem in stems}
    ranked = sorted((key for key in found if key), key=lambda key: -sum(weights[stem] for stem in key))
    names = re.findall(r"\b\w+[A-Z_\d]\w*", task)  # as they are spelled in the data
    parts = []
    for key in ranked[:_ABOUT]:
        example = next(line for line, low in zip(originals, lines, strict=True) if _has(low, key, stems))
        parts.append(f"{found[key]:>7,} x  {shorten(example, _ABOUT_WIDTH)}")
        is_meant = len(key) > 1 or any(name in example for name in names)
        pattern = pattern_of(example, key, weights) if found[key] >= _PATTERN_LINES and is_meant else ""
        if pattern:
            parts.append(f'{"":>9}  as a pattern for re.search: r"{pattern}"')
    return "\n".join(["Lines about the task, how many there are, and an example:", *parts])


def pattern_of(line: str, stems: Sequence[str], weights: dict[str, float]) -> str:
    """Return a regular expression for a line from its rarest word of the task on, with a group for each value in it."""
    low = line.lower()
    at = low.find(max(stems, key=lambda stem: weights[stem]))
    words = [found for found in _WORD.finditer(line) if found.end() > at][:8]
    begun = [found for found in _WORD.finditer(line) if found.end() <= at][-1:]
    begun = [found for found in begun if found[0].isalpha() or found[0].isdigit()]
    parts, size = [], 0
    for found in [*begun, *words]:
        size += len(found[0]) + 1
        if size > _PATTERN_CHARS:
            break
        parts.append(_as_pattern(found[0]))
    pattern = " ".join(parts)
    return pattern if "(" in re.sub(r"\\.", "", pattern) and _matches(pattern, line) and '"' not in pattern else ""


def _as_pattern(word: str) -> str:
    """Return a pattern for a word: a number is a group, and so is a path, or a value with digits and more in it."""
    name, equals, value = word.rpartition("=")
    core = value.strip("()[]{}<>,;:.!?'\"")
    if not re.search(r"\d", core) and core.count("/") < 2:
        return _escaped(word)
    before, after = value[: value.index(core)], value[value.index(core) + len(core) :]
    group = r"(\d+)" if core.isdigit() else r"(\S+)" if not after else r"(\S+?)"
    return _escaped(name + equals + before) + group + _escaped(after)


def _escaped(text: str) -> str:
    return re.sub(r"\\([-#&~ ])", r"\1", re.escape(text))


def _matches(pattern: str, line: str) -> bool:
    try:
        return re.search(pattern, line) is not None
    except re.error:
        return False


def sample_lines(text: str) -> list[str]:
    """Return some thousand lines from evenly spaced parts of a text."""
    step = max(1, len(text) // _SAMPLED_PARTS)
    if len(text) <= _SAMPLED_PARTS * _SAMPLED_CHARS:
        return text.splitlines()
    parts = (text[start : start + _SAMPLED_CHARS].splitlines()[1:-1] for start in range(0, len(text), step))
    return [line for part in parts for line in part]


def _has(line: str, key: tuple[str, ...], stems: Sequence[str]) -> bool:
    return all((stem in line) is (stem in key) for stem in stems)


def _stems(task: str) -> list[str]:
    """Return the words of a task in lower case, without endings and without words that every question has."""
    common = frozenset(_COMMON_WORDS.split())
    words = re.findall(r"[A-Za-z_][\w.-]{2,}|\d{3,}", task)
    stems = (_ENDING.sub("", word.lower().strip(".-")) for word in words if word.lower() not in common)
    return list(dict.fromkeys(stem for stem in stems if len(stem) >= 3))[:_STEMS]
