"""The search for evidence: where the outputs of an extraction are in the live variables and in recent output of cells.

A field is found when every distinctive value in it (`match.is_distinctive`) was found. Booleans, null, empty values and
values equal to an input are not distinctive: they count only if a variable with the name of the field has them. What is
no evidence:

- inputs: variables with the name of an input, or with the whole of an input under another name;
- a value somewhere in a large collection (`rows`, `list(range(1000))`), unless the field equals the whole collection,
  or the value is under a key with the name of the field;
- a value in text of the runtime: tracebacks, limits, hints, cell numbers;
- a value printed by a cell whose code has it as a literal: `print("Paris")` shows what the model wrote, not what it
  found. Code and reasoning are not searched.

Text of an input that a cell printed is evidence: the model looked at it.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from pydantic import BaseModel

from ...history import REPLHistoryEntry
from ...json_values import Path, pointer
from ...results import Evidence
from ...signatures.validation import plain
from .match import Leaf, Number, Numbers, Text, as_number, is_distinctive, leaves_of, needles, normal, same, spread

if TYPE_CHECKING:
    from sandbox.results import Variable
import ast
import warnings

__all__ = ["RECENT", "Evidence", "Findings", "Support", "find_evidence", "null_ratio"]

RECENT = 3  # the number of last iterations with printed output that are searched
_MAX_LEAVES = 200  # of one field that are searched for, spread over all of it
_MAX_PIECES = 20  # of evidence for one field, of each kind
_SMALL = 50  # a collection of more values than this may have any value by chance
_MAX_VALUES = 50_000  # of all variables together that are searched
_MAX_QUOTE = 200
_NOT_DATA = ("def ", "class ", "module ")  # beginnings of previews of code
_COLLECTION = re.compile(r"(\w+\()?[\[{(]")  # beginnings of previews of sets, `Counter({...})`, `deque([...])`


@dataclass(frozen=True, slots=True)
class Support:
    """How many values of one field were searched for, and how many were found."""

    values: int
    in_variables: int
    """Found in variables. A variable with the whole field has all of its values."""

    in_history: int
    """Found in the output of recent cells."""


@dataclass(frozen=True, slots=True)
class Findings:
    """The evidence for some outputs, as a scorer reads it."""

    evidence: tuple[Evidence, ...]
    in_variables: bool
    """Whether there are fields that count, and all were found in variables."""

    in_history: bool
    """Whether there are fields that count, and all were found in the output of recent cells."""

    null_ratio: float
    """The share of output fields that are null."""

    unsupported: tuple[str, ...] = ()
    """Fields with a value and without any evidence."""

    support: Mapping[str, Support] = field(default_factory=dict, compare=False)
    """How much of each field was found."""

    features: Mapping[str, Mapping[str, float]] = field(default_factory=dict, compare=False)
    """The features of each field: see `features.py`."""


_Pieces = list[Evidence | None] | None
"""The evidence for each value of a field, or None; None for all if the field does not count."""


def find_evidence(
    outputs: Mapping[str, Any] | BaseModel,
    variables: Mapping[str, Variable],
    history: Sequence[REPLHistoryEntry],
    inputs: Mapping[str, Any] | None = None,
    *,
    recent: int = RECENT,
) -> Findings:
    """Search the variables and the last `recent` iterations with printed output for the typed outputs."""
    fields = dict(outputs)
    inputs = inputs or {}
    searched = _Variables(variables, inputs)
    cells = [_Cell(entry) for entry in history if entry.printed.strip()][-recent:] if recent > 0 else []
    evidence: list[Evidence] = []
    counted: dict[str, list[bool]] = {"variable": [], "history": []}
    support: dict[str, Support] = {}
    for name, value in fields.items():
        distinctive = [leaf for leaf in leaves_of(value, (name,)) if _is_evidence(leaf.value, inputs)]
        leaves = spread(distinctive, _MAX_LEAVES)
        found: dict[str, _Pieces] = {
            "variable": searched.find(name, value, leaves),
            "history": _in_cells(leaves, cells),
        }
        support[name] = Support(max(1, len(leaves)), *(_count(pieces, len(leaves)) for pieces in found.values()))
        for kind, pieces in found.items():
            if pieces is not None:
                counted[kind].append(None not in pieces)
                evidence += [piece for piece in pieces if piece is not None][:_MAX_PIECES]
    supported = {piece.field for piece in evidence}
    return Findings(
        evidence=tuple(evidence),
        in_variables=bool(counted["variable"]) and all(counted["variable"]),
        in_history=bool(counted["history"]) and all(counted["history"]),
        null_ratio=null_ratio(fields),
        unsupported=tuple(name for name, value in fields.items() if value is not None and name not in supported),
        support=support,
    )


def _count(pieces: _Pieces, values: int) -> int:
    """Return how many values were found. One piece of evidence can be for the whole field."""
    if pieces is None or None in pieces:
        return sum(piece is not None for piece in pieces or ())
    return max(1, values)


def null_ratio(outputs: Mapping[str, Any]) -> float:
    """Return the share of the fields that are null."""
    return sum(value is None for value in outputs.values()) / len(outputs) if outputs else 0.0


def _is_evidence(value: Any, inputs: Mapping[str, Any]) -> bool:
    return is_distinctive(value) and not any(same(value, given) for given in inputs.values())


def _is_copy(value: Any, inputs: list[Any]) -> bool:
    return any(type(given) is type(value) and given == value for given in inputs)


class _Variables:
    """The variables that can be evidence, and an index of the values in small ones."""

    def __init__(self, variables: Mapping[str, Variable], inputs: Mapping[str, Any]) -> None:
        whole = [value for value in inputs.values() if isinstance(value, str | list | dict)]
        self._variables = {
            name: variable
            for name, variable in variables.items()
            if name not in inputs and not (variable.has_value and _is_copy(variable.value, whole))
        }
        self._strings: dict[str, str] = {}
        numbers: list[tuple[Number, str]] = []
        self._keyed: dict[str, list[tuple[str, Any]]] = {}
        self._previews: list[tuple[str, Text]] = []
        room = _MAX_VALUES
        for name, variable in self._variables.items():
            if not variable.has_value:
                # A date, a Decimal, a dataclass: small values. A value with a size may be a copy of anything.
                if variable.size is None and not variable.preview.startswith(_NOT_DATA):
                    self._previews.append((name, Text(variable.preview)))
                continue
            values = list(leaves_of(variable.value, ()))[:room]
            room -= len(values)
            for leaf in values:
                for step in leaf.path:
                    if isinstance(step, str) and step != leaf.value:
                        self._keyed.setdefault(step, []).append((name, leaf.value))
                if len(values) <= _SMALL:
                    self._add(name, leaf.value, numbers)
        self._numbers = Numbers([(number, name) for number, name in numbers])

    def _add(self, name: str, value: Any, numbers: list[tuple[Number, str]]) -> None:
        if isinstance(value, str):
            self._strings.setdefault(normal(value), name)
            number = as_number(value)
            if number is not None:
                numbers.append((number, name))
        elif isinstance(value, int | float) and not isinstance(value, bool):
            numbers.append((value, name))

    def find(self, field: str, value: Any, leaves: list[Leaf]) -> _Pieces:
        """Return the evidence for a whole field, or for each of its values."""
        carried, problems = plain(value)
        namesake, text = self._variables.get(field), None
        if namesake is not None and not namesake.has_value:
            # Sets and the like have no JSON value. Under the name of the field, their preview is as good.
            text = Text(namesake.preview) if _COLLECTION.match(namesake.preview) else None
            namesake = None
        if namesake is not None and not problems and same(carried, namesake.value):
            return [self._evidence((field,), field)]
        if not leaves:
            return None if namesake is None else [None]
        if isinstance(carried, list | dict):
            for name, variable in self._variables.items():
                if variable.has_value and same(carried, variable.value):
                    return [self._evidence((field,), name)]
        if namesake is not None and isinstance(namesake.value, str):
            text = Text(namesake.value)
        holders = [(leaf, self._holder(field, leaf.value, text)) for leaf in leaves]
        return [None if holder is None else self._evidence(leaf.path, holder) for leaf, holder in holders]

    def _holder(self, field: str, value: Any, namesake: Text | None) -> str | None:
        """Return the name of a variable with a single value."""
        if namesake is not None and namesake.find(value) is not None:
            return field
        for needle in needles(value):
            name = self._strings.get(normal(needle)) if isinstance(needle, str) else self._numbers.find(needle)
            if name is not None:
                return str(name)
            for holder, keyed in self._keyed.get(field, ()):
                if same(needle, keyed):
                    return holder
        return next((name for name, preview in self._previews if preview.find(value) is not None), None)

    def _evidence(self, path: Path, name: str) -> Evidence:
        return Evidence(pointer(path), "variable", self._variables[name].preview[:_MAX_QUOTE], variable=name)


class _Cell:
    """The printed output of an iteration, and the literals of its code."""

    def __init__(self, entry: REPLHistoryEntry) -> None:
        self.entry = entry
        self._output = Text(printed(entry))
        self._literals = Text(literals(entry.code))

    def find(self, leaf: Leaf) -> Evidence | None:
        span = self._output.find(leaf.value)
        if span is None or self._literals.find(leaf.value) is not None:
            return None
        quote = self.entry.output[span[0] : span[1]][:_MAX_QUOTE]
        return Evidence(pointer(leaf.path), "history", quote, iteration=self.entry.iteration, span=span)


def _in_cells(leaves: list[Leaf], cells: list[_Cell]) -> _Pieces:
    """Return the newest evidence for each value of a field."""
    if not leaves:
        return None
    return [
        next((piece for cell in reversed(cells) if (piece := cell.find(leaf)) is not None), None) for leaf in leaves
    ]


# What the runtime writes and code may print: places in code (tracebacks, warnings), and the rest of the budget.
_RUNTIME = re.compile(
    r"""File\ "[^"\n]{1,500}",\ line\ \d+ | <cell\ \d+>(?::\d+)? | \{['"]llm_calls['"]:[^{}\n]{0,200}\}""", re.VERBOSE
)


