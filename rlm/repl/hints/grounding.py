"""Whether an answer can come from the inputs: what code reads, what it makes up, and what it could submit next.

Small models write sample data into their code and work on that, or answer from the preview in the prompt. Both are seen
in the code's own syntax tree, before anything is believed.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Collection, Iterable, Mapping
from dataclasses import replace
from typing import Any

from sandbox import Variable

from ...history import REPLHistoryEntry
from ...results import Extracted, Failed
from ...signatures import Field, Signature
from ...text import shorten
from ..conversation import shown_whole
from .code_facts import nodes_of, tree_of
from .samples import written_down

_LONG_TEXT = 200
_MANY_ITEMS = 8
_SHOWN = 6
_SEARCHED_CHARS = 5_000_000
_SEARCHED_WORDS = 8
"""How much is looked through for what is nearly there: other runs wait meanwhile."""

_FITS = {int: ("int",), float: ("float", "int"), bool: ("bool",), str: ("str",)}
_WRITTEN = {int: r"-?\d+", float: r"-?\d+(\.\d+)?(e[-+]?\d+)?", str: r"[^\[{(<].{0,80}"}
"""How a value of a plain type looks where it is printed."""

_MISSED = re.compile(
    r"'NoneType' object (has no attribute|is not)|list index out of range|empty (sequence|iterable)"
    r"|\b(no|not)\b.*\bfound\b",
    re.IGNORECASE,
)
"""How an output ends where a search had found nothing, and the code went on as if it had."""

UNREAD = (
    "No code of yours has read {names} yet, so these values cannot come from there. Write code that works on {names} "
    "(it is a variable in the REPL), look at what it prints, and submit the variable that holds the result."
)
REPEATED = (
    "You ran exactly this code before, and it printed exactly this. Do something else now: look for other words, use "
    "what was printed, or, if the answer is there, call SUBMIT."
)
NOTHING = (
    "Nothing was found. Unless that is the answer, look for less: one word of it, or a regular expression where "
    "numbers and names differ; or print a few lines to see how they look."
)
NEARLY = (
    "Nothing was found: {text!r} is not in {name}. But {part!r} is, {times} times, as in {line!r}. Look for that, "
    "unless nothing is the answer."
)
UNKNOWN = (
    "No variable is called `{name}`: your words are not run, only the block is. Set it in the block, or write the "
    "value that was printed into SUBMIT(...) itself."
)
NO_NUMBER = r"There is more than a number in that text. Take it out: int(re.search(r'\d+', {text}).group())"
OVERWRITTEN = (
    "{names} holds the real data already, and cannot be assigned to. Leave out the line that assigns to it, and use it "
    "as it is."
)
OWN_DATA = (
    "Your code works on data that you wrote into it yourself, and does not read {names}. Only what is in the REPL is "
    "real: do the same on {names}."
)


def names_read(code: str, names: Collection[str]) -> frozenset[str]:
    """Which of the names the code reads; none where it does not compile."""
    return frozenset(
        node.id
        for node in nodes_of(code)
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load) and node.id in names
    )


def overwritten(code: str, inputs: Collection[str]) -> str | None:
    """What to tell a model whose code assigns to an input; None if it does not."""
    stored = {
        node.id
        for node in nodes_of(code)
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store) and node.id in inputs
    }
    return OVERWRITTEN.format(names=_listed(stored)) if stored else None


def unseen(inputs: Mapping[str, Any]) -> tuple[str, ...]:
    """The inputs that a prompt does not show whole."""
    return tuple(name for name, value in inputs.items() if not shown_whole(value))


def own_data(code: str, known: Collection[str], inputs: Collection[str]) -> str | None:
    """What to tell a model whose code brings its own data and reads nothing of the REPL's; None if it does not."""
    if not inputs or names_read(code, known):
        return None
    nodes = nodes_of(code)
    if not any(map(_is_data, nodes)) and not (any(map(_is_made_up, nodes)) and _calls(nodes) & {"print", "SUBMIT"}):
        return None
    return OWN_DATA.format(names=_listed(inputs))


