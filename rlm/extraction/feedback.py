"""The messages about refused values, composed of the texts in `prompts/`.

A model reads the same words in the retry loop, after an invalid `SUBMIT` and from `validate_json`.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from functools import cache
from importlib.resources import files
from typing import Any

from ..json_values import preview
from ..signatures import Problem
from ..text import cut_middle
from .errors import ParseError
from .parsing.find_answer import parse
from .schema import Schema, describe

MAX_SUBMISSION = 4_000
MAX_CUT_SUBMISSION = 600
MAX_SCHEMA = 20_000
MAX_PARTS = 6_000
REJECTED = "it fits the schema, but a further check refuses it"


def retry(
    schema: Schema,
    *,
    submission: str,
    problems: Sequence[Problem],
    fault: str,
    attempt: int,
    max_attempts: int,
    whole_schema: bool,
    patchable: bool = False,
    truncated: bool = False,
) -> str:
    """Return the text that is appended to the prompt after attempt number `attempt` failed.

    `fault` is one line about what was wrong. The text has the whole schema, or the parts that `problems` are about.
    """
    step = "next_shorter" if truncated else "next_patch" if patchable else "next_whole"
    refused = _refused(
        f"Attempt {attempt} of {max_attempts} was not accepted: {fault}.",
        problems,
        _whole(schema) if whole_schema else _parts(schema, problems),
        cut_middle(submission, MAX_CUT_SUBMISSION if truncated else MAX_SUBMISSION) or "(nothing)",
        _text(step).format(),
    )
    return _text("retry").format(refused=refused, attempt=attempt + 1, max_attempts=max_attempts)


def refusal(
    value: Any,
    schema: Schema,
    problems: Sequence[Problem],
    *,
    subject: str = "This value",
    why: str = "it does not fit the schema",
) -> str:
    """Return the message in the REPL about a refused value; `subject` names it, as in "SUBMIT"."""
    count = "1 problem" if len(problems) == 1 else f"{len(problems)} problems"
    verdict = f"{subject} was not accepted: {why} ({count})."
    return _refused(verdict, problems, _whole(schema), as_text(value), _text("next_submit").format())


def validate_json(value: Any, schema: Schema | Mapping[str, Any] | bool) -> str:
    """Return "valid", or every problem with the schema, the submission and what to do next: a tool of the REPL.

    Text is parsed as JSON, unless the schema accepts a string.
    """
    schema = Schema.of(schema)
    value, refused = read_value(value, schema)
    if refused is not None:
        return refused
    problems = schema.problems(value)
    return refusal(value, schema, problems) if problems else "valid"


def read_value(value: Any, schema: Schema) -> tuple[Any, str | None]:
    """Return a value, parsed if it is JSON text and the schema accepts no string; else the message why it cannot be."""
    if not isinstance(value, str) or "string" in schema.root_types:
        return value, None
    try:
        return parse(value, schema), None
    except ParseError as error:
        problems = error.problems or (Problem("", schema.root_words, preview(value), error.message),)
        return value, refusal(value if error.best is None else error.best, schema, problems)


def as_text(value: Any) -> str:
    """Return a submission as JSON text of bounded length; a preview if it is too long or not JSON."""
    if isinstance(value, str):
        return cut_middle(value, MAX_SUBMISSION)
    pieces, size = [], 0
    try:
        for piece in json.JSONEncoder(ensure_ascii=False, allow_nan=False).iterencode(value):
            pieces.append(piece)
            size += len(piece)
            if size > 20 * MAX_SUBMISSION:  # a value that shares its parts can be endless as text
                return preview(value, MAX_SUBMISSION)
    except (TypeError, ValueError, RecursionError):
        return preview(value, MAX_SUBMISSION)
    return cut_middle("".join(pieces), MAX_SUBMISSION)


def _refused(verdict: str, problems: Sequence[Problem], schema: str, submission: str, next_step: str) -> str:
    text = _text("refused").format(
        verdict=verdict,
        problems=describe(problems),
        schema=schema,
        submission=submission.encode(errors="replace").decode(),
        next_step=next_step.strip(),
    )
    while "\n\n\n" in text:  # empty sections
        text = text.replace("\n\n\n", "\n\n")
    return text.strip()


def _whole(schema: Schema) -> str:
    return f"The schema:\n{cut_middle(schema.text, MAX_SCHEMA)}"


def _parts(schema: Schema, problems: Sequence[Problem]) -> str:
    """Return the parts of the schema that the problems are about, each once."""
    parts: dict[str, str] = {}
    for problem in problems:
        part = schema.part(problem.rule) if problem.rule else None
        if part is not None:
            text = json.dumps(part, ensure_ascii=False)
            parts.setdefault(text, f"- for '{problem.path or '/'}': {cut_middle(text, MAX_PARTS // 4)}")
    if not parts:
        return "The schema is the one given above."
    return cut_middle(
        "The parts of the schema (given above) that this is about:\n" + "\n".join(parts.values()), MAX_PARTS
    )


@cache
def _text(name: str) -> str:
    return files(__package__).joinpath("prompts", f"{name}.txt").read_text(encoding="utf-8").rstrip("\n") + "\n"
