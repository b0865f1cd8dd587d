"""The evidence of a result: the origin of each value of its outputs, from what the host recorded of the run."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import islice
from typing import Any

from ..json_values import Path, pointer
from ..results import Evidence, Step
from .dataflow import analyze
from .graph import DATA, Part, reach
from .origins import ORDER, Call, Origin, cells_of, leaves, origin_of_variable, origins
from .program import Cell, Program
from .quotes import Texts

_MAX_PIECES = 20  # of one field
_MAX_LEAVES = 200  # of one field
_MAX_QUOTE = 200
_MAX_CUTS = 3
_MAX_ARGUMENTS = 100
_LEAST_CHARS, _LEAST_DIGITS = 3, 4


PART_TAKEN = "of what was computed, only"
"""How a note about a slice of a computed value begins."""


class RunEvidence:
    """Finds the evidence for the outputs of one run."""

    def __init__(
        self,
        cells: Iterable[Cell],
        inputs: Mapping[str, Any],
        calls: Sequence[Call] = (),
        tools: Iterable[str] = (),
        texts: Mapping[str, Any] | None = None,
    ) -> None:
        """`texts` are the inputs as they are searched, with the texts of files in their places."""
        self._inputs, self._calls = inputs, calls
        self._program = analyze(cells, inputs, tools)
        self._texts = Texts(inputs if texts is None else texts)
        self._has_files = texts is not None and texts is not inputs

    def of_submitted(self, outputs: Mapping[str, Any], given: Iterable[str] | None = None) -> tuple[Evidence, ...]:
        """Return the evidence for outputs that were submitted, which are plain JSON.

        `given` are the fields that SUBMIT was called with.
        """
        found = origins(outputs, self._program, self._inputs, self._calls, given=given, texts=self._texts)
        return self._evidence(found, outputs)

    def of_extracted(self, outputs: Mapping[str, Any], places: Sequence[Evidence]) -> tuple[Evidence, ...]:
        """Return the evidence for extracted outputs: the origin of the variable that has each value, then all places.

        `places` are the variables and the printed lines in which the values were found.
        """
        variables = {piece.path: piece.variable for piece in places if piece.kind == "variable" and piece.variable}
        printed = {piece.path: piece.iteration for piece in places if piece.kind == "history" and piece.iteration}
        reading = readers(self._program)
        found = [
            self._of_found(path, leaf, variables, printed, reading)
            for name, value in outputs.items()
            for path, leaf in islice(leaves(value, (name,)), _MAX_LEAVES)
        ]
        return (*self._evidence(found, outputs), *places)

    def _of_found(
        self,
        path: Path,
        value: Any,
        variables: Mapping[str, str],
        printed: Mapping[str, int],
        reading: Mapping[int, str],
    ) -> Origin:
        """Return the origin of an extracted value: of the variable that has it, or has all that it is a part of."""
        for depth in range(len(path), 0, -1):
            name = variables.get(pointer(path[:depth]))
            if name is not None:
                inside = path[depth:]
                return origin_of_variable(name, path, value, self._program, self._inputs, inside, texts=self._texts)
        if value is None:
            return Origin(path, "none", note="nothing was found for it")
        for depth in range(len(path), 0, -1):
            shown = printed.get(pointer(path[:depth]))
            if shown is not None:
                note = f"printed by cell {shown}, which reads {reading[shown]}" if shown in reading else None
                return Origin(path, "typed", note=note)
        return Origin(path, "none")

    def independence(self, name: str, value: Any, first_cells: int) -> tuple[str | None, Evidence | None]:
        """Return why an output of a second program does not check the first one's; None if it does. And its origin.

        `first_cells` is how many iterations the first program had.
        """
        found = origins({name: value}, self._program, self._inputs, self._calls, texts=self._texts)
        if not found:
            return "its origin is not known", None
        worst = self._piece(min(found, key=lambda one: ORDER.index(one.kind)), (name,), value)
        if worst.kind == "none":
            return "its origin is not known", worst
        if worst.kind == "typed" or not (worst.inputs or worst.calls):
            return "the value is written in the code", worst
        shared = sorted(cell for cell in cells_of(self._program, (name,)) if cell <= first_cells)
        if shared:
            return f"it goes by what cell {shared[-1]} of the first program made", worst
        return None, worst

    def _evidence(self, found: Sequence[Origin], outputs: Mapping[str, Any]) -> tuple[Evidence, ...]:
        by_field: dict[str | int, list[Origin]] = {}
        for origin in found:
            by_field.setdefault(origin.path[0], []).append(origin)
        pieces: list[Evidence] = []
        for field, group in by_field.items():
            first = group[0]
            if len(group) > 1 and all(_is_alike(origin, first) for origin in group):
                pieces.append(self._piece(first, (field,), _of_path(outputs, (field,))))
            else:
                worst = sorted(group, key=lambda one: ORDER.index(one.kind))[:_MAX_PIECES]
                pieces += [
                    self._piece(origin, origin.path, _of_path(outputs, origin.path))
                    for origin in group
                    if origin in worst
                ]
        return tuple(pieces)

    def _piece(self, origin: Origin, path: Path, value: Any) -> Evidence:
        quote, chain = origin.quote, tuple(Step(place.iteration, place.line, place.code) for place in origin.chain)
        about: dict[str, Any] = {}
        if quote is not None:
            about = {"input": quote.input, "span": (quote.start, quote.end), "line": quote.line}
        notes = [origin.note] if origin.note else []
        if self._has_files and quote is None and (place := self._page_of(origin, value)) is not None:
            notes.append(place)
        notes += [self._describe_part(part) for part in origin.parts]
        notes += [_describe_cut(cut) for cut in origin.cuts[:_MAX_CUTS]]
        if origin.kind == "said" and origin.call is not None:
            notes.append(f"{origin.call.name} was asked: {_shortened(_asked(origin.call), _MAX_ARGUMENTS)}")
        if origin.kind == "typed" and origin.chain and not origin.inputs:
            cell = origin.chain[0].iteration
            before = {iteration: name for iteration, name in readers(self._program).items() if iteration < cell}
            if before:
                last = max(before)
                notes.append(f"cell {last} printed of {before[last]} before")
        text = quote.text if quote is not None else _shown(value)
        return Evidence(
            pointer(path),
            origin.kind,
            _shortened(text, _MAX_QUOTE) if quote is None else text[:_MAX_QUOTE],
            iteration=origin.chain[0].iteration if origin.chain else None,
            inputs=origin.inputs,
            chain=chain,
            calls=origin.calls,
            is_chosen=origin.is_chosen,
            coverage=self._coverage(origin),
            note="; ".join(notes) or None,
            **about,
        )

    def _page_of(self, origin: Origin, value: Any) -> str | None:
        """Say where a computed value stands in the files that it was computed from, as numbers are written there."""
        if origin.kind != "computed":
            return None
        for text in written(value):
            if (quote := self._texts.find(text, origin.inputs)) is not None:
                return f"{text} stands in {quote.input}, line {quote.line}"
        return None

    def _coverage(self, origin: Origin) -> float | None:
        """Return the least share that was read of the inputs that it depends on."""
        if not origin.inputs:
            return None
        shares = [self._share(part) for part in origin.parts]
        known = [share for share in shares if share is not None]
        return min(known) if known else None if shares else 1.0

    def _share(self, part: Part) -> float | None:
        if part.stops_early:
            return None
        size = self._size(part)
        if size is None or not size:
            return None
        start, stop, _ = slice(part.start, part.stop).indices(size)
        return round(max(0, stop - start) / size, 4)

    def _size(self, part: Part) -> int | None:
        value = self._inputs.get(part.input)
        if part.unit == "lines":
            return len(value.splitlines()) if isinstance(value, str) else None
        return len(value) if isinstance(value, str | list | tuple | dict) else None

    def _describe_part(self, part: Part) -> str:
        if part.stops_early:
            return f"{part.input}: its {part.unit} up to where a loop ends early, or some of them"
        size = self._size(part)
        of = f" of {size:,}" if size is not None else ""
        if part.start in (None, 0):
            return f"{part.input}: the first {part.stop or 0:,}{of} {part.unit}"
        return (
            f"{part.input}: {part.unit} {part.start or 0:,} to {part.stop if part.stop is not None else 'the end'}{of}"
        )


def written(value: Any) -> list[str]:
    """Return how a value may be written in a text; nothing for what stands in any text by chance."""
    if isinstance(value, str):
        return [value] if len(value) > _LEAST_CHARS else []
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        return []
    ways = [f"{abs(value):,}", str(abs(value))]
    if isinstance(value, float):
        ways = [f"{abs(value):,.2f}", *ways, *([f"{abs(int(value)):,}"] if value.is_integer() else [])]
    return [way for way in dict.fromkeys(ways) if sum(char.isdigit() for char in way) >= _LEAST_DIGITS]


def _describe_cut(code: str) -> str:
    return (
        f"{PART_TAKEN} `{code}`" if code.endswith("]") else f"{PART_TAKEN} what `{code}` reached before it ended early"
    )


def readers(program: Program) -> dict[int, str]:
    """Return the iterations whose cells printed something that was computed from an input, with its name."""
    found: dict[int, str] = {}
    for iteration, node in program.printed:
        if iteration not in found and len(found) < 50:
            for step in reach(program.graph, node):
                made = program.graph.nodes[step.node]
                if made.kind == "input" and step.mode <= DATA:
                    found[iteration] = made.value
                    break
    return found


def _is_alike(one: Origin, other: Origin) -> bool:
    return one.quote is None and replace(one, path=()) == replace(other, path=())


def _of_path(outputs: Any, path: Path) -> Any:
    for step in path:
        if isinstance(outputs, Mapping):
            outputs = outputs.get(step)
        elif isinstance(outputs, list | tuple) and isinstance(step, int) and step < len(outputs):
            outputs = outputs[step]
    return outputs


def _asked(call: Call) -> str:
    try:
        args, keywords = json.loads(call.arguments)
        asked = args[0] if args else next(iter(keywords.values()), "")
    except (ValueError, TypeError, IndexError):
        asked = call.arguments
    return asked if isinstance(asked, str) else json.dumps(asked, ensure_ascii=False, default=str)


def _shown(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=str)


def _shortened(text: str, size: int) -> str:
    line = " ".join(text[: 2 * size].split())
    return line if len(line) <= size else line[: size - 1] + "…"
