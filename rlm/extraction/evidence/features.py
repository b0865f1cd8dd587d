"""The evidence for each field of an answer in numbers, which a calibrator (`rlm.calibration`) reads.

Features do not depend on the names of fields or the subject of a task, so that a calibrator fitted on one task can be
used for another. All are between 0 and 1, except `attempts`, `rivals` and `backers`. Those of `SEARCHED` are found
here; those of `TRUST` come from the run as a whole, when it has ended (`rlm.repl.trust`).
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from ...history import REPLHistoryEntry
from ...signatures.validation import plain
from ..confidence import score
from .find import RECENT, Findings, beside_name, is_tentative, literals, loop_names
from .match import Text, is_distinctive, leaves_of, same, spread

if TYPE_CHECKING:
    from sandbox.results import Variable

FORMULA = "formula"

SEARCHED: Mapping[str, str] = {
    FORMULA: "the confidence of the whole answer by the formula (`confidence.score`)",
    "null": "the value is null",
    "boolean": "the value is true or false",
    "number": "the value is a number",
    "many": "the value is a list, a mapping or a model",
    "empty": "the value is zero, or empty, or holds nothing else",
    "small": "the value is a number below ten or a text of two letters: found by chance almost anywhere",
    "telling": "parts of the value are distinctive, so that finding them means something",
    "named": "a variable, or a key, with the name of the field has exactly this value",
    "against": "a variable, or a key, with the name of the field has another value",
    "alike": "a variable with a word of the field's name has a part of the value",
    "labelled": "a cell printed the value beside the name of the field",
    "mislabelled": "a cell printed another value beside the name of the field",
    "hedged": "every variable and line with the value calls itself partial, a guess or a sample",
    "held": "the share of the value's parts that are in variables",
    "printed": "the share of the value's parts that recent cells printed",
    "incomplete": "parts of the value were found, but neither variables nor cells have all of them",
    "excerpt": "no variable has the value, and cells printed it only within a longer line of an input",
    "leftover": "only variables left by loops have the value, and no cell printed it",
    "both": "all parts are in variables, and all were printed",
    "nothing": "the value has distinctive parts, and none was found",
    "late": "the last cell that printed anything printed a part of the value",
    "literal": "the share of the value's parts that are literals in the code, not computed",
    "guessed": "all parts are literals in the code, and no other cell printed them",
    "in_input": "the share of the value's parts that are in an input",
    "rivals": "the number of other values of this kind in variables (logarithm)",
    "others": "the share of the other fields with evidence",
    "errors": "the share of iterations that ended in an error",
    "last_failed": "the last iteration ended in an error",
    "asked": "the code called a model",
    "attempts": "the number of extraction attempts that were refused before this one",
    "out_of_errors": "the run was stopped because of consecutive errors",
    "out_of_time": "the run was stopped because its time was used up",
}
"""What is searched in the variables, the output and the code, and what each says."""

TRUST: Mapping[str, str] = {
    "submitted": "the model submitted the answer itself",
    "computed": "the share of the value's parts that were computed from an input",
    "quoted": "the share of the value's parts that are quoted from an input",
    "said": "the share of the value's parts that a model said",
    "typed": "the share of the value's parts that are literals, by the graph of the code",
    "defaulted": "the share of the value's parts that are defaults",
    "unknown": "the share of the value's parts whose origin is not known",
    "chosen": "a literal, which a condition on an input chose",
    "retyped": "a literal, after a cell had printed something of an input",
    "unread": "the share of an input that was left out",
    "unsure": "how much of an input was read is not known, as where a loop may end early",
    "cut": "a slice of what was computed, or a loop over it that may end early",
    "calls": "the value depends on answers of models or tools",
    "checked": "a check on the field was made, and was true",
    "confirmed": "a second, independent program gave the same value",
    "contradicted": "a second, independent program gave another value",
    "cited": "the share of its quotes that are in the inputs word for word",
    "compared": "other runs of the task gave an answer, too",
    "dissent": "the share of other runs that gave another value",
    "backers": "the number of other runs that gave the same value (logarithm)",
    "silent": "the share of other runs that gave no answer",
    "budget_left": "the share of the iterations that was left",
}
"""What is known when a run has ended: where values came from, and what else speaks for them."""

FEATURES: Mapping[str, str] = {**SEARCHED, **TRUST}
"""The features, and what each says."""

MODEL_CALLS = frozenset({"llm_query", "llm_batch", "llm_query_batched", "llm_map", "rlm_query", "rlm_query_batched"})
"""The functions of the REPL that call a model."""

_MAX_LEAVES = 20  # of a field that are searched for in code and inputs
_MAX_HITS = 50  # places in an input where a short text is examined


KINDS = ("null", "boolean", "number", "many", "text")
"""The kinds of values, as calibrators tell them apart."""


def kind_of(row: Mapping[str, float]) -> str:
    """Return the kind of a value, by its features."""
    return next((kind for kind in KINDS[:-1] if row.get(kind)), KINDS[-1])


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
    """Return the features of every field. `reason` is the kind of the limit that was reached."""
    values = {name: variable.value for name, variable in variables.items() if name not in inputs and variable.has_value}
    loops = {name for entry in history for name in loop_names(entry.code)}
    code = Text("\n".join(literals(entry.code) for entry in history if entry.code))
    texts = [text for value in inputs.values() for text in _texts(value)]
    printing = [entry.iteration for entry in history if entry.printed.strip()][-RECENT:]
    supported = {piece.field for piece in findings.evidence}
    run = {
        FORMULA: score(outputs, findings),
        "errors": sum(not entry.success for entry in history) / len(history) if history else 0.0,
        "last_failed": float(bool(history) and not history[-1].success),
        "asked": float(any(call.name in MODEL_CALLS for entry in history for call in entry.calls)),
        "attempts": float(attempts - 1),
        "out_of_errors": float(reason == "max_consecutive_errors"),
        "out_of_time": float(reason == "timeout"),
    }
    by_field: dict[str, dict[str, float]] = {}
    for name, output in outputs.items():
        value, _ = plain(output)
        support = _support(name, findings, printing[-1] if printing else None)
        sources = _sources(value, code, texts)
        holders = {piece.variable for piece in findings.evidence if piece.field == name and piece.variable is not None}
        others = [other in supported for other, part in outputs.items() if other != name and part is not None]
        numbers = {
            **_kind(value),
            **_namesakes(name, value, values),
            **_surroundings(name, value, findings, history, texts),
            **support,
            **sources,
            **run,
            "nothing": float(sources["telling"] > 0 and support["held"] == support["printed"] == 0),
            "incomplete": 0 < max(support["held"], support["printed"]) < 1,
            "leftover": bool(holders) and holders <= loops and support["printed"] == 0,
            "guessed": sources["literal"] == 1 and support["printed"] == 0,
            "rivals": _rivals(value, values),
            "others": sum(others) / len(others) if others else 1.0,
        }
        by_field[name] = {feature: float(numbers[feature]) for feature in SEARCHED}
    return by_field


def _kind(value: Any) -> dict[str, float]:
    number = isinstance(value, int | float) and not isinstance(value, bool)
    parts = list(value.values()) if isinstance(value, dict) else value if isinstance(value, list) else [value]
    small = number and -10 < value < 10 and value == int(value)
    return {
        "null": value is None,
        "boolean": isinstance(value, bool),
        "number": number,
        "many": isinstance(value, list | dict),
        "empty": value not in (None, False) and all(leaf in (0, "", [], {}) for leaf in parts),
        "small": small or (isinstance(value, str) and len(value.strip()) < 3),
    }


def _namesakes(field: str, value: Any, variables: Mapping[str, Any]) -> dict[str, float]:
    """Compare the value with the variables and keys that have the name of the field."""
    namesakes = [variables[field]] if field in variables else []
    namesakes += [held[field] for held in variables.values() if isinstance(held, dict) and field in held]
    named = any(same(value, namesake) for namesake in namesakes)
    return {"named": named, "against": bool(namesakes) and not named}


def _surroundings(
    field: str, value: Any, findings: Findings, history: Sequence[REPLHistoryEntry], inputs: list[str]
) -> dict[str, float]:
    """Read the names of variables and the lines that the evidence for a field is in."""
    pieces = [piece for piece in findings.evidence if piece.field == field]
    names = [piece.variable for piece in pieces if piece.variable is not None]
    outputs = {entry.iteration: entry.output for entry in history}
    lines = [(piece, _line(outputs.get(piece.iteration or 0, ""), piece.span)) for piece in pieces if piece.span]
    texts = names + [line for _, line in lines]
    excerpts = (len(line) > len(piece.quote) and any(line in text for text in inputs) for piece, line in lines)
    words = set(field.lower().split("_"))
    beside = beside_name(field, value, history)
    return {
        "alike": any(words & set(name.lower().split("_")) for name in names),
        "labelled": beside is True,
        "mislabelled": beside is False,
        "excerpt": bool(lines) and not names and all(excerpts),
        "hedged": bool(texts) and all(map(is_tentative, texts)),
    }


def _line(text: str, span: tuple[int, int]) -> str:
    """Return the line around a span, at most 100 characters to either side."""
    begin = max(text.rfind("\n", 0, span[0]) + 1, span[0] - 100)
    end = text.find("\n", span[1])
    return text[begin : min(end if end >= 0 else len(text), span[1] + 100)].strip()


def _support(field: str, findings: Findings, last: int | None) -> dict[str, float]:
    """Return how much of a field is in variables and in printed text; `last` is the last iteration that printed."""
    support = findings.support.get(field)
    if support is None:
        return {"held": 0.0, "printed": 0.0, "both": 0.0, "late": 0.0}
    held, printed = support.in_variables / support.values, support.in_history / support.values
    late = any(
        piece.field == field and piece.iteration == last and piece.kind == "history" for piece in findings.evidence
    )
    return {"held": held, "printed": printed, "both": held == printed == 1.0, "late": late}


def _sources(value: Any, code: Text, inputs: list[str]) -> dict[str, float]:
    """Return how much of a value is written in the code and in the inputs."""
    distinctive = [leaf.value for leaf in leaves_of(value, ()) if is_distinctive(leaf.value)]
    if not distinctive:
        return {"telling": 0.0, "literal": 0.0, "in_input": 0.0}
    parts = spread(distinctive, _MAX_LEAVES)
    return {
        "telling": 1.0,
        "literal": sum(code.find(part) is not None for part in parts) / len(parts),
        "in_input": sum(any(_contains_word(text, str(part)) for text in inputs) for part in parts) / len(parts),
    }


def _rivals(value: Any, variables: Mapping[str, Any]) -> float:
    """Count the other values in variables that could be taken for this one."""
    kind = _comparable_type(value)
    values = [
        part for held in variables.values() for part in (held, *(held.values() if isinstance(held, dict) else ()))
    ]
    return math.log1p(sum(_comparable_type(part) == kind and not same(value, part) for part in values[:200]))


def _comparable_type(value: Any) -> type:
    return float if isinstance(value, int | float) and not isinstance(value, bool) else type(value)


def _texts(value: Any) -> list[str]:
    if isinstance(value, str):
        return [value]
    items = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    return [item for item in items if isinstance(item, str)][:1000]


def _contains_word(whole: str, text: str) -> bool:
    """Return whether a text is in another, with word boundaries around it. Inputs are large: only `find` is used."""
    at = whole.find(text)
    for _ in range(_MAX_HITS):
        if at < 0:
            return False
        end = at + len(text)
        if not (_is_inside_word(whole[at - 1 : at], text[:1]) or _is_inside_word(text[-1:], whole[end : end + 1])):
            return True
        at = whole.find(text, at + 1)
    return False


def _is_inside_word(left: str, right: str) -> bool:
    return bool(left) and bool(right) and left.isalnum() and right.isalnum()
