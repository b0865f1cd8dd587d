"""Parsing of a model's reply: its reasoning, its code, and hints about how it was written."""

from __future__ import annotations

import ast
import re
from dataclasses import dataclass, field
from typing import Literal

from .hints.code_facts import nodes_of, tree_of

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
    closed = next((line for line in _CLOSING.finditer(text, start) if line.group(1) == fence), None)
    if closed is None:
        return _dedented(text[start:]), len(text), False
    code = _dedented(text[start : closed.start()])
    if not may_look or tree_of(code) is not None:
        return code, closed.end(), False
    fences = (fence_line for fence_line in _LEXED.finditer(text, start) if fence_line["fence"] == fence)
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


# Blocks with these labels are not code to run: a model shows something, or makes it up.
_SHOWN = re.compile(
    r"(?:tool_)?outputs?|results?|observations?|text|txt|plaintext|console|stdout|stderr|logs?|json|yaml|markdown|md|html"
    r"|csv|xml"
)
# Blocks in other languages.
_OTHER = re.compile(
    r"bash|sh|shell|shell-?session|zsh|fish|powershell|ps1|cmd|bat|batch|terminal|js|javascript|jsx|ts|typescript|tsx|node"
    r"|sql|mysql|postgresql|sqlite|c|h|cpp|c\+\+|c#|cs|csharp|f#|rust|rs|go|golang|java|kotlin|scala|swift|ruby|rb|perl"
    r"|php|lua|r|julia|matlab|haskell|ocaml|lisp|scheme|clojure|elixir|erlang|dart|css|scss|toml|ini|diff|dockerfile"
    r"|makefile|graphql|latex|tex|mermaid|regex"
)
# A line that claims what the code printed: a heading with a colon, or a sentence.
_HEADING = re.compile(
    r"(?:(?:the|your|its|expected|sample|example|actual|real|printed|repl|console|terminal|program|execution|code|cell)"
    r"[ \t]+){0,3}(?:(?P<result>results?)|outputs?|stdout|stderr|observations?|out[ \t]?\[\d+\])[^\w:]*:(?P<claim>.*)",
    re.IGNORECASE,
)
_SENTENCE = re.compile(
    r"(?:(?:(?:the|its|this|expected|printed|actual)[ \t]+){0,2}(?:output|result|observation)s?[ \t]+"
    r"(?:is|was|are|were|reads|shows|(?:will|would|should)[ \t]be)"
    r"|(?:(?:and|which|this|that|it|(?:the|this)[ \t](?:code|cell|repl|block))[ \t]+){0,2}"
    r"(?:prints|printed|outputs|returns|returned|gives|gave|yields|displays|(?:will|would|should)[ \t]print))\b"
    r"(?:[ \t]as[ \t]follows)?(?P<claim>.*)",
    re.IGNORECASE,
)
_VALUE = re.compile(r"""(?:[-+$]?\d+(?:[.,:/-]\d+)*%?|"[^"]*"|'[^']*'|\[.*\]|\{.*\})[ \t*_`]*(?:[.,;!](?!\w)|\Z)""")
_DATA = re.compile(r"""[\d"\[\](){}<>=|]""")
_MARKS = " \t*_`"
_NO_WORD = re.compile(r"[\W_]*")
_SUBMIT = re.compile(r"\bSUBMIT\s*\(")
_PRINTS = re.compile(r"\b(?:print|SUBMIT)\s*\(")
_PRINTED_SUBMIT = re.compile(r"""print\s*\(\s*f?["']+\s*SUBMIT""")
_DOES = (ast.Call, ast.Assign, ast.AugAssign, ast.AnnAssign, ast.Import, ast.ImportFrom, ast.FunctionDef, ast.For)

NO_CODE = (
    "There was no code in your reply, so nothing was run. Write one ```python block; what it prints is what you will "
    "see next. When you know the answer, the block calls SUBMIT(...)."
)
ONLY_COMMENTS = (
    "Your block has only comments, so nothing was run. Write the Python code that does what they say; what it prints "
    "is what you will see next."
)
SUBMIT_IN_WORDS = (
    "You wrote SUBMIT(...) as text. It only counts when it runs: put it into a ```python block, with the variables "
    "that hold the values you computed."
)
INVENTED_OUTPUT = (
    "You wrote an output yourself. It was ignored, with everything after it: only what the REPL prints is real. Below "
    "is what your code really printed."
)
CUT_OFF = (
    "Your reply was cut off: it was longer than may be written at once, and its end is lost. Write less before the "
    "block, and shorter code; do the rest in the next reply."
)
PRINTED_SUBMIT = "Your code prints the text SUBMIT(...). That submits nothing: call SUBMIT(...) itself, without print."
NOT_RUN = "This block of your reply was not run, because it is not Python code: {}. Only ```python blocks are run."


@dataclass(frozen=True, slots=True)
class Reply:
    """A reply, read: its reasoning and the code to run."""

    reasoning: str | None
    code: str | None
    hints: tuple[str, ...] = ()
    """What the model is told about how it wrote the reply."""


