"""A model's reply, taken apart: its reasoning, its code, and what the model should be told about how it wrote them."""

from __future__ import annotations

import ast
import re
from dataclasses import dataclass

_THINK = re.compile(r"<think(?:ing)?>(.*?)(?:</think(?:ing)?>|\Z)", re.DOTALL | re.IGNORECASE)
_FENCE = re.compile(r"^[ \t]*(`{3,}|~{3,})[ \t]*([^\n`]*)\n(.*?)(?:^[ \t]*\1[ \t]*$|\Z)", re.DOTALL | re.MULTILINE)
# Blocks under these labels are not code to run: what a model shows, or what it makes up.
_SHOWN = {
    "output",
    "text",
    "txt",
    "console",
    "stdout",
    "result",
    "json",
    "yaml",
    "markdown",
    "md",
    "html",
    "csv",
    "xml",
}
_INVENTED = re.compile(r"^\W*(output|result|stdout|repl output|execution result)s?\W*:", re.IGNORECASE | re.MULTILINE)
_CLOSED = re.compile(r"\s*(`{3,}|~{3,})\s*\Z")  # on the last line of the code itself
_SUBMIT = re.compile(r"\bSUBMIT\s*\(")
_PRINTED_SUBMIT = re.compile(r"""print\s*\(\s*f?["']+\s*SUBMIT""")

NO_CODE = (
    "There was no code in your reply, so nothing was run. Write one ```python block; what it prints is what you will "
    "see next. When you know the answer, the block calls SUBMIT(...)."
)
SUBMIT_IN_WORDS = (
    "You wrote SUBMIT(...) as text. It only counts when it runs: put it into a ```python block, with the variables "
    "that hold the values you computed."
)
INVENTED_OUTPUT = (
    "You wrote an output yourself. It was ignored, with everything after it: only what the REPL prints is real. Below "
    "is what your code really printed."
)
PRINTED_SUBMIT = "Your code prints the text SUBMIT(...). That submits nothing: call SUBMIT(...) itself, without print."


@dataclass(frozen=True, slots=True)
class Step:
    """What to do with a reply."""

    reasoning: str | None
    code: str | None
    remarks: tuple[str, ...] = ()
    """What the model is told about its reply, beside what its code printed."""


def read_reply(text: str) -> Step:
    """Find the code in a reply. A reply without any is a step too: it says what was missing."""
    thoughts = [found.group(1).strip() for found in _THINK.finditer(text)]
    rest = _THINK.sub("", text)
    blocks = list(_FENCE.finditer(rest))
    code, remarks, cut = _code_of(rest, blocks)
    if code is None and not blocks and (bare := _bare_code(rest)) is not None:
        return Step(_joined(thoughts), bare, _remarks_on(bare))
    reasoning = _joined([*thoughts, _FENCE.sub("", rest[:cut]).strip()])
    if code is None:
        return Step(reasoning, None, (SUBMIT_IN_WORDS if _SUBMIT.search(rest) else NO_CODE,))
    return Step(reasoning, code, remarks + _remarks_on(code))


def _code_of(text: str, blocks: list[re.Match[str]]) -> tuple[str | None, tuple[str, ...], int]:
    """The code of the blocks up to the first thing that the model made up, and where that is."""
    code: list[str] = []
    end = 0
    for block in blocks:
        if code and (invented := _INVENTED.search(text, end, block.start())):
            return "\n".join(code), (INVENTED_OUTPUT,), invented.start()
        label = block.group(2).strip().lower().split(" ")[0]
        if label in _SHOWN:
            if code:
                return "\n".join(code), (INVENTED_OUTPUT,), block.start()
        elif block.group(3).strip():
            code.append(_dedented(block.group(3)))
        end = block.end()
    invented = _INVENTED.search(text, end) if code else None
    remarks = (INVENTED_OUTPUT,) if invented else ()
    return ("\n".join(code) if code else None), remarks, invented.start() if invented else len(text)


def _bare_code(text: str) -> str | None:
    """The whole reply, if it is Python that does something and not a sentence that happens to parse."""
    text = text.strip()
    try:
        tree = ast.parse(text)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None
    does = (ast.Call, ast.Assign, ast.AugAssign, ast.AnnAssign, ast.Import, ast.ImportFrom, ast.FunctionDef, ast.For)
    return text if any(isinstance(node, does) for node in ast.walk(tree)) else None


def _remarks_on(code: str) -> tuple[str, ...]:
    return (PRINTED_SUBMIT,) if _PRINTED_SUBMIT.search(code) else ()


def _dedented(code: str) -> str:
    """A block that was indented as a whole, as in a list, is taken back to the margin. A fence at its end goes."""
    lines = _CLOSED.sub("", code.rstrip()).splitlines()
    indents = [len(line) - len(line.lstrip()) for line in lines if line.strip()]
    by = min(indents, default=0)
    return "\n".join(line[by:] for line in lines)


def _joined(parts: list[str]) -> str | None:
    return "\n\n".join(part for part in parts if part) or None