def repeated(code: str, output: str, history: Iterable[REPLHistoryEntry]) -> str | None:
    """What to tell a model that ran the same code to the same end; None if it did not."""
    again = any(entry.code.strip() == code.strip() and _alike(entry.output, output) for entry in history)
    return REPEATED if again and code.strip() else None


def on_error(code: str, message: str | None) -> str | None:
    """What to write instead, for errors that small models make over and over; None for all others."""
    if found_no_number(message or ""):
        return NO_NUMBER.format(text=_read_as_number(code))
    found = re.search(r"name '(\w+)' is not defined", message or "")
    return UNKNOWN.format(name=found[1]) if found and "SUBMIT" in code else None


def found_no_number(output: str) -> bool:
    """Whether code took a text for a number that has more in it."""
    return re.search(r"invalid literal for int|could not convert string to float", output) is not None


def found_nothing(output: str) -> bool:
    """Whether all that was printed is that there is nothing: zero, an empty list, None."""
    return re.fullmatch(r"(0|-1|None|False|\[\]|\{\}|\(\)|set\(\)|\s)+", output.strip()) is not None


def nothing_found(code: str, output: str, inputs: Mapping[str, Any]) -> str | None:
    """What to tell a model that found nothing: what of the words it looked for is there; None if it found something."""
    empty = found_nothing(output)
    if not empty and not _MISSED.search(output.rstrip().rpartition("\n")[2][-_LONG_TEXT:]):
        return None
    wanted = {node.value for node in nodes_of(code) if isinstance(node, ast.Constant) and isinstance(node.value, str)}
    texts = {
        name: value
        for name, value in inputs.items()
        if isinstance(value, str) and len(value) <= _SEARCHED_CHARS and not shown_whole(value)
    }
    for text in sorted((one for one in wanted if 3 <= len(one) <= 200), key=len, reverse=True)[:_SEARCHED_WORDS]:
        for name in sorted(names_read(code, texts)):
            if part := _part_in(text, texts[name]):
                at = texts[name].index(part)
                begin, end = texts[name].rfind("\n", 0, at) + 1, texts[name].find("\n", at)
                line = texts[name][begin : end if end >= 0 else None][:100]
                return NEARLY.format(text=text, name=name, part=part, times=texts[name].count(part), line=line)
    return NOTHING if empty else None


def unread(names: Collection[str]) -> str:
    """Why a SUBMIT is refused before the inputs were read."""
    return UNREAD.format(names=_listed(names))


def noted(result: Extracted[Any] | Failed, unread: Collection[str]) -> Extracted[Any] | Failed:
    """The same result; where no code has read the inputs, with a note and without the evidence.

    What is in the variables then is the model's own, and finding it there again says nothing: the confidence is what
    the formula gives where nothing was found.
    """
    if not unread or not isinstance(result, Extracted):
        return result
    note = f"No code has read {', '.join(sorted(unread))}: what is in the variables was written there by the model."
    return replace(
        result,
        confidence=min(result.confidence, _UNFOUNDED),
        field_confidence={name: min(one, _UNFOUNDED) for name, one in result.field_confidence.items()},
        extraction_notes="\n".join(filter(None, [result.extraction_notes, note])),
    )


def state_of(changed: Collection[str], variables: Mapping[str, Variable]) -> str:
    """The variables that a cell left behind, for a model whose cell printed nothing."""
    shown = [variables[name] for name in changed if name in variables and variables[name].type not in _DULL][-_SHOWN:]
    return ", ".join(f"{one.name} = {shorten(one.preview, 80)}" for one in shown)


def next_submit(
    signature: Signature, output: str, changed: Collection[str], variables: Mapping[str, Variable], code: str = ""
) -> str | None:
    """The SUBMIT call that a printed result asks for: one output of a plain type, and what was printed of that type.

    That is a variable, or else the expression that `code` printed last.
    """
    if len(signature.outputs) != 1 or not output.strip():
        return None
    field = signature.outputs[0]
    own = written_down(code)
    fitting = [
        name
        for name in changed
        if name in variables and name not in own and _fits(field, variables[name]) and _printed(variables[name], output)
    ]
    shown = fitting[-1] if fitting else _last_printed(code, field, output)
    if shown in own:  # the model's own words are no result
        return None
    return f"SUBMIT({field.name}={shown})" if shown else None


