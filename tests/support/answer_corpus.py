"""Answers as models spoil them: generated from a fixed seed, each with the value that it must be read as, or none."""

from __future__ import annotations

import json
import random
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from rlm.extraction import Schema

PERSON = Schema(
    {
        "type": "object",
        "properties": {
            "name": {"type": "string"},
            "age": {"type": "integer"},
            "score": {"type": ["number", "null"]},
            "active": {"type": "boolean"},
            "tags": {"type": "array", "items": {"type": "string"}},
            "home": {"$ref": "#/$defs/Place"},
        },
        "required": ["name", "age", "tags"],
        "additionalProperties": False,
        "$defs": {
            "Place": {
                "type": "object",
                "properties": {"city": {"type": "string"}, "zip": {"type": "string"}},
                "required": ["city"],
            }
        },
    }
)
TREE = Schema(  # every inner object is a valid answer by itself: the hardest case for a cut or broken one
    {
        "$ref": "#/$defs/Node",
        "$defs": {
            "Node": {
                "type": "object",
                "properties": {
                    "label": {"type": "string"},
                    "children": {"type": "array", "items": {"$ref": "#/$defs/Node"}},
                },
                "required": ["label"],
            }
        },
    }
)
ROWS = Schema({"type": "array", "items": {"type": "object", "properties": {"id": {"type": "integer"}}}})

WORDS = [
    "Ada",
    "it's",
    "Zürich",
    "a, b",
    "x: y",
    "{braces}",
    "[1]",
    "über",
    "100%",
    "// not",
    "# no",
    "C:/tmp",
    "日本",
    "two\nlines",
    "",
]
PROSE = [
    "Here is the answer.",
    "I looked at items [1] and [2], see {x | x > 0}.",
    "It's done, and that's the user's data:",
    'The field "name" was hard to find (see note).',
    "Note: f(x) = {x: y} in the appendix.",
]


@dataclass(frozen=True)
class Case:
    kind: str
    schema: Schema
    text: str
    value: Any


def person(rng: random.Random) -> dict[str, Any]:
    value: dict[str, Any] = {
        "name": " ".join(rng.choices(WORDS, k=3)).strip(),
        "age": rng.randint(-5, 10**6),
        "tags": rng.choices(WORDS, k=rng.randint(0, 4)),
    }
    if rng.random() < 0.7:
        value["score"] = rng.choice([None, 1.5, -2e-3, 0])
    if rng.random() < 0.7:
        value["active"] = rng.choice([True, False])
    if rng.random() < 0.7:
        value["home"] = {"city": rng.choice(WORDS), "zip": f"{rng.randint(0, 99999):05d}"}
    return value


def tree(rng: random.Random, depth: int = 3) -> dict[str, Any]:
    children = [tree(rng, depth - 1) for _ in range(rng.randint(0 if depth < 3 else 1, 3))] if depth else []
    return {"label": rng.choice(WORDS) or "leaf", "children": children}


def rows(rng: random.Random) -> list[dict[str, Any]]:
    return [{"id": rng.randint(1, 99), "word": rng.choice(WORDS)} for _ in range(rng.randint(1, 4))]


MAKERS: list[tuple[Schema, Callable[[random.Random], Any]]] = [(PERSON, person), (TREE, tree), (ROWS, rows)]


def dump(value: Any, rng: random.Random) -> str:
    return json.dumps(value, ensure_ascii=rng.random() < 0.3, indent=rng.choice([None, 2, 4]))


# ---------------------------------------------------------------------- spoiling that can be undone


def outside_strings(text: str, change: Callable[[str], str]) -> str:
    """Apply `change` to every character that is not inside a JSON string."""
    pieces = re.split(r'("(?:[^"\\]|\\.)*")', text)
    return "".join(piece if index % 2 else "".join(map(change, piece)) for index, piece in enumerate(pieces))


