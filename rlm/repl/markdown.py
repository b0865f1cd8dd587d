"""The parts of a model's reply, in the order in which they were written: prose, thoughts and fenced blocks.

Every search here takes time that grows with the length of the reply, whatever is in it.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Literal

from .hints.code_facts import tree_of

# A thought, or a fence at the start of a line. Behind a thought is as good as the start of a line; since there may be
# many in one line, none of them looks at all of it.
_OPENING = re.compile(
    r"<think(?:ing)?>|(?:^|(?<=</think>)|(?<=</thinking>))[ \t]*(`{3,}|~{3,})([^\n]{0,1000})",
    re.IGNORECASE | re.MULTILINE,
)
_THOUGHT_ENDS = re.compile(r"</think(?:ing)?>|\Z", re.IGNORECASE)
_CLOSING = re.compile(r"^[ \t]*(`{3,}|~{3,})[ \t]*(?:$|(?=<think(?:ing)?>))", re.IGNORECASE | re.MULTILINE)
# What may hold a fence, or a quote, that means nothing: comments and strings. A string that never ends runs to the end.
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
_LOOKS_AHEAD = 8  # how many blocks of a reply may look in vain for a later end
_LABEL = re.compile(r"[\w+#.-]*")
_PYTHON = re.compile(r"i?py(?:thon)?[\d.]*|repl|tool_code")


@dataclass(frozen=True, slots=True)
class Part:
    """A piece of a reply."""

    kind: Literal["prose", "thought", "block"]
    text: str
    """A block's is what is between its fences, at the margin."""
    label: str = ""
    """What a block says it is written in: one word in lower case, or nothing."""


def is_python(label: str) -> bool:
    """Whether a block's label says that it is Python."""
    return _PYTHON.fullmatch(label) is not None


def parts_of(text: str) -> list[Part]:
    """Take a reply apart. A fence in a thought opens no block, and a thought in a block is a part of the block."""
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
    """A whole block of Python on one line, which says that it is one."""
    inside = info.strip()
    if not inside.endswith(fence):
        return None
    label, _, code = inside[: -len(fence)].partition(" ")
    return Part("block", code.strip(), label.lower()) if is_python(label.lower()) and code.strip() else None


def _block(text: str, start: int, fence: str, may_look: bool) -> tuple[str, int, bool]:
    """What is in a block, where it ends, and whether a later end was looked for in vain.

    It ends at its first closing fence, unless that one is in a string: then at the first that is not, if what is before
    it compiles.
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
    """A block that was indented as a whole, as in a list, is taken back to the margin. A fence at its end goes."""
    code = code.rstrip()
    for tick in "`~":
        without = code.rstrip(tick)
        if len(code) - len(without) >= 3:
            code = without.rstrip()
            break
    lines = code.split("\n")  # and at nothing else that Unicode calls a line's end: it may be in a string
    by = min((len(line) - len(line.lstrip()) for line in lines if line.strip()), default=0)
    return "\n".join(line[by:] for line in lines)