_UNFOUNDED = 0.5
_DULL = ("module", "function", "type", "builtin_function_or_method")


def _fits(field: Field, variable: Variable) -> bool:
    return any(field.type is kind and variable.type in names for kind, names in _FITS.items())


def _printed(variable: Variable, output: str) -> bool:
    text = str(variable.value) if variable.has_value else variable.preview
    return bool(text) and text in output


def _last_printed(code: str, field: Field, output: str) -> str | None:
    """The one expression that the last statement prints, if what stands there is of the field's type.

    The first of several is no answer: `print(len(hits), hits)` is how a model looks around.
    """
    tree, pattern = tree_of(code), _WRITTEN.get(field.type)
    last = tree.body[-1] if tree is not None and tree.body else None
    if pattern is None or not isinstance(last, ast.Expr):
        return None
    call = last.value
    if not (isinstance(call, ast.Call) and isinstance(call.func, ast.Name) and call.func.id == "print"):
        return None
    if len(call.args) != 1 or isinstance(call.args[0], ast.Constant | ast.JoinedStr | ast.Starred):
        return None
    return ast.unparse(call.args[0]) if re.fullmatch(pattern, output.rstrip().rpartition("\n")[2]) else None


def _read_as_number(code: str) -> str:
    """The text that `int(...)` should have found a number in: `line`, where it was given `line.split()[4]`."""
    for node in nodes_of(code):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in ("int", "float"):
            inner = node.args[0] if node.args else None
            while True:
                if isinstance(inner, ast.Call) and isinstance(inner.func, ast.Attribute):
                    inner = inner.func.value
                elif isinstance(inner, ast.Subscript) and isinstance(inner.value, ast.Call):
                    inner = inner.value
                else:
                    break
            if isinstance(inner, ast.Name | ast.Subscript):
                return ast.unparse(inner)
    return "text"


def _part_in(wanted: str, text: str) -> str | None:
    """The longest beginning of what was looked for that is in the text, up to where a word or number is different."""
    low, high = 0, len(wanted)
    while low < high:
        middle = (low + high + 1) // 2
        low, high = (middle, high) if wanted[:middle] in text else (low, middle - 1)
    part = wanted[:low].rstrip("0123456789")
    if part == wanted[:low] and wanted[low : low + 1].isalpha() and not re.search(re.escape(part) + r"(?!\w)", text):
        part = re.sub(r"[^\W\d_]+$", "", part)  # no word of the text ends here
    part = part.rstrip()
    return part if len(part) >= 3 and low < len(wanted) else None


def _is_data(node: ast.AST) -> bool:
    if isinstance(node, ast.Constant):
        return isinstance(node.value, str) and len(node.value) > _LONG_TEXT
    return isinstance(node, ast.List | ast.Tuple | ast.Set | ast.Dict) and _constants(node) >= _MANY_ITEMS


def _is_made_up(node: ast.AST) -> bool:
    """A name for a number or a short text: with nothing else to work on, that is the data."""
    return isinstance(node, ast.Assign) and isinstance(node.value, ast.Constant)


def _calls(nodes: Iterable[ast.AST]) -> set[str]:
    return {node.func.id for node in nodes if isinstance(node, ast.Call) and isinstance(node.func, ast.Name)}


def _constants(node: ast.AST) -> int:
    return sum(isinstance(one, ast.Constant) for one in ast.walk(node))


def _alike(one: str, other: str) -> bool:
    """Whether two outputs are the same, but for the number of the cell in a traceback."""
    return re.sub(r"<cell \d+>", "", one) == re.sub(r"<cell \d+>", "", other)


def _listed(names: Collection[str]) -> str:
    return " or ".join(f"`{name}`" for name in sorted(names))
