"""Validation by a JSON schema: every problem of a value, with its place, what was expected and what came.

`SUBMIT`, `validate_json` and the retry loop use this validator.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from datetime import datetime, time
from itertools import islice
from typing import Any

import jsonschema_rs

from .. import json_values
from ..json_values import Path, pointer, preview
from ..signatures import Problem
from ..text import shorten
from .errors import SchemaError

MAX_PROBLEMS = 1_000
_INSTANT = re.compile(r"\d{4}-\d\d-\d\d[Tt ]\d\d:\d\d(:\d\d(\.\d{1,9})?)?([Zz]|[+-]\d\d:?\d\d)?")
_CLOCK = re.compile(r"\d\d:\d\d(:\d\d(\.\d{1,9})?)?([Zz]|[+-]\d\d:?\d\d)?")
_DURATION = re.compile(r"[+-]?P(?=[\dT])(\d+Y)?(\d+M)?(\d+W)?(\d+D)?(T(?=\d)(\d+H)?(\d+M)?(\d+(\.\d{1,9})?S)?)?")


class Schema:
    """A compiled JSON schema (draft 2020-12, with format assertions). Immutable."""

    def __init__(self, schema: Mapping[str, Any] | bool) -> None:
        try:
            self.text = json.dumps(schema, ensure_ascii=False, allow_nan=False, default=dict)
            self._schema: dict[str, Any] | bool = json.loads(self.text)
            self._validator = jsonschema_rs.Draft202012Validator(
                self._schema,
                validate_formats=True,
                offline=True,
                formats={"date-time": _is_instant, "time": _is_clock, "duration": _is_duration},
            )
        except (ValueError, TypeError, RecursionError, jsonschema_rs.ReferencingError) as error:
            raise SchemaError(f"this JSON schema cannot be used: {str(error).splitlines()[0]}") from error
        self.root_types: frozenset[str] = _types(self._schema, self._schema, {})
        self.names: frozenset[str] = frozenset(
            name for node in _alternatives(self._schema) for name in node.get("properties", ())
        )
        self.root_words = expectation_of(self._schema, self.part)

    @classmethod
    def of(cls, schema: Schema | Mapping[str, Any] | bool) -> Schema:
        """Return the compiled schema; `schema` itself if it is one."""
        return schema if isinstance(schema, Schema) else cls(schema)

    def __repr__(self) -> str:
        return f"Schema({json_values.preview(self._schema, 60)})"

    def takes_type_of(self, value: Any) -> bool:
        """Return whether the schema accepts values of this type at its root."""
        return json_values.type_of(value).replace("integer", "number") in self.root_types

    def part(self, rule: Path) -> Any:
        """Return the part of the schema at `rule`, or None."""
        node: Any = self._schema
        for step in rule:
            try:
                node = node[step]
            except (KeyError, IndexError, TypeError):
                return None
        return node

    def problems(self, value: Any) -> tuple[Problem, ...]:
        """Return everything that is wrong with a value; empty if the schema accepts it. Never raise."""
        foreign = json_values.not_json(value)
        if any(path == () for path in foreign):
            return (Problem("", self.root_words, foreign[()]),)
        clean = json_values.replaced(value, dict.fromkeys(foreign)) if foreign else value
        try:
            errors = list(islice(self._validator.iter_errors(clean), MAX_PROBLEMS))
        except (ValueError, RecursionError, OverflowError) as error:
            return (Problem("", self.root_words, json_values.preview(value), f"this value cannot be checked: {error}"),)
        found = {problem: None for error in errors for problem in self._explain(error, value)}
        if not foreign:
            return tuple(found)
        expected = {problem.path: problem.expected for problem in found}
        paths = {pointer(path): got for path, got in foreign.items()}
        not_json = [Problem(path, expected.get(path) or "a JSON value", got) for path, got in paths.items()]
        return (*not_json, *(problem for problem in found if problem.path not in paths))

    def _explain(self, error: jsonschema_rs.ValidationError, value: Any) -> Iterator[Problem]:
        """Yield the problems of an error of the validator; for alternatives, those of the one that fits best."""
        kind = error.kind.name
        path, rule = tuple(error.instance_path), tuple(error.schema_path)
        if kind in ("anyOf", "oneOf"):
            branch = _closest(error)
            if branch:
                for inner in branch:
                    yield from self._explain(inner, value)
                return
        details = {} if kind in ("anyOf", "oneOf") else error.kind.as_dict()
        node = self.part(rule[:-1])
        if kind == "required":
            name = str(details["property"])
            expected = expectation_of(_child(node, name), self.part)
            yield Problem(
                pointer((*path, name)), expected, "nothing", f"this field is missing; expected {expected}", rule[:-1]
            )
        elif kind in ("additionalProperties", "unevaluatedProperties"):
            known = either(node.get("properties", ()) if isinstance(node, dict) else (), "and")
            expected = f"only these fields: {known}" if known else "no such field"
            for name in map(str, details["unexpected"]):
                got = json_values.preview_typed(json_values.at(value, (*path, name), None))
                message = f"the schema has no such field; remove it or rename it (expected {expected}; got {got})"
                yield Problem(pointer((*path, name)), expected, got, message, rule[:-1])
        else:
            expected = expectation_from(kind, details, node, self.part)
            got = json_values.preview_typed(json_values.at(value, path, error.instance))
            yield Problem(pointer(path), expected, got, rule=rule[:-1])


def describe(problems: Iterable[Problem], limit: int = 50) -> str:
    """Return the problems as lines, at most `limit`."""
    lines = [str(problem) for problem in problems]
    if len(lines) > limit:
        lines[limit:] = [f"... and {len(lines) - limit} more problems of this kind"]
    return "\n".join(lines)


# ---------------------------------------------------------------------- the schema


def _alternatives(root: Any) -> Iterator[dict[str, Any]]:
    """Yield the schemas for a value, or for the items of a list, each once; references are resolved."""
    seen: set[int] = set()
    remaining = [root]
    while remaining:
        node = remaining.pop()
        if not isinstance(node, dict) or id(node) in seen:
            continue
        seen.add(id(node))
        yield node
        remaining += [*node.get("anyOf", ()), *node.get("oneOf", ()), *node.get("allOf", ()), *_items(node)]
        if isinstance(node.get("$ref"), str):
            remaining.append(resolve(node, root))


def _items(node: dict[str, Any]) -> list[Any]:
    """Return the schema of the items, if only a list is accepted here."""
    return [node["items"]] if node.get("type") == "array" and "items" in node else []


def _types(node: Any, root: Any, known: dict[int, frozenset[str]]) -> frozenset[str]:
    """Return the JSON types of values at this place; "number" includes integers."""
    node = resolve(node, root)
    if not isinstance(node, dict):
        return _ALL_TYPES
    if id(node) not in known:
        known[id(node)] = _ALL_TYPES  # where it refers to itself
        known[id(node)] = _own_types(node, root, known)
    return known[id(node)]


def _own_types(node: dict[str, Any], root: Any, known: dict[int, frozenset[str]]) -> frozenset[str]:
    types: Iterable[str] = ()
    if "type" in node:
        types = [node["type"]] if isinstance(node["type"], str) else node["type"]
    elif "const" in node or "enum" in node:
        types = map(json_values.type_of, node.get("enum", [node.get("const")]))
    elif branches := (*node.get("anyOf", ()), *node.get("oneOf", ())):
        types = frozenset().union(*(_types(branch, root, known) for branch in branches))
    elif "allOf" in node:
        types = _ALL_TYPES.intersection(*(_types(branch, root, known) for branch in node["allOf"]))
    return frozenset("number" if kind == "integer" else kind for kind in types) or _ALL_TYPES


def _child(node: Any, name: str) -> Any:
    return node.get("properties", {}).get(name, True) if isinstance(node, dict) else True


def _closest(error: jsonschema_rs.ValidationError) -> list[jsonschema_rs.ValidationError] | None:
    """Return the errors of the alternative that the value was probably meant for; None if there is none."""
    here = error.instance_path
    branches = [branch for branch in error.kind.value if branch]
    if len(branches) < len(error.kind.value) or not branches:
        return None  # more than one alternative fits

    def distance(branch: list[jsonschema_rs.ValidationError]) -> tuple[bool, int, int]:
        wrong_type = any(e.kind.name == "type" and e.instance_path == here for e in branch)
        wrong_tag = sum(e.kind.name in ("const", "enum") for e in branch)
        return wrong_type, wrong_tag, len(branch)

    best = min(branches, key=distance)
    return None if distance(best)[0] else best


def _is_instant(text: str) -> bool:
    """Check a date and time; unlike RFC 3339, without an offset as well, as `isoformat` writes it."""
    return bool(_INSTANT.fullmatch(text)) and _parses(datetime.fromisoformat, text)


def _is_clock(text: str) -> bool:
    return bool(_CLOCK.fullmatch(text)) and _parses(time.fromisoformat, text)


def _is_duration(text: str) -> bool:
    """Check a duration; unlike RFC 3339, with a sign, years beside days and fractions, as pydantic writes it."""
    return bool(_DURATION.fullmatch(text))


def _parses(reader: Any, text: str) -> bool:
    try:
        reader(text.upper())
    except ValueError:
        return False
    return True


TYPE_WORDS = {
    "object": "an object",
    "array": "a list",
    "string": "a string",
    "integer": "an integer",
    "number": "a number",
    "boolean": "true or false",
    "null": "null",
}
_FORMATS = {
    "date": "a date such as 2024-01-31",
    "date-time": "a date and time such as 2024-01-31T09:30:00Z",
    "time": "a time such as 09:30:00",
    "duration": "a duration such as P1DT2H",
    "email": "an e-mail address",
    "uri": "a URI such as https://example.org/a",
    "uuid": "a UUID such as 123e4567-e89b-12d3-a456-426614174000",
}
_LIMITS = {
    "minimum": "a number of at least {0}",
    "maximum": "a number of at most {0}",
    "exclusiveMinimum": "a number greater than {0}",
    "exclusiveMaximum": "a number less than {0}",
    "multipleOf": "a multiple of {0}",
    "minLength": "a string of at least {0} characters",
    "maxLength": "a string of at most {0} characters",
    "minItems": "a list of at least {0} items",
    "maxItems": "a list of at most {0} items",
    "minProperties": "an object with at least {0} fields",
    "maxProperties": "an object with at most {0} fields",
}
_ALL_TYPES = frozenset(TYPE_WORDS) - {"integer"}

Part = Callable[[Path], Any]
_MAX_WORDS = 2_500


def either(words: Iterable[str], last: str = "or") -> str:
    """Return `a, b or c`, without repetitions."""
    unique = list(dict.fromkeys(words))
    return f"{', '.join(unique[:-1])} {last} {unique[-1]}" if len(unique) > 1 else "".join(unique)


def resolve(node: Any, root: Any) -> Any:
    """Return what a `$ref` points to, if it is a pointer into this schema."""
    for _ in range(8):
        reference = node.get("$ref") if isinstance(node, dict) else None
        if not isinstance(reference, str) or not reference.startswith("#"):
            break
        node = root
        for step in filter(None, reference[1:].split("/")):
            key = step.replace("~1", "/").replace("~0", "~")
            if not isinstance(node, dict) or key not in node:
                return True
            node = node[key]
    return node


# ---------------------------------------------------------------------- what was expected


def expectation_from(kind: str, details: Mapping[str, Any], node: Any, part: Part) -> str:
    """Return what the failed keyword `kind` of the subschema `node` expects."""
    if kind in ("anyOf", "oneOf"):
        if kind == "oneOf" and isinstance(node, dict) and len(_fits(node)) == 1:
            return "a value that fits exactly one of the alternatives"
        return expectation_of(node, part)
    if kind in _LIMITS and isinstance(node, dict):
        return _LIMITS[kind].format(preview(node.get(kind)))
    if kind == "type":
        return either(_typed(name, node, part) for name in _in_order(details["types"]))
    if kind in ("enum", "const", "format"):
        return expectation_of({kind: node[kind]} if isinstance(node, dict) and kind in node else True, part)
    if kind == "pattern":
        return f"a string that matches the pattern {details['pattern']}"
    if kind == "uniqueItems":
        return "a list in which nothing comes twice"
    if kind == "falseSchema":
        return "nothing here; remove it"
    if kind == "contains":
        inner = node.get("contains", True) if isinstance(node, dict) else True
        return f"a list with {expectation_of(inner, part)} in it"
    if kind == "propertyNames":
        return f"other names of fields ({details['error'].message})"
    if kind == "not":
        return f"anything but what fits {preview(details['schema'])}"
    return f"a value that satisfies '{kind}'"


def _fits(node: dict[str, Any]) -> set[str]:
    return {json.dumps(branch.get("type")) for branch in node.get("oneOf", ()) if isinstance(branch, dict)}


def expectation_of(node: Any, part: Part, depth: int = 0, known: dict[tuple[int, int], str] | None = None) -> str:
    """Return what a subschema accepts, in a few words. Each part of the schema is described once (`known`)."""
    node = resolve(node, part(()))
    if not isinstance(node, dict) or depth > 3:
        return "a value"
    known = {} if known is None else known
    key = (id(node), depth)
    if key not in known:
        known[key] = "a value"
        words = _expected(node, part, depth, known)
        known[key] = shorten(words, _MAX_WORDS)
    return known[key]


def _expected(node: dict[str, Any], part: Part, depth: int, known: dict[tuple[int, int], str]) -> str:
    if "const" in node:
        return f"exactly {preview(node['const'])}"
    if "enum" in node:
        options = [preview(option, 60) for option in node["enum"]]
        shown = options if len(options) <= 30 else [*options[:30], f"... {len(options) - 30} more"]
        return f"one of {', '.join(shown)}" if len(options) > 1 else f"exactly {options[0]}"
    for union in ("anyOf", "oneOf"):
        if node.get(union):
            return either(expectation_of(branch, part, depth + 1, known) for branch in node[union])
    if len(node.get("allOf", ())) == 1:
        return expectation_of(node["allOf"][0], part, depth + 1, known)
    if node.get("format") in _FORMATS:
        return _FORMATS[node["format"]]
    kinds = node.get("type", "object" if "properties" in node else None)
    if kinds is None:
        return "a value" if "format" not in node else f"a string in the format {node['format']}"
    return either(
        _typed(kind, node, part, depth, known) for kind in _in_order([kinds] if isinstance(kinds, str) else kinds)
    )


def _typed(kind: str, node: Any, part: Part, depth: int = 0, known: dict[tuple[int, int], str] | None = None) -> str:
    words = TYPE_WORDS.get(kind, kind)
    if not isinstance(node, dict):
        return words
    if kind == "object" and node.get("properties"):
        names = list(node.get("required") or node["properties"])
        if len(names) == 1:
            return f"an object with the field {names[0]}"
        shown = names if len(names) <= 12 else [*names[:12], f"{len(names) - 12} others"]
        return f"an object with the fields {either(shown, 'and')}"
    if kind == "array" and isinstance(node.get("items"), dict):
        inner = expectation_of(node["items"], part, depth + 1, known)
        return words if inner == "a value" else f"a list whose items are each {inner}"
    if kind == "string" and node.get("format") in _FORMATS:
        return _FORMATS[node["format"]]
    return words


def _in_order(kinds: Iterable[str]) -> list[str]:
    """Return the types with null last, as in `an integer or null`."""
    return sorted(kinds, key=lambda kind: kind == "null")
