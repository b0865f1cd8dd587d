"""What the model reads about the session before a question: earlier answers, and the variables that are there."""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping, Sequence
from typing import Any

from ..text import count, cut_middle, shorten
from .journal import QuestionRecord

MAX_QUESTIONS, MAX_VARIABLES = 12, 40
"""How many of the latest questions and variables are described. Others are counted."""

_ASKED_CHARS, _ANSWER_CHARS, _PREVIEW_CHARS = 300, 400, 100
_NAMES = ("module", "type", "function")

_BEFORE = (
    "# Before this question\n"
    "This is question {number} of a session. The REPL is the same: what earlier code made is still there. Use it, and "
    "do not compute it again; do not load or define again what is listed here.\n"
)


def before_question(
    number: int, questions: Sequence[QuestionRecord], inputs: Mapping[str, Any], given: Collection[str]
) -> str | None:
    """Return the section of the prompt; None for the first question. `given` are the inputs that it lists itself."""
    variables = questions[-1].variables if questions else {}
    other = [name for name in inputs if name not in given]
    if not questions and not other:
        return None
    parts = [_BEFORE.format(number=number)] if questions else []
    if questions:
        parts.append("Questions and answers so far:\n")
        if len(questions) > MAX_QUESTIONS:
            parts.append(f"({count(len(questions) - MAX_QUESTIONS, 'earlier question')} left out)\n")
        parts += [f"{_question(question)}\n" for question in questions[-MAX_QUESTIONS:]]
    if other:
        parts.append("Further inputs of the session, which are variables, too:\n")
        parts += [f"- {name} ({_size_of(inputs[name])})\n" for name in other]
    own = {name: about for name, about in variables.items() if name not in inputs and name not in given}
    values = {name: about for name, about in own.items() if about["type"] not in _NAMES}
    names = [name for name in own if name not in values]
    if values:
        parts.append("Variables from earlier questions:\n")
        if len(values) > MAX_VARIABLES:
            parts.append(f"({count(len(values) - MAX_VARIABLES, 'older variable')} left out; they are there)\n")
        parts += [f"{_variable(name, about)}\n" for name, about in list(values.items())[-MAX_VARIABLES:]]
    if names:
        shown = ", ".join(
            f"{own[name]['preview']} as {name}" if _renamed(name, own) else _named(name, own) for name in names
        )
        parts.append(f"Imported or defined already: {shorten(shown, 2_000)}\n")
    return "".join(parts) + "\n"


def _question(question: QuestionRecord) -> str:
    asked = "; ".join(f"{name}: {shorten(value, _ASKED_CHARS)}" for name, value in question.asked.items())
    return f"{question.number}. {asked or 'the same again'}\n   {_answer(question)}"


def _answer(question: QuestionRecord) -> str:
    if question.outputs is not None:
        outputs = ", ".join(
            f"{name} = {json.dumps(value, ensure_ascii=False, default=str)}" for name, value in question.outputs.items()
        )
        unsure = "" if question.ending == "submitted" else " (not certain: read off when the budget was used up)"
        return f"answer: {cut_middle(outputs, _ANSWER_CHARS, separator=' ')}{unsure}"
    return "interrupted, no answer" if question.ending in (None, "interrupted") else "no answer"


def _variable(name: str, about: Mapping[str, Any]) -> str:
    size = about["size"]
    shape = "" if size is None else f", {size:,} items" if isinstance(size, int) else f", {'x'.join(map(str, size))}"
    if isinstance(size, int) and about["type"] == "str":
        shape = f", {size:,} characters"
    changed = f", changed in question {about['changed']}" if about["changed"] != about["made"] else ""
    return (
        f"- {name} ({about['type']}{shape}; made in question {about['made']}{changed}): "
        f"{shorten(about['preview'], _PREVIEW_CHARS)}"
    )


def _named(name: str, own: Mapping[str, Mapping[str, Any]]) -> str:
    preview = str(own[name]["preview"])
    return preview.removeprefix("module ") if own[name]["type"] == "module" else preview


def _renamed(name: str, own: Mapping[str, Mapping[str, Any]]) -> bool:
    about = own[name]
    module = str(about["preview"]).removeprefix("module ")
    return about["type"] == "module" and module.rpartition(".")[2] != name


def _size_of(value: Any) -> str:
    kind = type(value).__name__
    if isinstance(value, str | bytes):
        return f"{kind}, {len(value):,} {'characters' if isinstance(value, str) else 'bytes'}"
    return f"{kind}, {len(value):,} items" if hasattr(value, "__len__") else kind