def write(value: Any, quote: Callable[[str], str], key: Callable[[str], str] | None = None) -> str:
    """JSON with other quotes."""
    key = key or quote
    if isinstance(value, dict):
        return "{" + ", ".join(f"{key(k)}: {write(v, quote, key)}" for k, v in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(write(item, quote, key) for item in value) + "]"
    return quote(value) if isinstance(value, str) else json.dumps(value)


def plain(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)


def trailing_commas(value: Any, rng: random.Random) -> str:
    text = outside_strings(json.dumps(value, indent=1), lambda c: f",{c}" if c in "}]" else c)
    return text.replace("{,}", "{}").replace("[,]", "[]")


def comments(value: Any, rng: random.Random) -> str:
    comment = rng.choice([" // a note, it's {fine}\n", " # the 'rest' [1]\n", " /* several\nlines */ "])
    return outside_strings(json.dumps(value), lambda c: c + comment if c in ",{[" else c)


def unquoted_keys(value: Any, rng: random.Random) -> str:
    return write(value, plain, key=str)


def typographic_quotes(value: Any, rng: random.Random) -> str:
    return write(value, lambda text: f"“{text}”")


def single_quotes(value: Any, rng: random.Random) -> str:
    return write(value, lambda text: "'" + text.replace("'", "\\'") + "'")


def careless_apostrophes(value: Any, rng: random.Random) -> str:
    return write(value, lambda text: f"'{text}'")


def raw_line_breaks(value: Any, rng: random.Random) -> str:
    return json.dumps(value).replace("\\n", "\n")


def forgotten_commas(value: Any, rng: random.Random) -> str:
    lines = json.dumps(value, indent=1).split("\n")
    followed = [*(line.lstrip().startswith('"') and '": ' in line for line in lines[1:]), False]
    return "\n".join(line.removesuffix(",") if key else line for line, key in zip(lines, followed, strict=True))


SPOILED: dict[str, Callable[[Any, random.Random], str]] = {
    "bare": dump,
    "python literal": lambda value, rng: repr(value),
    "trailing commas": trailing_commas,
    "comments": comments,
    "unquoted keys": unquoted_keys,
    "typographic quotes": typographic_quotes,
    "single quotes": single_quotes,
    "careless apostrophes": careless_apostrophes,
    "raw line breaks": raw_line_breaks,
    "forgotten commas": forgotten_commas,
}


def fenced(body: str, rng: random.Random, draft: str) -> str:
    label = rng.choice(["json", "JSON", "python", "javascript", "", "json5", "answer"])
    fence = rng.choice(["```", "```", "~~~"])
    return f"{fence}{label}\n{body}\n{fence}"


def before(body: str, rng: random.Random, draft: str) -> str:
    return f"{rng.choice(PROSE)}\n\n{body}"


def after(body: str, rng: random.Random, draft: str) -> str:
    return f"{body}\n\n{rng.choice(PROSE)}"


def around(body: str, rng: random.Random, draft: str) -> str:
    return before(after(fenced(body, rng, draft), rng, draft), rng, draft)


WRAPPED: dict[str, Callable[[str, random.Random, str], str]] = {
    "alone": lambda body, rng, draft: body,
    "fenced": fenced,
    "prose before": before,
    "prose after": after,
    "prose around a fence": around,
    "draft in thinking": lambda body, rng, draft: f"<think>maybe {draft} or {{</think>\n{body}",
    "thinking without its tag": lambda body, rng, draft: f"so {draft}, wait\n</think>\n\n{body}",
    "draft before": lambda body, rng, draft: f"A first draft:\n{draft}\n\nThe final answer:\n{body}",
    "broken draft before": lambda body, rng, draft: f"Draft:\n```json\n{draft[: len(draft) // 2]}\n```\nNow:\n{body}",
}


def recoverable(seed: int, rounds: int) -> Iterator[Case]:
    """Every spoiling in every wrapping, for every schema."""
    rng = random.Random(seed)
    for _ in range(rounds):
        for spoiling, spoil in SPOILED.items():
            for wrapping, wrap in WRAPPED.items():
                schema, make = rng.choice(MAKERS)
                value, draft = make(rng), dump(make(rng), rng)
                text = wrap(spoil(value, rng), rng, draft)
                yield Case(f"{spoiling} / {wrapping}", schema, text, value)
        schema, make = rng.choice(MAKERS)
        value = make(rng)
        yield Case("JSON in a string", schema, json.dumps(json.dumps(value)), value)
        yield Case("one brace too many", PERSON, json.dumps(one := person(rng)) + "}", one)
        said = {"name": 'she said "no" twice', "age": 1, "tags": ['the "A" case', 'quoted "end"']}
        yield Case("quotes not escaped", PERSON, json.dumps(said).replace('\\"', '"'), said)


# ---------------------------------------------------------------------- answers that must be refused


def truncated(seed: int, count: int) -> Iterator[Case]:
    """Answers cut at a random place inside, in all wrappings; some with the fence closed behind the cut."""
    rng = random.Random(seed)
    for _ in range(count):
        schema, make = rng.choice(MAKERS)
        body = rng.choice(list(SPOILED.values()))(make(rng), rng)
        cut = body[: rng.randint(1, len(body) - 1)]
        draft = dump(make(rng), rng)
        wrapping = rng.choice(["alone", "before", "fenced", "closed fence", "draft", "thinking"])
        text = {
            "alone": cut,
            "before": before(cut, rng, draft),
            "fenced": f"Here:\n```json\n{cut}",
            "closed fence": f"```json\n{cut}\n```",
            "draft": f"Draft:\n{draft}\n\nFinal:\n{cut}",
            "thinking": f"<think>{draft}</think>{cut}",
        }[wrapping]
        yield Case(f"cut / {wrapping}", schema, text, None)


def damaged(seed: int, count: int) -> Iterator[Case]:
    """Answers with one bracket, quote, comma or colon lost, doubled or changed. `value` is what was meant."""
    rng = random.Random(seed)
    for _ in range(count):
        schema, make = rng.choice(MAKERS)
        value = make(rng)
        spoiling = rng.choice(list(SPOILED))
        text = SPOILED[spoiling](value, rng)
        place = rng.choice([index for index, char in enumerate(text) if char in "{}[]\"':,“”"])
        put = rng.choice(["", text[place] * 2, rng.choice('{}[]":,')])
        yield Case(f"damaged / {spoiling}", schema, text[:place] + put + text[place + 1 :], value)


def shape(value: Any) -> Any:
    """A value without the contents of its strings."""
    if isinstance(value, dict):
        return {key: shape(item) for key, item in value.items()}
    if isinstance(value, list):
        return [shape(item) for item in value]
    return str if isinstance(value, str) else value
