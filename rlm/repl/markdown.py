"""Markdown as models write it: a reply as prose, thoughts and fenced blocks, in order.

Every search takes time linear in the length of the reply, whatever is in it.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Literal

from .hints.code_facts import tree_of

# A thought, or a fence at the start of a line or right after a thought. There may be many in one line, so the part
# that is matched after a fence is bounded.
_OPENING = re.compile(
    r"<think(?:ing)?>|(?:^|(?<=</think>)|(?<=</thinking>))[ \t]*(`{3,}|~{3,})([^\n]{0,1000})",
    re.IGNORECASE | re.MULTILINE,
)
_THOUGHT_ENDS = re.compile(r"</think(?:ing)?>|\Z", re.IGNORECASE)
_CLOSING = re.compile(r"^[ \t]*(`{3,}|~{3,})[ \t]*(?:$|(?=<think(?:ing)?>))", re.IGNORECASE | re.MULTILINE)
# Comments and strings, in which fences and quotes mean nothing. A string without an end runs to the end of the text.
_LEXED = re.compile(
    r"""
      \#[^\n]*
    | '''(?:[^\\']+|\\(?:.|\Z)|'(?!''))*(?:'''|\Z)
    | \"\"\"(?:[^\\"]+|\\(?:.|\Z)|"(?!""))*(?:\"\"\"|\Z)
    | '(?:[^\\'\n]+|\\(?:.|\Z))*'?
    | "(?:[^\\"\n]+|\\(?:.|\Z))*"?
    | ^[ \t]*(?P<fence>`{3,}|~{3,})[ \t]*(?:$|(?=<think(?:ing)?>))
    """,
    re.VERBOSE | re.IGNORECASE | re.DOTALL | re.MULTILINE,
)
_LOOKS_AHEAD = 8  # how many blocks of a reply may search in vain for a later end
_LABEL = re.compile(r"[\w+#.-]*")
_PYTHON = re.compile(r"i?py(?:thon)?[\d.]*|repl|tool_code")


@dataclass(frozen=True, slots=True)
class Part:
    """A part of a reply."""

    kind: Literal["prose", "thought", "block"]
    text: str
    """The text; of a block, what is between its fences, dedented."""
    label: str = ""
    """The language label of a block in lower case; empty without one."""


def is_python(label: str) -> bool:
    """Return whether a block's label means Python."""
    return _PYTHON.fullmatch(label) is not None


def parts_of(text: str) -> list[Part]:
    """Split a reply into parts. A fence in a thought opens no block; a thought in a block is part of the block."""
    parts: list[Part] = []
    at = look = 0
    ahead = _LOOKS_AHEAD
    while found := _OPENING.search(text, look):
        fence, info = found.groups()
        after = text[found.end() : found.end() + 1]
        if fence is None:
            closed = _THOUGHT_ENDS.search(text, found.end())
            begin, end = (closed.start(), closed.end()) if closed else (len(text), len(text))
            part = Part("thought", text[found.end() : begin].strip())
        elif after in ("", "\n") and (line := _on_one_line(fence, info)) is not None:
            part, end = line, found.end()
        elif "`" in info or after != "\n":
            look = found.end(1)
            continue
        else:
            code, end, vain = _block(text, found.end() + 1, fence, ahead > 0)
            part = Part("block", code, _label(info))
            ahead -= vain
        parts += [Part("prose", text[at : found.start()]), part]
        at = look = end
    return [*parts, Part("prose", text[at:])]


def _on_one_line(fence: str, info: str) -> Part | None:
    """Return a whole block on one line, if its label means Python."""
    inside = info.strip()
    if not inside.endswith(fence):
        return None
    label, _, code = inside[: -len(fence)].partition(" ")
    return Part("block", code.strip(), label.lower()) if is_python(label.lower()) and code.strip() else None


def _block(text: str, start: int, fence: str, may_look: bool) -> tuple[str, int, bool]:
    """Return the content of a block, its end, and whether a later end was searched for in vain.

    A block ends at its first closing fence. If that one is in a string, it ends at the first one that is not, provided
    that the code before it compiles.
    """
    closed = next((one for one in _CLOSING.finditer(text, start) if one.group(1) == fence), None)
    if closed is None:
        return _dedented(text[start:]), len(text), False
    code = _dedented(text[start : closed.start()])
    if not may_look or tree_of(code) is not None:
        return code, closed.end(), False
    fences = (one for one in _LEXED.finditer(text, start) if one["fence"] == fence)
    later = next(fences, None)
    begin, end = (later.start(), later.end()) if later else (len(text), len(text))
    if begin == closed.start():
        return code, end, False
    longer = _dedented(text[start:begin])
    return (code, closed.end(), True) if tree_of(longer) is None else (longer, end, False)


def _label(info: str) -> str:
    word = _LABEL.match(info.strip().lower().lstrip("{. "))
    return word.group() if word else ""


def _dedented(code: str) -> str:
    """Dedent a block that is indented as a whole, as in a list, and drop a fence at its end."""
    code = code.rstrip()
    for tick in "`~":
        without = code.rstrip(tick)
        if len(code) - len(without) >= 3:
            code = without.rstrip()
            break
    lines = code.split("\n")  # not `splitlines`: other line ends of Unicode may be in a string
    by = min((len(line) - len(line.lstrip()) for line in lines if line.strip()), default=0)
    return "\n".join(line[by:] for line in lines)
