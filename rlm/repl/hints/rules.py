"""What a model is told about its mistakes: one small rule for each, with one signature. Profiles choose their rules.

A rule reads the facts of a cell that has run and returns a hint, or None. Hints are given in the order of the rules.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from sandbox import CellResult, Variable

from ...history import REPLHistoryEntry, VariableChanges
from .code_facts import names_called, names_read, names_stored, nodes_of
from .grounding import NOTHING_FOUND

OVERWRITTEN = (
    "{names} holds the real data already, and cannot be assigned to. Leave out the line that assigns to it, and use it "
    "as it is."
)
OWN_DATA = (
    "Your code works on data that you wrote into it yourself, and does not read {names}. Only what is in the REPL is "
    "real: do the same on {names}."
)
REPEATED = (
    "You ran exactly this code before, and it printed exactly this. Do something else now: look for other words, use "
    "what was printed, or, if the answer is there, call SUBMIT."
)
NOTHING = (
    "Nothing was found. Unless that is the answer, look for less: one word of it, or a regular expression where "
    "numbers and names differ; or print a few lines to see how they look."
)
UNKNOWN = (
    "No variable is called `{name}`: your words are not run, only the block is. Set it in the block, or write the "
    "value that was printed into SUBMIT(...) itself."
)
NO_NUMBER = r"There is more than a number in that text. Take it out: int(re.search(r'\d+', {text}).group())"
VALUE_SHOWN = "(The last line's value is shown; next time print what you want to see.)"
_LONG_TEXT = 200
_MANY_ITEMS = 8

# How an output ends where a search had found nothing, and the code went on as if it had.
_MISSED = re.compile(
    r"'NoneType' object (has no attribute|is not)|list index out of range|empty (sequence|iterable)"
    r"|\b(no|not)\b.*\bfound\b",
    re.IGNORECASE,
)


@dataclass(frozen=True, slots=True)
class CellFacts:
    """A cell that has run, and what was there before."""

    code: str
    output: str
    success: bool
    error: str | None = None
    """The message of the exception."""

    only_value: bool = False
    """Whether the last expression's value is all of the output."""

    inputs: Mapping[str, Any] = field(default_factory=dict)
    unread: frozenset[str] = frozenset()
    """Long inputs, while no code has read any of them."""

    variables_before: Mapping[str, Variable] = field(default_factory=dict)
    variables: Mapping[str, Variable] = field(default_factory=dict)
    changed: Sequence[str] = ()
    """The variables that the cell bound or changed."""

    history: Sequence[REPLHistoryEntry] = ()
    """The iterations before."""

    @classmethod
    def of(cls, code: str, output: str, result: CellResult, changes: VariableChanges, **known: Any) -> CellFacts:
        """Return the facts of a cell that has this result. `known` are those that the result does not tell."""
        error = None if result.error is None else result.error.message
        only_value = result.value_repr is not None and not result.text
        changed = (*changes.added, *changes.changed)
        return cls(code, output, result.ok, error, only_value, changed=changed, **known)


Rule: TypeAlias = Callable[[CellFacts], str | None]


def assigns_to_an_input(cell: CellFacts) -> str | None:
    """`log = "..."`: inputs cannot be assigned to."""
    names = names_stored(cell.code) & cell.inputs.keys()
    return OVERWRITTEN.format(names=_listed(names)) if names else None


def works_on_own_data(cell: CellFacts) -> str | None:
    """`lines = ["a", "b", ...]`: the code brings its own data and reads nothing of the REPL's."""
    known = cell.variables_before.keys() | cell.inputs.keys()
    if not cell.unread or names_read(cell.code, known):
        return None
    nodes = nodes_of(cell.code)
    made_up = any(map(_is_made_up, nodes)) and names_called(cell.code) & {"print", "SUBMIT"}
    return OWN_DATA.format(names=_listed(cell.unread)) if any(map(_is_data, nodes)) or made_up else None


def repeats_a_cell(cell: CellFacts) -> str | None:
    """The same code with the same output as in an earlier cell."""
    code = cell.code.strip()
    repeated = any(entry.code.strip() == code and _alike(entry.output, cell.output) for entry in cell.history)
    return REPEATED if repeated and code else None


