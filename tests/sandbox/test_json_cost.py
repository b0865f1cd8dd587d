"""The memory of decoded JSON: estimated before it is decoded, and never much too low."""

from __future__ import annotations

import json
import tracemalloc

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sandbox.json_cost import decoded_bytes, is_deeper
from sandbox.tagged import type_names, untagged

_TEXTS = {
    "lists": b"[" + b"[]," * 100_000 + b"1]",
    "nested lists": b"[" + (b"[" * 400 + b"]" * 400 + b",") * 300 + b"1]",
    "objects": b"[" + b'{"a":1},' * 50_000 + b"1]",
    "empty objects": b"[" + b"{}," * 100_000 + b"1]",
    "nested objects": b"[" + (b'{"":' * 400 + b"1" + b"}" * 400 + b",") * 100 + b"1]",
    "texts": b"[" + b'"ab",' * 80_000 + b"1]",
    "numbers": b"[" + b"1.5," * 100_000 + b"1]",
    "a large object": json.dumps({f"k{i}": i for i in range(40_000)}).encode(),
    "one wide text": b'"' + b"x" * 500_000 + "\U0001f600".encode() + b'"',
    "escapes": b'"' + b"\\ud83d\\ude00" * 50_000 + b"x" * 200_000 + b'"',
}


@pytest.mark.parametrize("kind", _TEXTS)
def test_the_estimate_is_not_below_what_it_takes(kind):
    text = _TEXTS[kind]
    tracemalloc.start()
    value = json.loads(str(text, "utf-8"))
    taken, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert value is not None
    assert 0.9 * taken <= decoded_bytes(text) < 100 * len(text)


@pytest.mark.parametrize("inside", ["[1, 2] ", '{"a": "b"}, ', "a,b,c\n", '\\"quoted\\" '])
def test_what_looks_like_structure_inside_of_a_text_costs_little(inside):
    text = json.dumps([inside * 20_000]).encode()
    assert decoded_bytes(text) <= 6 * len(text)


_VALUES = st.recursive(
    st.none() | st.integers() | st.text(), lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner)
)


def _depth(value):
    if isinstance(value, list | dict):
        return 1 + max(map(_depth, value.values() if isinstance(value, dict) else value), default=0)
    return 0


@given(value=_VALUES)
def test_the_depth_of_a_text_is_that_of_its_value(value):
    text = json.dumps(value).encode()
    assert [is_deeper(text, levels) for levels in range(8)] == [_depth(value) > levels for levels in range(8)]


@given(noise=st.binary(max_size=20_000))
def test_noise_has_an_estimate_too(noise):
    assert decoded_bytes(noise) >= 0
    assert is_deeper(noise, 5) in (True, False)


def test_a_deep_value_is_untagged_and_its_types_are_named():
    deep = {"$type": "set", "$value": [1]}
    for _ in range(5_000):
        deep = [deep]
    plain = untagged(deep)
    for _ in range(5_000):
        plain = plain[0]
    assert plain == [1]
    (path,) = type_names(deep)
    assert path == "/0" * 5_000
