"""Descriptions of what a schema expects, of bounded length and readable for small models."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from ..json_values import Path, preview
from ..text import shorten

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


def expected_by(kind: str, details: Mapping[str, Any], node: Any, part: Part) -> str:
    """Return what the failed keyword `kind` of the subschema `node` expects."""
    if kind in ("anyOf", "oneOf"):
        if kind == "oneOf" and isinstance(node, dict) and len(_fits(node)) == 1:
            return "a value that fits exactly one of the alternatives"
        return expected(node, part)
    if kind in _LIMITS and isinstance(node, dict):
        return _LIMITS[kind].format(preview(node.get(kind)))
    if kind == "type":
        return either(_typed(name, node, part) for name in _in_order(details["types"]))
    if kind in ("enum", "const", "format"):
        return expected({kind: node[kind]} if isinstance(node, dict) and kind in node else True, part)
    if kind == "pattern":
        return f"a string that matches the pattern {details['pattern']}"
    if kind == "uniqueItems":
        return "a list in which nothing comes twice"
    if kind == "falseSchema":
        return "nothing here; remove it"
    if kind == "contains":
        inner = node.get("contains", True) if isinstance(node, dict) else True
        return f"a list with {expected(inner, part)} in it"
    if kind == "propertyNames":
        return f"other names of fields ({details['error'].message})"
    if kind == "not":
        return f"anything but what fits {preview(details['schema'])}"
    return f"a value that satisfies '{kind}'"


def _fits(node: dict[str, Any]) -> set[str]:
    return {json.dumps(branch.get("type")) for branch in node.get("oneOf", ()) if isinstance(branch, dict)}


def expected(node: Any, part: Part, depth: int = 0, known: dict[tuple[int, int], str] | None = None) -> str:
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
            return either(expected(branch, part, depth + 1, known) for branch in node[union])
    if len(node.get("allOf", ())) == 1:
        return expected(node["allOf"][0], part, depth + 1, known)
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
        inner = expected(node["items"], part, depth + 1, known)
        return words if inner == "a value" else f"a list whose items are each {inner}"
    if kind == "string" and node.get("format") in _FORMATS:
        return _FORMATS[node["format"]]
    return words


def _in_order(kinds: Iterable[str]) -> list[str]:
    """Return the types with null last, as in `an integer or null`."""
    return sorted(kinds, key=lambda kind: kind == "null")
