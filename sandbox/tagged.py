"""Values that JSON does not know, as they arrive from a kernel: `{"$type": "set", "$value": [...]}`."""

from __future__ import annotations

from typing import Any

_MARK = b'"$type"'
_TAG = frozenset(("$type", "$value"))
_MAX_NAMES = 1_000
_Path = tuple["_Path | None", "int | str"]


def may_be_tagged(text: bytes) -> bool:
    """Return whether a JSON text may hold tagged values."""
    return _MARK in text


def plain(decoded: dict[str, Any]) -> Any:
    """Return the value of a tagged object, any other as it is: an `object_hook` for `json`."""
    return decoded["$value"] if len(decoded) == 2 and decoded.keys() == _TAG else decoded


def untagged(value: Any) -> Any:
    """Return a copy with the plain values: a set as a list, a date as text, a dataclass as a dict."""
    whole = [value]
    todo: list[Any] = [whole]
    while todo:
        container = todo.pop()
        for key, item in list(enumerate(container) if isinstance(container, list) else container.items()):
            while isinstance(item, dict) and item.keys() == _TAG:
                item = item["$value"]
            if isinstance(item, list | dict):
                item = item.copy()
                todo.append(item)
            container[key] = item
    return whole[0]


def type_names(value: Any, path: str = "") -> dict[str, str]:
    """Return what the tagged values were, by JSON pointer; the first thousand of them."""
    found: dict[str, str] = {}
    todo: list[tuple[_Path | None, Any]] = [(None, value)]
    while todo and len(found) < _MAX_NAMES:
        at, item = todo.pop()
        if isinstance(item, list):
            todo += [((at, index), item_value) for index, item_value in enumerate(item)]
        elif isinstance(item, dict):
            if item.keys() == _TAG:
                found[path + _pointer(at)] = str(item["$type"])[:100]
                todo.append((at, item["$value"]))
            else:
                todo += [((at, key), item_value) for key, item_value in item.items()]
    return found


def _pointer(path: _Path | None) -> str:
    keys: list[int | str] = []
    while path is not None:
        path, key = path
        keys.append(key)
    return "".join("/" + str(key).replace("~", "~0").replace("/", "~1") for key in reversed(keys))