@dataclass(slots=True)
class _Found:
    """The parts of a reply, sorted, up to the first output that the model made up."""

    code: list[str] = field(default_factory=list)
    doubtful: list[str] = field(default_factory=list)
    """Blocks that may be code, without a label or an effect. The first one is the code if there is no other."""
    prints: bool = False
    """Whether one of those prints something: the model may make up an output for it."""
    skipped: list[str] = field(default_factory=list)
    prose: list[str] = field(default_factory=list)
    invented: bool = False


def read_reply(text: str) -> Reply:
    """Find the code in a reply. For a reply without code, the hints say what is missing."""
    text = text.replace("\r\n", "\n").replace("\r", "\n")  # as Python itself reads them
    parts = parts_of(text)
    thoughts = [part.text for part in parts if part.kind == "thought"]
    rest = "".join(part.text for part in parts if part.kind == "prose")
    blocks = [part for part in parts if part.kind == "block"]
    if (bare := _bare_code(text, rest, blocks)) is not None:
        return Reply(_joined(thoughts if bare != text.strip() else []), bare, _hints_on(bare))
    found = _found_in(parts)
    if not found.code and found.doubtful:
        found.code.append(found.doubtful.pop(0))
    not_run = [*found.skipped, *found.doubtful]
    hints = (NOT_RUN.format(_summarize(not_run)),) if not_run else ()
    reasoning = _joined([*thoughts, "".join(found.prose).strip()])
    if not found.code:
        in_words = any(_SUBMIT.search(part) for part in (rest, *(block.text for block in blocks)))
        return Reply(reasoning, None, (*hints, SUBMIT_IN_WORDS if in_words else NO_CODE))
    code = "\n".join(found.code)
    tree = tree_of(code)
    if tree is not None and not tree.body:
        return Reply(reasoning, None, (*hints, ONLY_COMMENTS))
    return Reply(reasoning, code, (INVENTED_OUTPUT,) * found.invented + hints + _hints_on(code))


def _found_in(parts: list[Part]) -> _Found:
    found = _Found()
    for part in parts:
        if part.kind == "prose":
            claim = _claimed_output(part.text) if found.code or found.prints else None
            found.prose.append(part.text[:claim])
            found.invented = claim is not None
        elif part.kind == "block" and part.text.strip():
            found.invented = _take_block(found, part)
        if found.invented:
            break
    return found


def _take_block(found: _Found, block: Part) -> bool:
    """Sort a block. Return whether it is an output that the model made up."""
    if is_python(block.label):
        found.code.append(block.text)
    elif _OTHER.fullmatch(block.label):
        found.skipped.append(block.text)
    elif _SHOWN.fullmatch(block.label):
        return bool(found.code)
    elif _has_effect(block.text):
        found.code.append(block.text)
    elif found.code:
        return True
    else:
        found.doubtful.append(block.text)
        found.prints = found.prints or _PRINTS.search(block.text) is not None
    return False


def _claimed_output(prose: str) -> int | None:
    """Return the position of the first line that claims what the code printed."""
    at = 0
    for line in prose.split("\n"):
        begin = _NO_WORD.match(line)
        words = line[begin.end() :] if begin else line
        if (heading := _HEADING.match(words)) is not None:
            # "Result: it is used below." says nothing; after "Output:" and "Observation:" comes nothing else.
            if not (heading["result"] and _is_prose(heading["claim"].strip(_MARKS))):
                return at
        elif (sentence := _SENTENCE.match(words)) is not None:
            claim = sentence["claim"].strip(_MARKS)
            value = claim.lstrip(_MARKS + ":")
            if not value or (not _is_prose(value) if claim.startswith(":") else _VALUE.match(value)):
                return at
        at += len(line) + 1
    return None


def _is_prose(text: str) -> bool:
    """Return whether the words are a sentence, not a value."""
    continues = text[:1].islower() or text.endswith((".", ":"))
    return continues and len(text.split()) >= 3 and _DATA.search(text) is None


def _bare_code(text: str, rest: str, blocks: list[Part]) -> str | None:
    """Return the whole reply if it is Python with an effect, not a sentence that happens to parse."""
    whole = text.strip()
    if (not blocks or _may_be_in_a_string(whole)) and _has_effect(whole):
        return whole
    return rest.strip() if not blocks and _has_effect(rest.strip()) else None


def _may_be_in_a_string(whole: str) -> bool:
    """Return whether fences can be part of code: backticks only in a long string; tildes may be operators."""
    return "~~~" not in whole and any(mark in whole for mark in ('"""', "'''", "\\\n"))


def _has_effect(code: str) -> bool:
    """Return whether it is Python, and more than names and values, which is what an output looks like."""
    if tree_of(code) is None:
        return False
    return any(
        isinstance(node, _DOES) and not (isinstance(node, ast.AnnAssign) and node.value is None)
        for node in nodes_of(code)
    )


def _hints_on(code: str) -> tuple[str, ...]:
    return (PRINTED_SUBMIT,) if _PRINTED_SUBMIT.search(code) else ()


def _summarize(blocks: list[str]) -> str:
    """Name the blocks by the beginning of the first one."""
    line = blocks[0].strip().split("\n")[0]
    more = len(blocks) - 1
    return f"`{line[:60]}`" + (f" (and {more} more)" if more else "")


def _joined(parts: list[str]) -> str | None:
    return "\n\n".join(part for part in parts if part) or None
