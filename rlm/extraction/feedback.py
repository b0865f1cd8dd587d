"""The messages after a refused answer, put together from the texts in `prompts/`.

The same words go to a model in the retry loop, in answer to an invalid `SUBMIT`, and from `validate_json`.
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
    """What is appended to the prompt after attempt number `attempt` failed and before the next one.

    `fault` says in one line what was wrong. The schema comes whole, or only its parts that `problems` are about.
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
    what: str = "This value",
    why: str = "it does not fit the schema",
) -> str:
    """What a model reads in its REPL about a value that is refused; `what` names it, as in "SUBMIT"."""
    count = "1 problem" if len(problems) == 1 else f"{len(problems)} problems"
    verdict = f"{what} was not accepted: {why} ({count})."
    return _refused(verdict, problems, _whole(schema), as_text(value), _text("next_submit").format())


def validate_json(value: Any, schema: Schema | Mapping[str, Any] | bool) -> str:
    """The REPL tool: "valid", or every problem with the schema, the submission and what to do next.

    A text is read as JSON first, unless the schema wants a text.
    """
    schema = Schema.of(schema)
    value, refused = read_value(value, schema)
    if refused is not None:
        return refused
    problems = schema.problems(value)
    return refusal(value, schema, problems) if problems else "valid"


def read_value(value: Any, schema: Schema) -> tuple[Any, str | None]:
    """A value that may come as JSON text, where the schema wants none: what it says, or why it cannot be read."""
    if not isinstance(value, str) or "string" in schema.root_types:
        return value, None
    try:
        return parse(value, schema), None
    except ParseError as error:
        problems = error.problems or (Problem("", schema.root_words, preview(value), error.message),)
        return value, refusal(value if error.best is None else error.best, schema, problems)


def as_text(value: Any) -> str:
    """A submission as JSON, bounded; what is too long or not JSON is shown by a preview."""
    if isinstance(value, str):
        return cut_middle(value, MAX_SUBMISSION)
    pieces, size = [], 0
    try:
        for piece in json.JSONEncoder(ensure_ascii=False, allow_nan=False).iterencode(value):
            pieces.append(piece)
            size += len(piece)
            if size > 20 * MAX_SUBMISSION:  # stop: a value can share its parts, and be endless when written out
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
    while "\n\n\n" in text:  # sections that had nothing to say
        text = text.replace("\n\n\n", "\n\n")
    return text.strip()


def _whole(schema: Schema) -> str:
    return f"The schema:\n{cut_middle(schema.text, MAX_SCHEMA)}"


def _parts(schema: Schema, problems: Sequence[Problem]) -> str:
    """The parts of the schema that were not followed, each once; nothing if no part is to blame."""
    parts: dict[str, str] = {}
    for problem in problems:
        part = schema.part(problem.rule) if problem.rule else None
        if part is not None:
            words = json.dumps(part, ensure_ascii=False)
            parts.setdefault(words, f"- for '{problem.path or '/'}': {cut_middle(words, MAX_PARTS // 4)}")
    if not parts:
        return "The schema is the one given above."
    return cut_middle(
        "The parts of the schema (given above) that this is about:\n" + "\n".join(parts.values()), MAX_PARTS
    )


@cache
def _text(name: str) -> str:
    return files(__package__).joinpath("prompts", f"{name}.txt").read_text(encoding="utf-8").rstrip("\n") + "\n"
