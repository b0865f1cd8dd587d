"""YAML with the core schema of version 1.2, as editors check it: `no` and `2026-11-16` are text.

Tags beyond the plain ones, aliases (no document grows while it is read) and duplicate keys are errors. `compose`
returns nodes with their places, for messages about mistakes in a file; `load` returns values.
"""

from __future__ import annotations

import re
from typing import Any

import yaml
from yaml.composer import Composer, ComposerError
from yaml.events import AliasEvent
from yaml.parser import Parser
from yaml.reader import Reader, ReaderError
from yaml.resolver import BaseResolver
from yaml.scanner import Scanner

from .errors import RlmError

_MAX_DEPTH = 40
_TAG = "tag:yaml.org,2002:"
_PLAIN = ("str", "null", "bool", "int", "float")


class YamlError(RlmError, ValueError):
    """A text is not YAML as read here; line and column count from 1."""

    def __init__(self, message: str, line: int, column: int) -> None:
        super().__init__(f"line {line}, column {column}: {message}")
        self.message, self.line, self.column = message, line, column


def load(text: str) -> Any:
    """Return the value of a text. Raise `YamlError`."""
    node = compose(text)
    return None if node is None else _value(node)


def compose(text: str) -> Any:
    """Return the root node of a text, or None if it is empty. Raise `YamlError`."""
    try:
        return _Loader(text).get_single_node()
    except yaml.MarkedYAMLError as error:
        message, mark = _readable(error, text)
        raise YamlError(message, mark.line + 1 if mark else 1, mark.column + 1 if mark else 1) from None
    except ReaderError as error:
        message = f"a character that YAML does not allow (U+{error.character:04X})"
        before = text[: error.position]
        raise YamlError(message, before.count("\n") + 1, len(before) - before.rfind("\n")) from None


def is_text(node: Any) -> bool:
    """Return whether a node is text, as a key must be."""
    return isinstance(node, yaml.ScalarNode) and node.tag == f"{_TAG}str"


def scalar(node: Any) -> Any:
    """Return the value of a scalar node. Raise `YamlError`."""
    tag, text = node.tag.removeprefix(_TAG), node.value
    if tag not in _PLAIN:
        raise _at(node, f"tags such as {tag[:40]!r} are not read here; write the value without it")
    try:
        match tag:
            case "str":
                return text
            case "null":
                return None
            case "bool":
                return {"true": True, "false": False}[text.lower()]
            case "int":
                return int(text, 0) if text[:2] in ("0x", "0o") else int(text)
            case "float":
                return float(text.replace(".inf", "inf").replace(".nan", "nan")) if text[-1:].isalpha() else float(text)
    except (ValueError, KeyError):
        pass
    raise _at(node, f"{text[:40]!r} cannot be read as a value")


def _value(node: Any) -> Any:
    if isinstance(node, yaml.SequenceNode):
        return [_value(item) for item in node.value]
    if not isinstance(node, yaml.MappingNode):
        return scalar(node)
    mapping: dict[str, Any] = {}
    for key, value in node.value:
        if not is_text(key):
            raise _at(key, "a key is text; put it into quotes")
        if key.value in mapping:
            raise _at(key, f"{key.value!r} is here already; keep one")
        mapping[key.value] = _value(value)
    return mapping


def _at(node: Any, message: str) -> YamlError:
    return YamlError(message, node.start_mark.line + 1, node.start_mark.column + 1)


class _Resolver(BaseResolver):
    """The types of plain scalars in the core schema of YAML 1.2."""


for _name, _pattern, _first in (
    ("null", r"~|null|Null|NULL|", ["~", "n", "N", ""]),
    ("bool", r"true|True|TRUE|false|False|FALSE", list("tTfF")),
    ("int", r"[-+]?[0-9]+|0o[0-7]+|0x[0-9a-fA-F]+", list("-+0123456789")),
    (
        "float",
        r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?|[-+]?\.(inf|Inf|INF)|\.(nan|NaN|NAN)",
        list("-+.0123456789"),
    ),
):
    _Resolver.add_implicit_resolver(_TAG + _name, re.compile(f"^(?:{_pattern})$"), _first)


class _Loader(Reader, Scanner, Parser, Composer, _Resolver):
    """PyYAML up to the tree of nodes; no value is constructed."""

    def __init__(self, text: str) -> None:
        Reader.__init__(self, text)
        Scanner.__init__(self)
        Parser.__init__(self)
        Composer.__init__(self)
        BaseResolver.__init__(self)
        self._depth = 0

    def compose_node(self, parent: Any, index: Any) -> Any:
        event: Any = self.peek_event()  # type: ignore[no-untyped-call]
        if isinstance(event, AliasEvent):
            message = f"*{event.anchor}: aliases are not read here; write the value again"
            mark: Any = event.start_mark
            raise ComposerError(None, None, message, mark)
        self._depth += 1
        if self._depth > _MAX_DEPTH:
            raise ComposerError(None, None, f"nested more than {_MAX_DEPTH} deep", event.start_mark)
        try:
            return super().compose_node(parent, index)
        finally:
            self._depth -= 1


def _readable(error: yaml.MarkedYAMLError, text: str) -> tuple[str, Any]:
    """Return a message for a common mistake with its fix, or else PyYAML's message; and its place."""
    message, context = error.problem or error.context or "this is not YAML", error.context or ""
    start, mark = error.context_mark, error.problem_mark or error.context_mark
    if "while scanning a quoted scalar" in context and "end of stream" in message:
        return "a quote is opened here and never closed", start
    if mark is None:
        return message, None
    if context in ("while parsing a flow sequence", "while parsing a flow mapping") and start is not None:
        opened = f"the bracket opened in line {start.line + 1}, column {start.column + 1}"
        return f"{opened} is not closed, or a ',' is missing before this", mark
    if "mapping values are not allowed" in message:
        before = text.splitlines()[mark.line][: mark.column]
        if ": " in before:
            return "a second ': ' in this line; put a text that holds ': ' into quotes", mark
        return "a key does not fit here; check the indentation, and the ': ' of the line above", mark
    if "expected <block end>" in message and "scalar" in message:
        return "a text goes on after its end; check its quotes and its indentation", mark
    for part, advice in _ADVICE:
        if part in message:
            return advice, mark
    if match := re.fullmatch(r"found character '(.)' that cannot start any token", message):
        return f"a text cannot begin with {match[1]}; put it into quotes", mark
    if match := re.fullmatch(r"found unknown escape character '(.)'", message):
        return f"\\{match[1]} means nothing in double quotes; use single quotes, or \\\\{match[1]}", mark
    if match := re.fullmatch(r"expected the node content, but found '(.)'", message):
        return f"a value is missing before {match[1]}", mark
    return message, mark


_ADVICE = (
    ("'\\t' that cannot start any token", "a tab; indent with spaces"),
    ("could not find expected ':'", "a key without ':'"),
    ("expected a single document", "a second document ('---'); a file holds one"),
    ("found another document", "a second document ('---'); a file holds one"),
    ("expected <block end>", "this does not line up with what stands above it; check the indentation"),
    ("sequence entries are not allowed", "a list begins in a line of its own, or is written as [a, b]"),
)
