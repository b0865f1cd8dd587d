"""JSON Patch (RFC 6902): changes to the last answer of a model.

This is not a library because the six operations are short, and the messages must tell a small model what to do.
"""

from __future__ import annotations

import copy
import re
from typing import Any

from ... import json_values
from ...errors import RlmError
from ...signatures import Problem
from ..errors import ParseError, PatchError
from ..schema import Schema
from .find_answer import parse

Patch = list[dict[str, Any]]

MAX_OPERATIONS = 1_000
_POINTER = {"type": "string", "pattern": "^(/.*)?$"}
_OPERATION = {
    "type": "object",
    "properties": {
        "op": {"enum": ["add", "remove", "replace", "test", "move", "copy"]},
        "path": _POINTER,
        "from": _POINTER,
        "value": {},
    },
    "required": ["op", "path"],
    "allOf": [
        {
            "if": {"properties": {"op": {"enum": ["add", "replace", "test"]}}},
            "then": {"required": ["value"]},
        },
        {
            "if": {"properties": {"op": {"enum": ["move", "copy"]}}},
            "then": {"required": ["from"]},
        },
    ],
}
_PATCH = Schema({"type": "array", "items": _OPERATION, "minItems": 1, "maxItems": MAX_OPERATIONS})
_SINGLE = Schema(_OPERATION)
_INDEX = re.compile(r"0|[1-9][0-9]{0,8}")


def find(text: str) -> Patch | None:
    """Return the patch in the text of a model, or None. A single operation needs no list."""
    for schema in (_PATCH, _SINGLE):
        try:
            patch = parse(text, schema)
        except ParseError:
            continue
        return patch if isinstance(patch, list) else [patch]
    return None


def is_patch(value: Any) -> bool:
    """Return whether a value has the form of a patch."""
    return not (_PATCH if isinstance(value, list) else _SINGLE).problems(value)


def apply(value: Any, patch: Patch) -> Any:
    """Return a copy of `value` with the whole patch applied. Raise `PatchError`."""
    holder = [copy.deepcopy(value)]
    for number, operation in enumerate(patch, start=1):
        try:
            _apply_one(holder, operation)
        except _DoesNotApply as error:
            path = operation[error.field]
            kind = operation["op"]
            message = f"operation {number} of the patch ({kind}) does not apply: {error}; no part of it was applied"
            raise PatchError(Problem(path, "a path that exists", json_values.preview(operation), message)) from None
    return holder[0]


class _DoesNotApply(RlmError):
    def __init__(self, message: str, field: str = "path") -> None:
        super().__init__(message)
        self.field = field


def _apply_one(holder: list[Any], operation: dict[str, Any]) -> None:
    path, kind = operation["path"], operation["op"]
    match kind:
        case "add":
            _add(holder, path, copy.deepcopy(operation["value"]))
        case "replace":
            parent, key = _place(holder, path)
            _get(parent, key)
            parent[key] = copy.deepcopy(operation["value"])
        case "remove":
            _remove(holder, path, "path")
        case "test":
            parent, key = _place(holder, path)
            found = _get(parent, key)
            if not _same(found, operation["value"]):
                raise _DoesNotApply(f"the value there is {json_values.preview_typed(found)}")
        case "copy":
            parent, key = _place(holder, operation["from"], "from")
            _add(holder, path, copy.deepcopy(_get(parent, key, "from")))
        case "move":
            if path.startswith(operation["from"] + "/"):
                raise _DoesNotApply("a value cannot move into itself", "from")
            _add(holder, path, _remove(holder, operation["from"], "from"))


def _place(holder: list[Any], path: str, field: str = "path") -> tuple[Any, Any]:
    """Return the container that a pointer ends in, and the key there. The whole value is item 0 of `holder`."""
    parent: Any = holder
    key: Any = 0
    for step in path.split("/")[1:]:
        parent = _get(parent, key, field)
        name = step.replace("~1", "/").replace("~0", "~")
        if isinstance(parent, list):
            if name != "-" and not _INDEX.fullmatch(name):
                raise _DoesNotApply(f"there is a list there, and '{name[:60]}' is not an index", field)
            key = len(parent) if name == "-" else int(name)
        elif isinstance(parent, dict):
            key = name
        else:
            raise _DoesNotApply(f"'{name[:60]}' is looked for in {json_values.preview_typed(parent)}", field)
    return parent, key


def _get(parent: Any, key: Any, field: str = "path") -> Any:
    if isinstance(parent, dict) and key in parent:
        return parent[key]
    if isinstance(parent, list) and key < len(parent):
        return parent[key]
    if isinstance(parent, list):
        raise _DoesNotApply(f"the list there has {len(parent)} items", field)
    names = ", ".join(list(parent)[:12]) or "no fields"
    raise _DoesNotApply(f"there is no field '{key[:60]}' there (there is: {names[:300]})", field)


def _add(holder: list[Any], path: str, value: Any) -> None:
    parent, key = _place(holder, path)
    if isinstance(parent, dict) or parent is holder:
        parent[key] = value
    elif key <= len(parent):
        parent.insert(key, value)
    else:
        raise _DoesNotApply(f"the list there has {len(parent)} items")


def _remove(holder: list[Any], path: str, field: str) -> Any:
    if not path:
        raise _DoesNotApply("the whole value cannot be removed", field)
    parent, key = _place(holder, path, field)
    found = _get(parent, key, field)
    del parent[key]
    return found


def _same(left: Any, right: Any) -> bool:
    """Return whether two values are equal as JSON: 1 is 1.0, but true is not 1."""
    if isinstance(left, dict) and isinstance(right, dict):
        return left.keys() == right.keys() and all(_same(left[key], right[key]) for key in left)
    if isinstance(left, list) and isinstance(right, list):
        return len(left) == len(right) and all(map(_same, left, right))
    return isinstance(left, bool) == isinstance(right, bool) and bool(left == right)
