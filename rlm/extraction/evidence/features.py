"""The evidence for each field of an extraction, in numbers: what a calibrator (`rlm.calibration`) reads.

Nothing here depends on the names of fields or on what a task is about, so that what was learnt on one task can be used
on another. All numbers are between 0 and 1, but for `attempts` and `rivals`.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from ...history import REPLHistoryEntry
from ...signatures.validation import plain
from ..confidence import score
from .find import RECENT, Findings
from .flatten import leaves_of, same, spread
from .labels import beside_name, is_hedged
from .literals import literals, loop_names
from .match import Text, is_distinctive

if TYPE_CHECKING:
    from sandbox.results import Variable

FORMULA = "formula"

FEATURES: Mapping[str, str] = {
    FORMULA: "what the formula (`confidence.score`) says of the whole answer",
    "null": "the field is null",
    "boolean": "it is true or false",
    "number": "it is a number",
    "many": "it is a list, a mapping or a model",
    "small": "it is a number below ten or a text of two letters: found by chance almost anywhere",
    "telling": "there is something in it to look for",
    "named": "a variable, or a key, with the field's name holds exactly it",
    "against": "a variable or a key with the field's name holds something else",
    "alike": "a variable whose name has a word of the field's name holds some of it",
    "labelled": "a cell printed it beside the field's name",
    "mislabelled": "a cell printed something else beside the field's name",
    "hedged": "all that holds or prints it calls itself partial, a guess or a sample",
    "held": "the share of its values that variables hold",
    "printed": "the share of its values that recent cells printed",
    "incomplete": "some of its values were found, but neither variables nor cells have all of them",
    "excerpt": "no variable holds it, and cells printed it only as part of a longer line of an input",
    "leftover": "only variables that loops have left behind hold it, and no cell printed it",
    "both": "all of it is held and all of it was printed",
    "nothing": "there was something to look for, and none of it was found",
    "late": "the last cell that printed anything printed some of it",
    "literal": "the share of its values that the model wrote into its code, instead of computing them",
    "guessed": "all of it stands in the code, and no cell printed it otherwise",
    "in_input": "the share of its values that stand in an input",
    "rivals": "how many other values of its kind the variables hold (logarithm)",
    "others": "the share of the other fields with evidence",
    "errors": "the share of iterations that ended in an error",
    "last_failed": "the last iteration ended in an error",
    "asked": "the code asked a model",
    "attempts": "how many attempts were refused before the extraction gave a valid answer",
    "out_of_errors": "the run stopped because of errors, one after the other",
    "out_of_time": "the run stopped because its time was up",
}
"""What is looked at, and what it says."""

_LEAVES = 20  # of a field that are looked for in code and inputs
_HITS = 50  # places in an input where a short text is looked at
MODEL_CALLS = frozenset({"llm_query", "llm_batch", "llm_query_batched", "rlm_query"})
"""The functions of the REPL that ask a model."""


def features(
    outputs: Mapping[str, Any],
    findings: Findings,
    variables: Mapping[str, Variable],
    history: Sequence[REPLHistoryEntry],
    inputs: Mapping[str, Any],
    *,
    reason: str = "",
    attempts: int = 1,
) -> dict[str, dict[str, float]]:
    """The evidence for every field, by feature. `reason` is the kind of the limit that was reached."""
    own = {name: held.value for name, held in variables.items() if name not in inputs and held.has_value}
    loops = {name for entry in history for name in loop_names(entry.code)}
    written = Text("\n".join(literals(entry.code) for entry in history if entry.code))
    texts = [text for given in inputs.values() for text in _texts(given)]
    printing = [entry.iteration for entry in history if entry.printed.strip()][-RECENT:]
    supported = {one.field for one in findings.evidence}
    run = {
        FORMULA: score(outputs, findings),
        "errors": sum(not entry.success for entry in history) / len(history) if history else 0.0,
        "last_failed": float(bool(history) and not history[-1].success),
        "asked": float(any(call.name in MODEL_CALLS for entry in history for call in entry.calls)),
        "attempts": float(attempts - 1),
        "out_of_errors": float(reason == "max_consecutive_errors"),
        "out_of_time": float(reason == "timeout"),
    }
    made: dict[str, dict[str, float]] = {}
    for name, value in outputs.items():
        carried, _ = plain(value)
        found = _found(name, findings, printing[-1] if printing else None)
        holders = {one.variable for one in findings.evidence if one.field == name and one.variable is not None}
        said = _said(carried, written, texts)
        others = [other in supported for other, inner in outputs.items() if other != name and inner is not None]
        numbers = {
            **_kind(carried),
            **_names(name, carried, own),
            **_words(name, carried, findings, history, texts),
            **found,
            **said,
            **run,
            "nothing": float(said["telling"] > 0 and found["held"] == found["printed"] == 0),
            "incomplete": 0 < max(found["held"], found["printed"]) < 1,
            "leftover": bool(holders) and holders <= loops and found["printed"] == 0,
            "guessed": said["literal"] == 1 and found["printed"] == 0,
            "rivals": _rivals(carried, own),
            "others": sum(others) / len(others) if others else 1.0,
        }
        made[name] = {feature: float(numbers[feature]) for feature in FEATURES}
    return made


def _kind(value: Any) -> dict[str, float]:
    number = isinstance(value, int | float) and not isinstance(value, bool)
    small = number and -10 < value < 10 and value == int(value)
    return {
        "null": value is None,
        "boolean": isinstance(value, bool),
        "number": number,
        "many": isinstance(value, list | dict),
        "small": small or (isinstance(value, str) and len(value.strip()) < 3),
    }


def _names(field: str, value: Any, own: Mapping[str, Any]) -> dict[str, float]:
    """Whether what bears the field's name holds its value, or something else."""
    there = [own[field]] if field in own else []
    there += [held[field] for held in own.values() if isinstance(held, dict) and field in held]
    named = any(same(value, held) for held in there)
    return {"named": named, "against": bool(there) and not named}


