"""Values that JSON does not know, as they arrive from a kernel: `{"$type": "set", "$value": [...]}`."""

from __future__ import annotations

from typing import Any


def untagged(value: Any) -> Any:
    """The plain values: a set as a list, a date as text, a dataclass as a dict."""
    if isinstance(value, list):
        return [untagged(one) for one in value]
    if isinstance(value, dict):
        if value.keys() == {"$type", "$value"}:
            return untagged(value["$value"])
        return {key: untagged(one) for key, one in value.items()}
    return value


def type_names(value: Any, path: str = "") -> dict[str, str]:
    """What the tagged values were, by JSON pointer."""
    found: dict[str, str] = {}
    todo = [(path, value)]
    while todo:
        at, one = todo.pop()
        if isinstance(one, list):
            todo += [(f"{at}/{index}", item) for index, item in enumerate(one)]
        elif isinstance(one, dict):
            if one.keys() == {"$type", "$value"}:
                found[at] = str(one["$type"])[:100]
                todo.append((at, one["$value"]))
            else:
                todo += [(f"{at}/{_escaped(str(key))}", item) for key, item in one.items()]
    return found


def _escaped(key: str) -> str:
    return key.replace("~", "~0").replace("/", "~1")
