"""Answers that do not end: a small model that is held to a list may say the same again and again, to its limit."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

_FEW, _WORD = 8, 12


def loops(text: str) -> bool:
    """Whether the end of a text is one piece, four times or more."""
    return any(text.endswith(text[-size:] * 4) for size in range(1, len(text) // 4 + 1))


def room_for(max_tokens: int) -> int:
    """How many characters fit into so many tokens: few tokens of JSON are shorter than two."""
    return 2 * max_tokens


def bounded(schema: Any, room: int) -> Any:
    """The schema with lists and texts so short that an answer has about so many characters."""
    if not isinstance(schema, Mapping):
        return schema
    made = dict(schema)
    for key in ("$defs", "definitions"):
        if key in made:
            made[key] = {name: bounded(part, room // 4) for name, part in made[key].items()}
    if "anyOf" in made:
        made["anyOf"] = [bounded(part, room) for part in made["anyOf"]]
    match made.get("type"):
        case "object" if made.get("properties"):
            each = room // len(made["properties"])
            made["properties"] = {name: bounded(part, each) for name, part in made["properties"].items()}
        case "array":
            most = max(made.get("minItems", 0), min(made.get("maxItems", _FEW), _FEW))
            made |= {"maxItems": most, "items": bounded(made.get("items", True), room // max(most, 1))}
        case "string" if not made.keys() & {"enum", "pattern", "format"}:
            most = max(made.get("minLength", 0), room, _WORD)
            made["maxLength"] = min(made.get("maxLength", most), most)
    return made