def _words(
    field: str, value: Any, findings: Findings, history: Sequence[REPLHistoryEntry], inputs: list[str]
) -> dict[str, float]:
    """What the names and the lines around a field say of it."""
    pieces = [one for one in findings.evidence if one.field == field]
    names = [one.variable for one in pieces if one.variable is not None]
    outputs = {entry.iteration: entry.output for entry in history}
    printed = [(one, _line(outputs.get(one.iteration or 0, ""), one.span)) for one in pieces if one.span is not None]
    around = names + [line for _, line in printed]
    excerpts = (len(line) > len(one.quote) and any(line in text for text in inputs) for one, line in printed)
    words = set(field.lower().split("_"))
    beside = beside_name(field, value, history)
    return {
        "alike": any(words & set(name.lower().split("_")) for name in names),
        "labelled": beside is True,
        "mislabelled": beside is False,
        "excerpt": bool(printed) and not names and all(excerpts),
        "hedged": bool(around) and all(map(is_hedged, around)),
    }


def _line(text: str, span: tuple[int, int]) -> str:
    """The line of a text that a stretch of it stands in, as far as it is near."""
    begin = max(text.rfind("\n", 0, span[0]) + 1, span[0] - 100)
    end = text.find("\n", span[1])
    return text[begin : min(end if end >= 0 else len(text), span[1] + 100)].strip()


def _found(field: str, findings: Findings, last: int | None) -> dict[str, float]:
    support = findings.support.get(field)
    if support is None:
        return {"held": 0.0, "printed": 0.0, "both": 0.0, "late": 0.0}
    held, printed = support.held / support.values, support.printed / support.values
    late = any(one.field == field and one.iteration == last for one in findings.evidence if one.kind == "history")
    return {"held": held, "printed": printed, "both": held == printed == 1.0, "late": late}


def _said(value: Any, written: Text, inputs: list[str]) -> dict[str, float]:
    """What the code and the inputs say of a field."""
    telling = [leaf.value for leaf in leaves_of(value, ()) if is_distinctive(leaf.value)]
    if not telling:
        return {"telling": 0.0, "literal": 0.0, "in_input": 0.0}
    some = spread(telling, _LEAVES)
    return {
        "telling": 1.0,
        "literal": sum(written.find(one) is not None for one in some) / len(some),
        "in_input": sum(any(_stands_in(str(one), text) for text in inputs) for one in some) / len(some),
    }


def _rivals(value: Any, own: Mapping[str, Any]) -> float:
    """Other values that could be taken for this one."""
    kind = _shape(value)
    held = [inner for one in own.values() for inner in (one, *(one.values() if isinstance(one, dict) else ()))]
    return math.log1p(sum(_shape(one) == kind and not same(value, one) for one in held[:200]))


def _shape(value: Any) -> type:
    return float if isinstance(value, int | float) and not isinstance(value, bool) else type(value)


def _texts(given: Any) -> list[str]:
    if isinstance(given, str):
        return [given]
    some = given.values() if isinstance(given, dict) else given if isinstance(given, list) else ()
    return [one for one in some if isinstance(one, str)][:1000]


def _stands_in(text: str, whole: str) -> bool:
    """Whether a text stands in another where words begin and end. Inputs are large: nothing but `find`."""
    at = whole.find(text)
    for _ in range(_HITS):
        if at < 0:
            return False
        end = at + len(text)
        if not (_joins(whole[at - 1 : at], text[:1]) or _joins(text[-1:], whole[end : end + 1])):
            return True
        at = whole.find(text, at + 1)
    return False


def _joins(left: str, right: str) -> bool:
    return bool(left) and bool(right) and left.isalnum() and right.isalnum()