def printed(entry: REPLHistoryEntry) -> str:
    """Return what the code printed, with text of the runtime blanked. Positions are those in the output."""
    return _RUNTIME.sub(lambda match: " " * len(match[0]), entry.printed)


def literals(code: str) -> str:
    """Return the literals in some code, one a line; all of the code if it cannot be parsed."""
    tree = _parse(code)
    if tree is None:
        return code
    values = []
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant):
            values.append(str(node.value))
        elif isinstance(node, ast.UnaryOp) and isinstance(node.operand, ast.Constant):
            values.append(f"-{node.operand.value!r}")
    return "\n".join(values)


def loop_names(code: str) -> set[str]:
    """Return the names that loops bind. Afterwards they have the last item, which is rarely the answer."""
    tree = _parse(code)
    targets: list[ast.expr] = []
    for loop in ast.walk(tree) if tree is not None else ():
        if isinstance(loop, ast.For | ast.AsyncFor):
            targets.append(loop.target)
            # A loop that unpacks its items leaves the parts as well.
            unpacked = [statement for statement in loop.body if isinstance(statement, ast.Assign)]
            targets += [part for item in unpacked for part in item.targets if isinstance(part, ast.Tuple | ast.List)]
    return {node.id for target in targets for node in ast.walk(target) if isinstance(node, ast.Name)}


