"""The parser of signatures in text form, `"doc: str, question -> answer: int"`.

The text may come from a model (`rlm_query`): it is bounded in length and depth, parsed with `ast` and never evaluated.
"""

from __future__ import annotations

import ast
import datetime
import difflib
import keyword
import re
import types as python_types
from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Any, Literal, NoReturn, Optional, Union

from ..errors import RlmError
from ..mounts import File, Folder
from .cited import Cited

_MAX_CHARS = 20_000
_MAX_DEPTH = 30
_HEADER = "def _(*,"

_PLAIN: dict[str, Any] = {
    "str": str,
    "int": int,
    "float": float,
    "bool": bool,
    "date": datetime.date,
    "datetime": datetime.datetime,
    "datetime.date": datetime.date,
    "datetime.datetime": datetime.datetime,
    "Any": Any,
    "list": list[Any],
    "dict": dict[str, Any],
    "File": File,
    "Folder": Folder,
    "rlm.File": File,
    "rlm.Folder": Folder,
}
# The number of parameters; None is any number.
_GENERIC: dict[str, tuple[Any, int | None]] = {
    "list": (list, 1),
    "List": (list, 1),
    "dict": (dict, 2),
    "Dict": (dict, 2),
    "set": (set, 1),
    "tuple": (tuple, None),
    "Optional": (Optional, 1),
    "Union": (Union, None),
    "Cited": (Cited, 1),
}


class Missing(Enum):
    """The type of `REQUIRED`; an enum, so that it is the same object after unpickling."""

    REQUIRED = "required"

    def __repr__(self) -> str:
        return self.name


REQUIRED = Missing.REQUIRED


class SignatureError(RlmError, ValueError):
    """A signature cannot be read; the message says what is wrong, where, and what would be right."""

    def __init__(self, message: str, text: str | None = None, position: int | None = None) -> None:
        self.text, self.position = text, position
        if text is not None and position is not None:
            before = text[:position]
            line = before.count("\n")
            column = position - (before.rfind("\n") + 1)
            shown = text.split("\n")[line]
            start = max(0, column - 60)
            where = f"column {column + 1}" if "\n" not in text else f"line {line + 1}, column {column + 1}"
            message = f"{message} (at {where})\n  {shown[start : column + 40]}\n  {' ' * (column - start)}^"
        super().__init__(message)


@dataclass(frozen=True, slots=True)
class ParsedField:
    """One field as it was written, and its position in the text."""

    name: str
    type: Any
    default: Any
    position: int
    typed: bool
    """Whether a type was written."""


_WORD = re.compile(r"\w+")


def parse(text: str, types: Mapping[str, Any] | None = None) -> tuple[list[ParsedField], list[ParsedField]]:
    """Return the inputs and outputs of a signature in text form; `types` are more names of types that it may use."""
    if len(text) > _MAX_CHARS:
        raise SignatureError(f"the signature has {len(text):,} characters; at most {_MAX_CHARS:,} are read")
    arrow = _find_arrow(text)
    known = _PLAIN | dict(types or {})
    return _side(text, 0, arrow, known), _side(text, arrow + 2, len(text), known)


def _find_arrow(text: str) -> int:
    """Return the position of the only `->` outside of brackets and quotes, after checking that these are balanced."""
    arrow = -1
    opened: list[int] = []
    quote, quoted_at, at = "", 0, 0
    while at < len(text):
        char = text[at]
        if quote:
            if char == "\\":
                at += 1
            elif char == quote:
                quote = ""
        elif char in "\"'":
            quote, quoted_at = char, at
        elif char in "([{":
            opened.append(at)
            if len(opened) > _MAX_DEPTH:
                raise SignatureError(f"more than {_MAX_DEPTH} nested brackets", text, at)
        elif char in ")]}":
            if not opened:
                raise SignatureError(f"{char!r} closes nothing", text, at)
            opened.pop()
        elif char == "#":
            raise SignatureError("a signature has no comments; describe fields in the instructions", text, at)
        elif text.startswith("->", at):
            if opened:
                raise SignatureError(f"{text[opened[-1]]!r} is not closed before '->'", text, opened[-1])
            if arrow >= 0:
                raise SignatureError("a second '->'; a signature is 'inputs -> outputs'", text, at)
            arrow = at
            at += 1
        at += 1
    if quote:
        raise SignatureError("this quote is never closed", text, quoted_at)
    if opened:
        raise SignatureError(f"{text[opened[-1]]!r} is never closed", text, opened[-1])
    if arrow < 0:
        raise SignatureError("no '->'; a signature is 'inputs -> outputs', as in 'doc: str -> title: str'")
    return arrow


