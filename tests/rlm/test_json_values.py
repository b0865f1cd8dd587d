"""Values as JSON: text, paths, previews and replaced parts."""

from __future__ import annotations

import datetime
import json
import time

from rlm.json_values import at, dump, locate, pointer, preview, preview_typed, replaced


def test_lone_surrogates_are_escaped_and_other_characters_stay() -> None:
    for value in ({"a": "caf\u00e9"}, {"a": "half \ud800", "b": "caf\u00e9"}):
        assert json.loads(dump(value)) == value
        dump(value).encode()
    assert "caf\u00e9" in dump({"a": "caf\u00e9"})


def test_a_pointer_escapes_what_separates_its_steps() -> None:
    assert pointer(("a/b", 0, "c~d")) == "/a~1b/0/c~0d"
    assert pointer(()) == ""


def test_a_location_of_pydantic_is_followed_without_the_branches_of_unions() -> None:
    value = {"a": [{"b": 1}]}
    assert locate(value, ("a", 0, "Model", "b", "int")) == (("a", 0, "b"), 1)
    assert locate(value, ("a", 7)) == (("a",), [{"b": 1}])


def test_parts_are_replaced_in_a_copy() -> None:
    value = {"a": [1, {"b": 2}], "c": 3}
    assert replaced(value, {("a", 1, "b"): None, ("c",): [4]}) == {"a": [1, {"b": None}], "c": [4]}
    assert value == {"a": [1, {"b": 2}], "c": 3}
    assert (at(value, ("a", 1, "b"), "none"), at(value, ("a", 9), "none")) == (2, "none")


def test_a_preview_has_both_ends_and_the_type_and_is_quick_for_huge_values() -> None:
    assert preview_typed("abc") == '"abc" (a string)'
    assert preview_typed([1, 2]) == "[1, 2] (a list of 2)"
    assert preview_typed(None) == "null"
    assert preview_typed(datetime.date(2026, 1, 2)) == "a value of type date"
    began = time.process_time()
    text = preview("begin" + "x" * 50_000_000 + "end")
    assert time.process_time() - began < 2
    assert len(text) == 160
    assert text.startswith('"begin')
    assert text.endswith('end"')