def _parse(code: str) -> ast.AST | None:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # warnings about the model's code are not for the user
            return ast.parse(code)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None


_NEXT_LABEL = re.compile(r"[,;}]\s*['\"]?[^\W\d]\w*['\"]?\s*[:=]")
_WORDS = {None: ("none", "null", "nan"), True: ("true", "yes"), False: ("false", "no")}
_MAX_CHARS = 300
_MAX_PRINTED_LEAVES = 20
_TENTATIVE = re.compile(
    r"(?<![a-z])(?:so far|partial(?:ly)?|approx\w*|about|roughly|guess\w*|maybe|perhaps|probably|estimate\w*|"
    r"incomplete|unsure|unknown|todo|draft|tentative\w*|temp|tmp|first half|sample)(?![a-z])"
)


def is_tentative(text: str) -> bool:
    """Return whether a name or a line says that its value is not final: `n_so_far`, `about 40`."""
    return _TENTATIVE.search(text.lower().replace("_", " ")) is not None


def beside_name(field: str, value: Any, history: Sequence[REPLHistoryEntry]) -> bool | None:
    """Return whether the last text printed beside the name of a field is its value; None if there is no such text.

    Cells that have the value as a literal do not count.
    """
    name = re.sub(r"[_\s]+", r"[_ -]?", re.escape(field).replace(r"\_", "_"))
    label = re.compile(rf"(?<!\w){name}(?!\w)['\"]?\s*(?:[:=]|->|\bis\b)\s*([^\n]{{1,{_MAX_CHARS}}})", re.IGNORECASE)
    for entry in reversed(history):
        texts = label.findall(printed(entry)[-20_000:])
        if texts and not (_distinctive(value) and _contains(Text(literals(entry.code)), value)):
            text = _NEXT_LABEL.split(texts[-1], maxsplit=1)[0].strip()
            return _contains(Text(text), value) if _distinctive(value) else _begins_with(text, value)
    return None


def _distinctive(value: Any) -> list[Any]:
    return spread([leaf.value for leaf in leaves_of(value, ()) if is_distinctive(leaf.value)], _MAX_PRINTED_LEAVES)


def _contains(text: Text, value: Any) -> bool:
    return all(text.find(part) is not None for part in _distinctive(value))


def _begins_with(text: str, value: Any) -> bool:
    if value is None or isinstance(value, bool):
        return text.lower().strip("'\"").startswith(_WORDS[value])
    return text.startswith(("[]", "{}", "set()", "()", "''", '""'))
