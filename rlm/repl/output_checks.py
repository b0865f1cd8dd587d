"""Submitted outputs: coerced into a form that the schema accepts, and checked by expressions that must be true.

The expressions run in a session of their own, because outputs are hostile.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import TYPE_CHECKING, Any, TypeAlias

import sandbox

if TYPE_CHECKING:
    from .config import RunConfig
import asyncio
import datetime
import math
from collections.abc import Collection, Iterator

from pydantic_core import to_jsonable_python

from ..extraction.schema import Schema
from ..json_values import Path, pointer, replaced
from ..provenance.quotes import Quote, Texts
from ..signatures.cited import quotes_in
from ..text import cut_middle
from .documents import DocumentTexts

Check: TypeAlias = Callable[[Mapping[str, Any]], Awaitable[str | None]]
"""Says what is wrong with outputs that fit the signature; None if nothing is."""

_CHECK_S = 5.0
_SHOWN = 300
MAX_QUOTES = 200
"""The most quotes of one answer that are looked up."""


def output_check(config: RunConfig, inputs: Mapping[str, Any], texts: DocumentTexts | None = None) -> Check | None:
    """Return the check of a run's outputs: their quotes, and the checks of the task. None if there are neither.

    `texts` are the inputs with the texts of files, in which quotes are looked up.
    """
    signature = config.signature
    if not config.checks and not signature.cited:
        return None
    texts = texts or DocumentTexts(inputs, config)

    async def check(outputs: Mapping[str, Any]) -> str | None:
        typed = signature.check_outputs(outputs)
        problem = await asyncio.to_thread(wrong_quote, typed, await texts.read()) if signature.cited else None
        if problem is not None or not config.checks:
            return problem
        # Defaults of what was not given are checked, too.
        whole = signature.without_quotes({**signature.outputs_to_json(typed), **outputs})
        return await failed_check(config.checks, whole, config.isolation, config.pool)

    return check


def wrong_quote(outputs: Any, inputs: Mapping[str, Any]) -> str | None:
    """Say which quote in typed outputs is in no input, with the text that is most like it; None if all are."""
    for number, (path, quote) in enumerate(quotes_in(outputs)):
        if number == MAX_QUOTES:
            return f"There are more than {MAX_QUOTES} quotes. Submit those that matter most."
        found = place_of_quote(inputs, quote)
        if not found["found"]:
            near = found.get("nearest")
            message = f"The quote at '{pointer(path)}' is in none of the inputs: {cut_middle(quote, _SHOWN)!r}."
            message += " Copy it from there, word for word, for example with a slice or a regular expression."
            if near is not None:
                message += f" The nearest text is in {near['input']}, line {near['line']}: {near['text']!r}"
            return message
    return None


def place_of_quote(inputs: Mapping[str, Any], quote: str) -> dict[str, Any]:
    """Return where a quote stands in the inputs; where it does not, the text that is most like it."""
    texts = Texts(inputs)
    found = texts.look_up(quote)
    if found is not None:
        return {"found": True, "exact": found.exact, **_place(found)}
    near = texts.nearest(quote)
    return {"found": False} if near is None else {"found": False, "nearest": _place(near)}


def _place(quote: Quote) -> dict[str, Any]:
    about = {"input": quote.input, "start": quote.start, "end": quote.end, "line": quote.line}
    return {**about, "text": cut_middle(quote.text, _SHOWN)}


async def failed_check(
    checks: tuple[str, ...], outputs: Mapping[str, Any], isolation: str, pool: sandbox.Pool | None
) -> str | None:
    """Say what is wrong by the first check that is not true; None if all are true."""
    async with sandbox.AsyncSession(inputs=dict(outputs), isolation=isolation, pool=pool) as session:
        for check in checks:
            result = await session.run(f"bool({check})", timeout=_CHECK_S)
            if result.error is not None:
                return f"The check `{check}` could not be made: {result.error}"
            if result.value is not True:
                return f"The values fit the types, but the check `{check}` is not true of them."
    return None


_MAX_PARTS = 100_000


def coerce(values: Any, types: Mapping[str, str], schema: Schema) -> Any:
    """Replace values that the schema refuses by a form that it accepts: NaN by null, a midnight by a date.

    `types` says what values were, by JSON pointer. What has no place stays as it is, for the error to name.
    """
    replacements = dict(_replacements(values, types))
    if not replacements:
        return values
    refused = {problem.path for problem in schema.problems(values)}
    replacements = {path: other for path, other in replacements.items() if pointer(path) in refused}
    if not replacements:
        return values
    still = {problem.path for problem in schema.problems(replaced(values, replacements))}
    return replaced(values, {path: other for path, other in replacements.items() if pointer(path) not in still})


def write_numbers(values: Any, untyped: Collection[str]) -> Any:
    """Write numbers and truth values as text where an output has no type, as dspy does."""
    if not isinstance(values, dict):
        return values
    return {
        name: str(value) if name in untyped and isinstance(value, int | float) else value
        for name, value in values.items()
    }


def _replacements(values: Any, types: Mapping[str, str]) -> Iterator[tuple[Path, Any]]:
    """Yield replacements of values by their paths."""
    todo: list[tuple[Path, Any]] = [((), values)]
    for _ in range(_MAX_PARTS):
        if not todo:
            return
        path, value = todo.pop()
        if isinstance(value, dict):
            todo += [((*path, key), inner) for key, inner in value.items()]
        elif isinstance(value, list):
            todo += [((*path, index), inner) for index, inner in enumerate(value)]
        elif isinstance(value, float) and math.isnan(value):
            yield path, None
        if types and (read := _READERS.get(types.get(pointer(path), ""))) is not None:
            try:
                yield path, read(value)
            except (AttributeError, KeyError, OverflowError, StopIteration, TypeError, ValueError):
                continue  # another class of that name, or a value that cannot be read


def _duration(seconds: Any) -> Any:
    return to_jsonable_python(datetime.timedelta(seconds=seconds))


def _day(moment: Any) -> Any:
    day, _, clock = moment.partition("T")
    if clock != "00:00:00":
        raise ValueError("a time of day would be lost")
    return day


def _rows(columns: Any) -> Any:
    index = next(iter(columns.values())).keys()
    return [{name: column[row] for name, column in columns.items()} for row in index]


_READERS: Mapping[str, Callable[[Any], Any]] = {
    "timedelta": _duration,
    "Decimal": float,
    "datetime": _day,
    "Timestamp": _day,
    "date": lambda day: f"{day}T00:00:00",
    "NaTType": lambda _: None,
    "Series": lambda items: list(items.values()),
    "DataFrame": _rows,
}
"""What a value of some type could be instead."""
