"""What a text is (a log, a table, JSON, Markdown, source code, mail, prose, one line), and its odd characters."""

from __future__ import annotations

import ast
import csv
import io
import json
import re
import warnings
from typing import Any

HEAD_CHARS = 64_000
MAX_PARSED = 8_000_000
"""Longer JSON documents are not parsed, and longer source code is not looked through."""

_TIME = re.compile(
    r"\d{4}[-/.]\d\d[-/.]\d\d|\d\d?:\d\d:\d\d|\b(?:Jan|Feb|Mar|Apr|May|Jun|Jul|Aug|Sep|Oct|Nov|Dec)\s+\d|^\W*\d{9,13}\b"
)
_LEVEL = re.compile(r"\b(?:TRACE|DEBUG|INFO|NOTICE|WARN(?:ING)?|ERROR|FATAL|CRITICAL|SEVERE)\b", re.IGNORECASE)
_HEADING = re.compile(r"#{1,6} +\S")
_HEADER = re.compile(r"(?:From|To|Cc|Subject|Date|Message-ID|Received|Return-Path|Reply-To|MIME-Version): ?\S?", re.I)
_CODE = re.compile(
    r"^\s*(?:def |class |import |from \w+ import|#include|package |using |func |fn |public |private |static |return\b|"
    r"const |let |var |if ?\(|for ?\(|while ?\(|}|//|/\*|elif |else:|try:|except|SELECT |CREATE )|[;{]\s*$"
)
DELIMITERS = {"\t": "TSV", ",": "CSV", ";": "CSV", "|": "CSV"}


def kind_of(text: Any) -> tuple[str, str]:
    """Return what a text is, and the delimiter if it is a table."""
    head = text[:HEAD_CHARS]
    whole = len(text) <= HEAD_CHARS
    if not whole:
        head = head[: head.rfind("\n") + 1] or head
    lines = [line for line in head.split("\n") if line.strip()]
    if not lines:
        return "empty text", ""
    if len(lines) == 1 and (whole or len(lines[0]) >= HEAD_CHARS):
        return ("JSON" if is_json(text) else "one line"), ""
    if head.lstrip()[:1] in "{[":
        if _are_json_lines(lines):
            return "JSON lines", ""
        if is_json(text):
            return "JSON", ""
    if lines[0].startswith("From ") or sum(bool(_HEADER.match(line)) for line in lines[:30]) >= 3:
        return "mail", ""
    timed = sum(bool(_TIME.search(line[:60]) or _LEVEL.search(line[:80])) for line in lines)
    if delimiter := _delimiter(head, lines):
        return DELIMITERS[delimiter], delimiter
    if timed >= 0.5 * len(lines):
        return "log", ""
    if _is_code(text, lines):
        return "source code", ""
    if sum(bool(_HEADING.match(line)) for line in lines) >= 2:
        return "Markdown", ""
    return ("prose" if _is_prose(head, lines) else "lines"), ""


def headings(text: Any, most: int = 200) -> tuple[str, ...]:
    """Return the headings of a Markdown text, outside of fenced code."""
    found, fenced = [], False
    for line in str(text[:MAX_PARSED]).split("\n"):
        if line.lstrip().startswith(("```", "~~~")):
            fenced = not fenced
        elif not fenced and _HEADING.match(line):
            found.append(line.strip())
            if len(found) == most:
                break
    return tuple(found)


def definitions(text: Any, most: int = 200) -> tuple[str, ...]:
    """Return the classes and functions at the top of Python source code; none of other languages."""
    tree = _python(text) if len(text) <= MAX_PARSED // 8 else None
    nodes = tree.body if tree is not None else []
    kinds = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)
    named = [node for node in nodes if isinstance(node, kinds)]
    return tuple(f"{'class' if isinstance(node, ast.ClassDef) else 'def'} {node.name}" for node in named[:most])


def oddities(text: Any) -> tuple[str, ...]:
    """Return what is unusual about the characters of a text, with exact counts."""
    notes = []
    crlf = text.count("\r\n")
    if crlf:
        notes.append(f"{crlf:,} lines end with \\r\\n.")
    if alone := text.count("\r") - crlf:
        notes.append(f"{alone:,} times \\r without \\n, where splitlines() splits, too.")
    for char, name in _ODD.items():
        if number := text.count(char):
            notes.append(f"{number:,} x {name}.")
    return tuple(notes)


_ODD = {
    "\ufffd": "the replacement character \\ufffd: bytes that could not be decoded",
    "\x00": "NUL (\\x00)",
    "\x1b": "the escape character \\x1b (terminal colors)",
    "\ufeff": "a byte order mark \\ufeff",
    "\u00a0": "a no-break space \\xa0, which is not ' '",
    "\u2028": "\\u2028, where splitlines() splits, too",
    "\x0c": "a form feed \\x0c, where splitlines() splits, too",
}


def is_json(text: Any) -> bool:
    """Return whether a text is one JSON value, as far as it is looked at: a long one may only begin like one."""
    if len(text) > MAX_PARSED:
        return re.match(r'\s*(?:\{\s*"|\[\s*[\[{"\d-])', text[:1000]) is not None
    stripped = text.strip()
    if stripped[:1] not in ("{", "["):
        return False
    try:
        json.loads(stripped)
    except (ValueError, RecursionError):
        return False
    return True


def _are_json_lines(lines: list[str]) -> bool:
    if len(lines) < 2:
        return False
    try:
        return all(isinstance(json.loads(line), dict | list) for line in lines[:20])
    except (ValueError, RecursionError):
        return False


def _delimiter(head: str, lines: list[str]) -> str | None:
    """Return the delimiter of a table: the one that gives rows of one length, with a header or with three columns."""
    for delimiter in DELIMITERS:
        if delimiter not in lines[0]:
            continue
        try:
            rows = [row for row in csv.reader(io.StringIO(head), delimiter=delimiter) if row][:200]
        except csv.Error:
            continue
        width = len(rows[0])
        same = sum(len(row) == width for row in rows)
        if width < 2 or len(rows) < 2 or same < 0.97 * (len(rows) - 1):
            continue
        if is_header(rows[0]) or (width >= 3 and all(len(cell) < 200 for row in rows[:50] for cell in row)):
            return delimiter
    return None


def is_header(row: list[str]) -> bool:
    """Return whether a row has names of columns: short, all different, and none that begins with a digit."""
    names = [cell.strip() for cell in row]
    return len(set(names)) == len(names) and all(re.fullmatch(r"[^\W\d][\w .()/%#-]{0,40}", name) for name in names)


def _python(text: Any) -> ast.Module | None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            return ast.parse(str(text))
        except (SyntaxError, ValueError, RecursionError, MemoryError):
            return None


def _is_code(text: Any, lines: list[str]) -> bool:
    likely = sum(bool(_CODE.search(line)) for line in lines)
    if likely >= 0.4 * len(lines):
        return True
    return likely >= 0.1 * len(lines) and len(text) <= MAX_PARSED // 8 and _python(text) is not None


def _is_prose(head: str, lines: list[str]) -> bool:
    words = head.split()
    letters = sum(word.strip(".,;:!?'\"()-").isalpha() for word in words)
    ends = sum(word[-1] in ".!?" for word in words)
    return letters >= 0.8 * len(words) and ends >= len(words) / 60 and len(words) >= 6 * len(lines)
