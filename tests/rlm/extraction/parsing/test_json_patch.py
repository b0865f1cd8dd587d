"""JSON Patch: the operations of RFC 6902, and words for a patch that does not apply."""

from __future__ import annotations

import copy
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rlm.extraction import PatchError
from rlm.extraction.parsing import json_patch

VALUE: dict[str, Any] = {"a": 1, "list": [1, 2, 3], "in": {"x/y": "z", "m~n": None}}


@pytest.mark.parametrize(
    ("operation", "path", "result"),
    [
        ({"op": "replace", "path": "/a", "value": 2}, "a", 2),
        ({"op": "add", "path": "/b", "value": {"c": 1}}, "b", {"c": 1}),
        ({"op": "add", "path": "/list/1", "value": 9}, "list", [1, 9, 2, 3]),
        ({"op": "add", "path": "/list/-", "value": 9}, "list", [1, 2, 3, 9]),
        ({"op": "add", "path": "/list/3", "value": 9}, "list", [1, 2, 3, 9]),
        ({"op": "remove", "path": "/list/0"}, "list", [2, 3]),
        ({"op": "replace", "path": "/in/x~1y", "value": 1}, "in", {"x/y": 1, "m~n": None}),
        ({"op": "remove", "path": "/in/m~0n"}, "in", {"x/y": "z"}),
        ({"op": "move", "from": "/a", "path": "/list/-"}, "list", [1, 2, 3, 1]),
        ({"op": "copy", "from": "/list", "path": "/b"}, "b", [1, 2, 3]),
        ({"op": "test", "path": "/a", "value": 1.0}, "a", 1),
    ],
)
def test_the_operations(operation: dict[str, Any], path: str, result: Any) -> None:
    before = copy.deepcopy(VALUE)
    assert json_patch.apply(VALUE, [operation])[path] == result
    assert before == VALUE


def test_the_whole_value_can_be_replaced() -> None:
    assert json_patch.apply(VALUE, [{"op": "replace", "path": "", "value": [1]}]) == [1]


def test_a_copied_value_is_a_copy() -> None:
    patch = [{"op": "copy", "from": "/list", "path": "/b"}, {"op": "add", "path": "/b/-", "value": 4}]
    assert json_patch.apply(VALUE, patch)["list"] == [1, 2, 3]


@pytest.mark.parametrize(
    ("operation", "words"),
    [
        ({"op": "replace", "path": "/none", "value": 1}, "there is no field 'none' there (there is: a, list, in)"),
        ({"op": "remove", "path": "/list/3"}, "the list there has 3 items"),
        ({"op": "add", "path": "/list/9", "value": 1}, "the list there has 3 items"),
        ({"op": "add", "path": "/list/x", "value": 1}, "'x' is not an index"),
        ({"op": "add", "path": "/list/01", "value": 1}, "'01' is not an index"),
        ({"op": "add", "path": "/a/b", "value": 1}, "'b' is looked for in 1 (an integer)"),
        ({"op": "test", "path": "/a", "value": True}, "the value there is 1 (an integer)"),
        ({"op": "move", "from": "/in", "path": "/in/x"}, "cannot move into itself"),
        ({"op": "remove", "path": ""}, "cannot be removed"),
    ],
)
def test_a_patch_that_does_not_apply_is_a_problem_with_words(operation: dict[str, Any], words: str) -> None:
    with pytest.raises(PatchError, match="operation 2 of the patch") as caught:
        json_patch.apply(VALUE, [{"op": "test", "path": "/a", "value": 1}, operation])
    assert words in str(caught.value)
    assert caught.value.problem.path in (operation["path"], operation.get("from"))


@pytest.mark.parametrize(
    "text",
    [
        '[{"op": "remove", "path": "/a"}]',
        "```json\n[{'op': 'remove', 'path': '/a'},]\n```",
        'I remove it: {"op": "remove", "path": "/a"}',
    ],
)
def test_a_patch_is_found_in_what_a_model_writes(text: str) -> None:
    assert json_patch.find(text) == [{"op": "remove", "path": "/a"}]


@pytest.mark.parametrize(
    "text",
    [
        "",
        json.dumps(VALUE),
        '[{"op": "remove"}]',
        '[{"op": "increase", "path": "/a"}]',
        '[{"op": "add", "path": "/a"}]',
        '[{"op": "move", "path": "/a"}]',
        '[{"op": "remove", "path": "a"}]',
        '[{"op": "remove", "path": "/a"}, {"op": "rem',
        "[]",
    ],
)
def test_what_is_no_patch_is_not_taken_for_one(text: str) -> None:
    assert json_patch.find(text) is None


POINTERS = st.lists(st.sampled_from(["a", "list", "in", "0", "2", "7", "-", "x~1y", "", "~2"]), max_size=3).map(
    lambda steps: "".join("/" + step for step in steps)
)
OPERATIONS = st.fixed_dictionaries(
    {
        "op": st.sampled_from(["add", "remove", "replace", "test", "move", "copy"]),
        "path": POINTERS,
        "from": POINTERS,
        "value": st.none() | st.integers() | st.just({"a": [1]}),
    }
)


@given(st.lists(OPERATIONS, max_size=6))
def test_any_patch_applies_or_says_why_not_and_leaves_the_value_alone(patch: list[dict[str, Any]]) -> None:
    before = copy.deepcopy(VALUE)
    try:
        json.dumps(json_patch.apply(VALUE, patch))
    except PatchError:
        pass
    assert before == VALUE