def _side(text: str, start: int, end: int, known: Mapping[str, Any]) -> list[ParsedField]:
    side = text[start:end]
    if not side.strip():
        return []
    places = _Places(text, start)
    try:
        # Keyword-only parameters may follow those with a default in any order, as fields may.
        tree = ast.parse(f"{_HEADER}{side}\n): pass")
    except SyntaxError as error:
        at = places.of(error.lineno or 1, (error.offset or 1) - 1, characters=True)
        word = _WORD.match(text, min(at, end))
        if word is not None and keyword.iskeyword(word[0]):
            raise SignatureError(f"{word[0]!r} is a keyword of Python; name the field otherwise", text, at) from None
        raise SignatureError(f"not a list of 'name: type' ({error.msg})", text, min(at, end)) from None
    except (ValueError, RecursionError, MemoryError) as error:
        raise SignatureError(f"not a list of 'name: type' ({error})", text, start) from None
    function = tree.body[0]
    assert isinstance(function, ast.FunctionDef)
    arguments = function.args
    if len(tree.body) != 1 or arguments.kwarg or arguments.args or arguments.posonlyargs or arguments.vararg:
        raise SignatureError("only 'name: type' fields can stand here, without * or **", text, start)
    reader = _TypeReader(text, places, known)
    fields = []
    for argument, default in zip(arguments.kwonlyargs, arguments.kw_defaults, strict=True):
        typed = argument.annotation is not None
        annotation = reader.read(argument.annotation) if argument.annotation is not None else str
        fields.append(ParsedField(argument.arg, annotation, reader.constant(default), places.at(argument), typed))
    return fields


class _Places:
    """Converts positions of `ast` in one side of a signature to positions in its text."""

    def __init__(self, text: str, start: int) -> None:
        self._text, self._start = text, start

    def of(self, line: int, column: int, *, characters: bool = False) -> int:
        lines = self._text[self._start :].split("\n")
        line = min(line, len(lines))
        row = ("" if line > 1 else _HEADER) + lines[line - 1]
        # `ast` counts columns in bytes of UTF-8, a SyntaxError in characters.
        column = column if characters else len(row.encode()[:column].decode(errors="ignore"))
        before = sum(len(previous) + 1 for previous in lines[: line - 1]) - (len(_HEADER) if line == 1 else 0)
        return max(self._start, min(self._start + before + column, len(self._text)))

    def at(self, node: ast.expr | ast.arg) -> int:
        return self.of(node.lineno, node.col_offset)


class _TypeReader:
    """Reads types from syntax trees: known names and subscripts, and nothing else."""

    def __init__(self, text: str, places: _Places, known: Mapping[str, Any]) -> None:
        self._text, self._places, self._known = text, places, known

    def read(self, node: ast.expr) -> Any:
        match node:
            case ast.Name() | ast.Attribute():
                return self._named(node)
            case ast.Constant(value=None):
                return None
            case ast.Constant(value=str()):
                self._refuse(node, "a type is written without quotes")
            case ast.BinOp(op=ast.BitOr(), left=left, right=right):
                return Union[self.read(left), self.read(right)]  # noqa: UP007  # built at run time
            case ast.Subscript(value=value, slice=inner):
                return self._generic(node, _dotted(value) or "", inner)
        return self._refuse(node, "not a type")

    def constant(self, node: ast.expr | None) -> Any:
        """Return the value of a default, which must be a literal."""
        if node is None:
            return REQUIRED
        try:
            return ast.literal_eval(node)
        except (ValueError, TypeError, SyntaxError, MemoryError, RecursionError):
            self._refuse(node, "a default is a plain literal")

    def _named(self, node: ast.expr) -> Any:
        name = _dotted(node)
        if name is not None and name in self._known:
            return self._known[name]
        names = sorted({*self._known, *_GENERIC, "Literal"})
        close = difflib.get_close_matches(name or "", names, n=1)
        hint = f"; did you mean {close[0]!r}?" if close else f"; known are {', '.join(names)}"
        return self._refuse(node, f"unknown type {name or ast.unparse(node)!r}{hint}")

    def _generic(self, node: ast.expr, name: str, inner: ast.expr) -> Any:
        name = name.removeprefix("typing.")
        parameters = list(inner.elts) if isinstance(inner, ast.Tuple) else [inner]
        if name == "Literal":
            return Literal[tuple(self._literal(item) for item in parameters)]
        if name not in _GENERIC:
            names = ", ".join([*_GENERIC, "Literal"])
            self._refuse(node, f"{name or 'this'!r} takes no [...]; what does: {names}")
        generic, count = _GENERIC[name]
        if not parameters or (count is not None and len(parameters) != count):
            self._refuse(node, f"{name}[...] takes {count or 'some'} parameter(s), not {len(parameters)}")
        if generic is tuple and len(parameters) == 2 and _is_ellipsis(parameters[1]):
            return python_types.GenericAlias(tuple, (self.read(parameters[0]), ...))
        types = tuple(self.read(item) for item in parameters)
        if generic is Optional:
            return Optional[types[0]]  # noqa: UP045
        if generic is Union:
            return Union[types]  # noqa: UP007
        return Cited.__class_getitem__(types[0]) if generic is Cited else python_types.GenericAlias(generic, types)

    def _literal(self, node: ast.expr) -> Any:
        value = self.constant(node)
        if value is not None and not isinstance(value, str | int):
            self._refuse(node, "Literal[...] holds strings, whole numbers, booleans and None")
        return value

    def _refuse(self, node: ast.expr, message: str) -> NoReturn:
        raise SignatureError(message, self._text, self._places.at(node))


def _is_ellipsis(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and node.value is ...


def _dotted(node: ast.expr) -> str | None:
    parts = []
    while isinstance(node, ast.Attribute):
        parts.append(node.attr)
        node = node.value
    if not isinstance(node, ast.Name):
        return None
    return ".".join([node.id, *reversed(parts)])
