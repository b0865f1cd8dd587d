"""Signatures from JSON schemas: what honest ones say, and any JSON at all."""

from __future__ import annotations

import ast
import keyword
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rlm.mcp.listing import function_name, read_listing, with_free_names
from rlm.mcp.schemas import annotation, signature
from rlm.mcp.settings import McpServer

_KEYS = st.sampled_from(
    [
        *("type", "properties", "required", "items", "$ref", "$defs", "anyOf", "oneOf", "enum", "const", "default"),
        *("additionalProperties", "description", "x", "from", "a-b"),
    ]
)
_PLAIN = st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=40)
_WORDS = st.sampled_from(["string", "integer", "object", "array", "null", "#/$defs/x", "#", "#/properties/x", "x"])
ANY_JSON = st.recursive(
    _PLAIN | _WORDS,
    lambda inner: st.lists(inner, max_size=5) | st.dictionaries(_KEYS | st.text(max_size=9), inner, max_size=6),
    max_leaves=40,
)


@pytest.mark.parametrize(
    ("schema", "kind"),
    [
        ({"type": "string"}, "str"),
        ({"type": "integer"}, "int"),
        ({"type": ["number", "null"]}, "float | None"),
        ({"type": "array", "items": {"type": "boolean"}}, "list[bool]"),
        ({"type": "object", "additionalProperties": {"type": "integer"}}, "dict[str, int]"),
        ({"type": "object", "properties": {}}, "dict[str, Any]"),
        ({"enum": ["a", "b"]}, "Literal['a', 'b']"),
        ({"const": 3}, "Literal[3]"),
        ({"anyOf": [{"type": "string"}, {"type": "null"}]}, "str | None"),
        ({"$ref": "#/$defs/A", "$defs": {"A": {"type": "integer"}}}, "int"),
        ({"$ref": "#/$defs/B", "$defs": {}}, "Any"),
        ({"$ref": "http://evil.example/schema.json"}, "Any"),
        (True, "Any"),
    ],
)
def test_types_as_python_writes_them(schema: Any, kind: str) -> None:
    assert annotation(schema, schema) == kind


def test_a_signature_has_what_is_required_first() -> None:
    properties = {"limit": {"type": "integer", "default": 10}, "query": {"type": "string"}, "from": {"type": "string"}}
    schema = {"type": "object", "properties": properties, "required": ["query"]}
    assert signature(schema, {"type": "string"}) == "(query: str, limit: int = 10, **arguments) -> str"


@given(ANY_JSON, ANY_JSON)
def test_any_json_makes_one_short_line_that_is_no_code_of_the_servers(schema: Any, output: Any) -> None:
    shown = signature(schema, output)
    assert "\n" not in shown
    assert len(shown) < 64_000
    # Values stand where Python has literals, and types where it has names: nothing else gets in.
    head = shown.partition(" -> ")[0] if "'" not in shown else None
    if head is not None and "…" not in head:
        ast.parse(f"def f{head}: ...".replace("...)", "None)"))


@given(st.text(max_size=300))
def test_any_name_makes_a_name_that_is_free(name: str) -> None:
    made = function_name("t", name)
    assert made.isidentifier()
    assert made.isascii()
    assert not keyword.iskeyword(made)
    assert len(made) <= 64


@given(st.lists(st.tuples(st.text(max_size=20), ANY_JSON, ANY_JSON, st.text(max_size=200)), max_size=6))
def test_any_listing_makes_functions_with_names_of_their_own(listed: list[tuple[str, Any, Any, str]]) -> None:
    tools = [
        SimpleNamespace(name=name, input_schema=schema, output_schema=output, description=text, annotations=None)
        for name, schema, output, text in listed
    ]
    made = with_free_names(read_listing("t", McpServer(url="http://localhost/mcp"), tools), {"t_a", "t_b"})
    names = [tool.name for tool in made]
    assert len(set(names)) == len(names) == len({tool.name for tool in tools})
    assert not {"t_a", "t_b"} & set(names)
    for tool in made:
        assert len(tool.doc) <= 6_000
        assert not set(tool.doc) & set(map(chr, range(9)))