def finds_nothing(cell: CellFacts) -> str | None:
    """`[]`, `0`, `None`, or an error that follows from it. Names what is nearly there, where something is."""
    empty = prints_nothing_found(cell.output) or NOTHING_FOUND in (cell.error or "")
    if not empty and not _MISSED.search(cell.output.rstrip().rpartition("\n")[2][-_LONG_TEXT:]):
        return None
    from .failed_data import Texts

    return Texts(cell.code, cell.inputs).nearest() or (NOTHING if empty else None)


def fails_on_data(cell: CellFacts) -> str | None:
    """An error because of how the data looks: the first line that did not match, or that has too few parts."""
    if cell.error is None:
        return None
    from .failed_data import Texts, loop_variable

    error, texts, hint = cell.error, Texts(cell.code, cell.inputs), None
    if "'NoneType' object" in error:
        hint = texts.unmatched()
    elif "index out of range" in error:
        hint = texts.too_short()
    elif not re.search(r"could not convert|invalid literal|not enough values|too many values|KeyError", error):
        return None
    return hint or loop_variable(cell.code, cell.variables)


def reads_a_number_with_more(cell: CellFacts) -> str | None:
    """`int("12 ms")`: the text has more than a number in it."""
    return NO_NUMBER.format(text=_text_read_as_number(cell.code)) if has_more_than_a_number(cell.error or "") else None


def submits_an_unknown_name(cell: CellFacts) -> str | None:
    """`SUBMIT(answer=total)` where `total` was only spoken of."""
    found = re.search(r"name '(\w+)' is not defined", cell.error or "")
    return UNKNOWN.format(name=found[1]) if found and "SUBMIT" in cell.code else None


def ends_with_a_value(cell: CellFacts) -> str | None:
    """`len(hits)` as the last line: its value is shown, but nothing else was printed."""
    return VALUE_SHOWN if cell.only_value else None


STANDARD: tuple[Rule, ...] = (
    assigns_to_an_input,
    works_on_own_data,
    repeats_a_cell,
    finds_nothing,
    fails_on_data,
    reads_a_number_with_more,
    submits_an_unknown_name,
    ends_with_a_value,
)


def hints_for(rules: Sequence[Rule], cell: CellFacts) -> tuple[str, ...]:
    """Return the hints of all rules that apply, in order."""
    hints = (rule(cell) for rule in rules)
    return tuple(hint for hint in hints if hint is not None)


def prints_nothing_found(output: str) -> bool:
    """Return whether all of the output says that there is nothing: zero, an empty list, None."""
    return re.fullmatch(r"(0|-1|None|False|\[\]|\{\}|\(\)|set\(\)|\s)+", output.strip()) is not None


def has_more_than_a_number(output: str) -> bool:
    """Return whether an error says that a text was read as a number and has more in it."""
    return re.search(r"invalid literal for int|could not convert string to float", output) is not None


def _text_read_as_number(code: str) -> str:
    """Return the text in which `int(...)` should have found a number: `line`, for `int(line.split()[4])`."""
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


def _is_data(node: ast.AST) -> bool:
    if isinstance(node, ast.Constant):
        return isinstance(node.value, str) and len(node.value) > _LONG_TEXT
    if not isinstance(node, ast.List | ast.Tuple | ast.Set | ast.Dict):
        return False
    return sum(isinstance(inner, ast.Constant) for inner in ast.walk(node)) >= _MANY_ITEMS


def _is_made_up(node: ast.AST) -> bool:
    """Return whether a name is set to a constant: with nothing else to work on, that is the data."""
    return isinstance(node, ast.Assign) and isinstance(node.value, ast.Constant)


def _alike(output: str, other: str) -> bool:
    """Return whether two outputs are the same, except for cell numbers in tracebacks."""
    return re.sub(r"<cell \d+>", "", output) == re.sub(r"<cell \d+>", "", other)


def _listed(names: Collection[str]) -> str:
    return " or ".join(f"`{name}`" for name in sorted(names))
