"""Where the outputs of an extraction can be seen: in the live variables, and in what the last cells printed.

A field is found when every distinctive value in it (`matching.is_distinctive`) was found. Booleans, null, empties and
values equal to an input say nothing by being found somewhere: they count only where a variable with the field's name
holds them, and are set aside otherwise. What is no evidence:

- inputs: variables with an input's name, or that hold the whole of an input under another name;
- a value somewhere in a large collection (`rows`, `list(range(1000))`), unless the whole field equals the collection,
  or the value stands under a key with the field's name;
- a value in what the runtime wrote: tracebacks, limits, hints, cell numbers;
- a value printed by a cell whose own code has it as a literal: `print("Paris")` shows what the model wrote, not what it
  found. Code and reasoning are not searched.

Text of an input that a cell printed is evidence: it is what the model looked at.
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
from .flatten import Leaf, leaves_of, same, spread
from .literals import literals
from .match import Text, is_distinctive, needles, normal
from .numbers import Number, Numbers, as_number
from .printed import printed

if TYPE_CHECKING:
    from sandbox.results import Variable

__all__ = ["RECENT", "Evidence", "Findings", "Support", "find_evidence", "null_ratio"]

RECENT = 3  # "recent history" is this many of the last iterations that printed anything
_MOST_LEAVES = 200  # of one field that are looked for, spread over all of it
_MOST_KEPT = 20  # pieces of evidence for one field of each kind
_SMALL = 50  # a collection of more values than this may hold any value by chance
_MOST_VALUES = 50_000  # of all variables together that are looked at
_QUOTE = 200
_NOT_DATA = ("def ", "class ", "module ")  # how previews of code begin
_COLLECTION = re.compile(r"(\w+\()?[\[{(]")  # how previews of sets, of `Counter({...})` and `deque([...])` begin


@dataclass(frozen=True, slots=True)
class Support:
    """How many values of one field were looked for, and how many of them were found."""

    values: int
    held: int
    """In the variables. The whole field counts as all of its values."""

    printed: int
    """In what recent cells printed."""


@dataclass(frozen=True, slots=True)
class Findings:
    """What was found of some outputs, and what the scorer needs to know."""

    evidence: tuple[Evidence, ...]
    in_variables: bool
    """Every field that counts was found in the variables, and there was one."""

    in_history: bool
    """Every field that counts was found in the recent history, and there was one."""

    null_ratio: float
    """The share of output fields that are null."""

    unsupported: tuple[str, ...] = ()
    """Fields with a value for which there is no evidence at all."""

    support: Mapping[str, Support] = field(default_factory=dict, compare=False)
    """By field, how much of it was found."""

    features: Mapping[str, Mapping[str, float]] = field(default_factory=dict, compare=False)
    """By field, the evidence in numbers: see `features.py`."""


_Found = list[Evidence | None] | None
"""For each value of a field the evidence, or None; None in place of all where the field does not count."""


def find_evidence(
    outputs: Mapping[str, Any] | BaseModel,
    variables: Mapping[str, Variable],
    history: Sequence[REPLHistoryEntry],
    inputs: Mapping[str, Any] | None = None,
    *,
    recent: int = RECENT,
) -> Findings:
    """Look for the outputs, typed, in the variables and in the last `recent` iterations that printed anything."""
    fields = dict(outputs)
    given = inputs or {}
    holders = _Variables(variables, given)
    cells = [_Cell(entry) for entry in history if entry.printed.strip()][-recent:] if recent > 0 else []
    evidence: list[Evidence] = []
    counted: dict[str, list[bool]] = {"variable": [], "history": []}
    support: dict[str, Support] = {}
    for name, value in fields.items():
        telling = [leaf for leaf in leaves_of(value, (name,)) if _says_something(leaf.value, given)]
        leaves = spread(telling, _MOST_LEAVES)
        held, seen = holders.find(name, value, leaves), _in_cells(leaves, cells)
        support[name] = Support(max(1, len(leaves)), _found(held, len(leaves)), _found(seen, len(leaves)))
        for kind, found in (("variable", held), ("history", seen)):
            if found is not None:
                counted[kind].append(None not in found)
                evidence += [one for one in found if one is not None][:_MOST_KEPT]
    supported = {one.field for one in evidence}
    return Findings(
        evidence=tuple(evidence),
        in_variables=bool(counted["variable"]) and all(counted["variable"]),
        in_history=bool(counted["history"]) and all(counted["history"]),
        null_ratio=null_ratio(fields),
        unsupported=tuple(name for name, value in fields.items() if value is not None and name not in supported),
        support=support,
    )


def _found(pieces: _Found, values: int) -> int:
    """How many values were found. One piece of evidence can stand for the whole field."""
    if pieces is None or None in pieces:
        return sum(one is not None for one in pieces or ())
    return max(1, values)


def null_ratio(outputs: Mapping[str, Any]) -> float:
    """The share of the fields that are null."""
    return sum(value is None for value in outputs.values()) / len(outputs) if outputs else 0.0


def _says_something(value: Any, inputs: Mapping[str, Any]) -> bool:
    return is_distinctive(value) and not any(same(value, given) for given in inputs.values())


def _is_one_of(variable: Variable, inputs: list[Any]) -> bool:
    held = variable.value
    return variable.has_value and any(type(given) is type(held) and given == held for given in inputs)


class _Variables:
    """The variables that can be evidence, and the single values in the small ones by value."""

    def __init__(self, variables: Mapping[str, Variable], inputs: Mapping[str, Any]) -> None:
        whole = [given for given in inputs.values() if isinstance(given, str | list | dict)]
        self._held = {
            name: variable
            for name, variable in variables.items()
            if name not in inputs
            and not (
                variable.has_value and any(type(one) is type(variable.value) and one == variable.value for one in whole)
            )
        }
        self._strings: dict[str, str] = {}
        numbers: list[tuple[Number, str]] = []
        self._keyed: dict[str, list[tuple[str, Any]]] = {}
        self._previews: list[tuple[str, Text]] = []
        room = _MOST_VALUES
        for name, variable in self._held.items():
            if not variable.has_value:
                # A date, a Decimal, a dataclass: something small of its own. What has a size may be a copy of anything.
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

    def find(self, field: str, value: Any, leaves: list[Leaf]) -> _Found:
        """The evidence for the whole of a field or for each of its values."""
        carried, problems = plain(value)
        namesake, text = self._held.get(field), None
        if namesake is not None and not namesake.has_value:
            # Sets and the like have no JSON value. Under the field's name, what can be seen of them is worth as much.
            text = Text(namesake.preview) if _COLLECTION.match(namesake.preview) else None
            namesake = None
        if namesake is not None and not problems and same(carried, namesake.value):
            return [self._evidence((field,), field)]
        if not leaves:
            return None if namesake is None else [None]
        if isinstance(carried, list | dict):
            for name, variable in self._held.items():
                if variable.has_value and same(carried, variable.value):
                    return [self._evidence((field,), name)]
        if namesake is not None and isinstance(namesake.value, str):
            text = Text(namesake.value)
        holders = [(leaf, self._holder(field, leaf.value, text)) for leaf in leaves]
        return [None if holder is None else self._evidence(leaf.path, holder) for leaf, holder in holders]

    def _holder(self, field: str, value: Any, namesake: Text | None) -> str | None:
        """The name of a variable that holds a single value."""
        if namesake is not None and namesake.find(value) is not None:
            return field
        for needle in needles(value):
            found = self._strings.get(normal(needle)) if isinstance(needle, str) else self._numbers.find(needle)
            if found is not None:
                return str(found)
            for name, keyed in self._keyed.get(field, ()):
                if same(needle, keyed):
                    return name
        return next((name for name, preview in self._previews if preview.find(value) is not None), None)

    def _evidence(self, path: Path, name: str) -> Evidence:
        return Evidence(pointer(path), "variable", self._held[name].preview[:_QUOTE], variable=name)


class _Cell:
    """What one iteration printed, and what its code would have it print anyway."""

    def __init__(self, entry: REPLHistoryEntry) -> None:
        self.entry = entry
        self._output = Text(printed(entry))
        self._literals = Text(literals(entry.code))

    def find(self, leaf: Leaf) -> Evidence | None:
        span = self._output.find(leaf.value)
        if span is None or self._literals.find(leaf.value) is not None:
            return None
        quote = self.entry.output[span[0] : span[1]][:_QUOTE]
        return Evidence(pointer(leaf.path), "history", quote, iteration=self.entry.iteration, span=span)


def _in_cells(leaves: list[Leaf], cells: list[_Cell]) -> _Found:
    """The newest evidence for each value of a field."""
    if not leaves:
        return None
    return [next((one for cell in reversed(cells) if (one := cell.find(leaf)) is not None), None) for leaf in leaves]
