"""The origin of each value of the outputs: its kind, the chain from an input to SUBMIT, and what was read of the input.

What counts is what the host has: its inputs, the code that it ran, the values that it was given and the answers that it
gave to host calls. What code printed is quoted as a remark, and never raises a kind.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import islice
from typing import Any, Literal

from ..extraction.evidence.match import as_number
from ..json_values import Path
from .graph import CONTROL, DATA, SAME, Graph, Node, Part, Place, Reached, reach
from .program import Program, Submission
from .quotes import Quote, Texts

Kind = Literal["computed", "quoted", "said", "typed", "defaulted", "none"]

ORDER: tuple[Kind, ...] = ("none", "defaulted", "typed", "said", "quoted", "computed")
"""The kinds, the least trustworthy first."""

_MAX_LEAVES = 200
_MAX_CHECKS = 20
_MAX_STEPS = 12
_IMPORT = re.compile(r"(import|from) ")
_NOTHING = (None, "", 0, False)


@dataclass(frozen=True, slots=True)
class Call:
    """A host call as the host recorded it."""

    iteration: int
    name: str
    arguments: str
    answer: Any = None


@dataclass(frozen=True, slots=True)
class Origin:
    """Where one value of the outputs came from."""

    path: Path
    kind: Kind
    inputs: tuple[str, ...] = ()
    """The inputs that it depends on."""

    chain: tuple[Place, ...] = ()
    """The code between the input (or the literal, or the call) and SUBMIT."""

    quote: Quote | None = None
    """Its place in an input, for a text that is there verbatim."""

    call: Call | None = None
    """The call whose answer it is."""

    calls: int = 0
    """How many calls of models and tools it depends on, by name in the code."""

    parts: tuple[Part, ...] = ()
    """The parts of inputs that were read, where an input was not read as a whole."""

    cuts: tuple[str, ...] = ()
    """Slices of computed values on the way, and loops over them that may end early."""

    is_chosen: bool = False
    """A literal that was chosen by a condition on an input."""

    note: str | None = None


@dataclass(slots=True)
class _Sources:
    """What a node depends on."""

    graph: Graph
    found: list[Reached]
    data: dict[str, int] = field(default_factory=dict)
    """Inputs by name, with the index of the nearest way."""

    control: dict[str, int] = field(default_factory=dict)
    whole: set[str] = field(default_factory=set)
    parts: dict[Part, None] = field(default_factory=dict)
    literals: list[tuple[int, Node, int]] = field(default_factory=list)
    models: dict[int, int] = field(default_factory=dict)
    tools: dict[int, int] = field(default_factory=dict)
    cuts: dict[str, None] = field(default_factory=dict)
    growing: list[int] = field(default_factory=list)
    opaque: int | None = None

    @classmethod
    def of(cls, graph: Graph, start: int) -> _Sources:
        """Follow all edges from a node."""
        self = cls(graph, reach(graph, start))
        for index, step in enumerate(self.found):
            node = graph.nodes[step.node]
            if node.part is not None:
                self.parts.setdefault(node.part)
            if node.cut:
                self.cuts.setdefault(node.cut)
            if node.kind == "input":
                (self.data if step.mode <= DATA else self.control).setdefault(node.value, index)
                if not step.partial:
                    self.whole.add(node.value)
            elif node.kind == "opaque":
                self.opaque = index if self.opaque is None else self.opaque
            elif step.mode == CONTROL:
                continue
            elif node.kind == "literal":
                self.literals.append((index, node, step.mode))
            elif node.kind == "model":
                self.models.setdefault(step.node, index)
            elif node.kind == "tool":
                self.tools.setdefault(step.node, index)
            elif node.accumulates == "maybe" or (node.accumulates == "yes" and step.mode == DATA):
                self.growing.append(index)
        return self

    def grows_with(self) -> tuple[str, int] | None:
        """Return an input that decides how often a loop adds to the value, and the way to the loop; or None."""
        checks = 0
        for index in self.growing:
            checks += 1
            if checks > _MAX_CHECKS:
                return None
            number = self.found[index].node
            node = self.graph.nodes[number]
            if node.accumulates == "maybe" and not _depends_on_itself(self.graph, number):
                continue
            for control in _conditions(self.graph, node):
                for step in reach(self.graph, control):
                    made = self.graph.nodes[step.node]
                    if made.kind == "input" and step.mode <= DATA:
                        return str(made.value), index
        return None

    def chain(self, index: int) -> tuple[Place, ...]:
        """Return the places on the way from a node to the start, the node first."""
        places: list[Place] = []
        while index >= 0:
            step = self.found[index]
            place = self.graph.nodes[step.node].place
            if place is not None and place.line and (not places or places[-1] != place):
                places.append(place)
            index = step.previous
        if len(places) > _MAX_STEPS:
            places = places[: _MAX_STEPS // 2] + places[-_MAX_STEPS // 2 :]
        return tuple(places)


def origins(
    outputs: Mapping[str, Any],
    program: Program,
    inputs: Mapping[str, Any],
    calls: Sequence[Call] = (),
    *,
    given: Iterable[str] | None = None,
    texts: Texts | None = None,
) -> list[Origin]:
    """Return the origin of each single value in submitted outputs, which are plain JSON. Never raises.

    `given` are the fields that SUBMIT was called with: others have the default of the signature.
    """
    texts = texts or Texts(inputs)
    named = set(outputs if given is None else given)
    judge = _Judge(program, texts, calls)
    found: list[Origin] = []
    for name, value in outputs.items():
        for path, leaf in islice(leaves(value, (name,)), _MAX_LEAVES):
            if name not in named:
                found.append(Origin(path, "defaulted", note="SUBMIT was called without it"))
            else:
                found.append(judge.of_submitted(path, leaf))
    return found


def origin_of_variable(
    name: str,
    path: Path,
    value: Any,
    program: Program,
    inputs: Mapping[str, Any],
    inside: Sequence[str | int] = (),
    *,
    texts: Texts | None = None,
) -> Origin:
    """Return the origin of a value that a variable is known to have, or has `inside` it, after the last cell."""
    node = program.names.get(name)
    if node is None:
        return Origin(path, "none")
    node = _inside(program.graph, node, inside)
    return _Judge(program, texts or Texts(inputs), ()).of_node(path, value, node, ())


def cells_of(program: Program, path: Path) -> set[int]:
    """Return the cells whose values, functions or literals a submitted value depends on. Imports do not count."""
    graph, found = program.graph, set()
    last = max((call.iteration for call in program.submissions), default=0)
    for submission in program.submissions:
        if submission.iteration != last and not submission.is_indirect:
            continue
        node = _submitted_node(graph, submission, path)
        for step in reach(graph, node) if node is not None else ():
            made = graph.nodes[step.node]
            if made.kind != "input" and made.place is not None and not _IMPORT.match(made.place.code):
                found.add(made.place.iteration)
    return found


class _Judge:
    """Classifies values, with what is known of each node."""

    def __init__(self, program: Program, texts: Texts, calls: Sequence[Call]) -> None:
        self.program, self.texts, self.calls = program, texts, calls
        self._sources: dict[int, _Sources] = {}
        last = max((call.iteration for call in program.submissions), default=0)
        self.candidates = [call for call in program.submissions if call.iteration == last or call.is_indirect]

    def of_submitted(self, path: Path, value: Any) -> Origin:
        """Judge a value by every call of SUBMIT that may have given it: the least of these counts."""
        if self.program.opaque:
            place = self.program.opaque[0]
            what = f"`{place.code}` in cell {place.iteration}" if place.code else f"cell {place.iteration}"
            return Origin(path, "none", note=f"it cannot be told what the code does: {what}")
        found: list[Origin] = []
        for candidate in self.candidates:
            node = _submitted_node(self.program.graph, candidate, path)
            if node is None:
                continue
            made = self.program.graph.nodes[node]
            if made.kind == "literal" and not same_value(value, made.value) and len(self.candidates) > 1:
                continue  # this call would have given another value
            found.append(self.of_node(path, value, node, (candidate.place,)))
        if not found:
            return Origin(path, "none", note="no call of SUBMIT was found in the code")
        return min(found, key=lambda one: (ORDER.index(one.kind), -len(one.inputs)))

    def of_node(self, path: Path, value: Any, node: int, end: tuple[Place, ...]) -> Origin:
        """Judge a value by the node that it comes from."""
        if node not in self._sources:
            self._sources[node] = _Sources.of(self.program.graph, node)
        sources = self._sources[node]
        origin = self._judge(path, value, sources)
        chain = tuple(dict.fromkeys((*origin.chain, *end)))
        parts = tuple(part for part in sources.parts if part.input not in sources.whole)
        return replace(origin, chain=chain, parts=parts, cuts=tuple(sources.cuts) if origin.inputs else ())

    def _judge(self, path: Path, value: Any, sources: _Sources) -> Origin:
        inputs = tuple(dict.fromkeys((*sources.data, *sources.control)))
        about: dict[str, Any] = {"inputs": inputs, "calls": len(sources.models) + len(sources.tools)}
        if sources.opaque is not None:
            return Origin(path, "none", chain=sources.chain(sources.opaque), **about)
        literal = _literal_of(value, sources)
        quote = self.texts.find(value, list(sources.data)) if isinstance(value, str) else None
        if literal is not None:
            index, node, mode = literal
            chain = sources.chain(index)
            chosen = bool(inputs)
            if quote is None and isinstance(value, str):
                quote = self.texts.find(value, None)
            if mode == SAME and chosen and (node.is_default or _is_nothing(value)):
                return Origin(path, "defaulted", chain=chain, is_chosen=chosen, **about)
            if quote is not None and quote.is_long:
                return Origin(path, "quoted", chain=chain, quote=quote, is_chosen=chosen, **about)
            return Origin(path, "typed", chain=chain, quote=quote, is_chosen=chosen, **about)
        if sources.models:
            call = self._answer(value)
            index = next(iter(sources.models.values()))
            if call is not None or not sources.data:
                return Origin(path, "said", chain=sources.chain(index), call=call, **about)
        if sources.data:
            index = next(iter(sources.data.values()))
            chain = sources.chain(index)
            if quote is not None:
                return Origin(path, "quoted", chain=chain, quote=quote, **about)
            return Origin(path, "computed", chain=chain, **about)
        if sources.tools:
            return Origin(path, "computed", chain=sources.chain(next(iter(sources.tools.values()))), **about)
        grown = sources.grows_with()
        if grown is not None:
            index = sources.control.get(grown[0], grown[1])
            return Origin(path, "computed", chain=sources.chain(index), **about)
        if sources.literals:
            index = sources.literals[0][0]
            return Origin(path, "typed", chain=sources.chain(index), is_chosen=bool(inputs), **about)
        return Origin(path, "none", **about)

    def _answer(self, value: Any) -> Call | None:
        """Return the recorded call of a model whose answer is this value, or has it."""
        if isinstance(value, bool | None):
            return None
        for call in reversed(self.calls):
            if any(same_value(value, leaf) for _, leaf in leaves(_read(call.answer), ())):
                return call
        if isinstance(value, str) and len(value) > 2:
            for call in reversed(self.calls):
                if isinstance(call.answer, str) and value in call.answer:
                    return call
        return None


def _submitted_node(graph: Graph, call: Submission, path: Path) -> int | None:
    """Return the node of a value in what SUBMIT was called with."""
    name, *steps = path
    if name in call.outputs:
        return _inside(graph, call.outputs[str(name)], steps)
    return None if call.whole is None else _inside(graph, call.whole, [name, *steps])


def _inside(graph: Graph, node: int, steps: Sequence[str | int]) -> int:
    """Follow steps into displays (`{"a": x}`), as far as nothing else can have changed them."""
    for step in steps:
        for _ in range(8):  # names of it
            made = graph.nodes[node]
            same = [target for target, mode in made.edges if mode == SAME]
            if made.items is not None or made.kind not in ("value", "choice") or len(same) != 1 or made.part:
                break
            node = same[0]
        made = graph.nodes[node]
        if made.items is None or graph.changes(node):
            return node
        inner = made.items.get(step, made.items.get(str(step)))
        if inner is None:
            return node
        node = inner
    return node


def _literal_of(value: Any, sources: _Sources) -> tuple[int, Node, int] | None:
    """Return the literal that the value may be, the most direct first."""
    best: tuple[int, Node, int] | None = None
    for index, node, mode in sources.literals:
        if mode == DATA and node.is_step:
            continue
        if same_value(value, node.value) and (best is None or mode < best[2]):
            best = (index, node, mode)
    return best


def same_value(value: Any, literal: Any) -> bool:
    """Return whether a value of the outputs may be this literal: numbers also as texts that spell them."""
    if isinstance(value, bool | None) or isinstance(literal, bool | None):
        return type(value) is type(literal) and value == literal
    if isinstance(value, str) and isinstance(literal, str):
        return value.strip() == literal.strip()
    if isinstance(value, list | dict) or isinstance(literal, list | dict):
        return isinstance(value, list | dict) and isinstance(literal, list | dict) and not value and not literal
    number, other = _number(value), _number(literal)
    return number is not None and number == other


def _number(value: Any) -> float | int | None:
    if isinstance(value, int | float):
        return value
    return as_number(value) if isinstance(value, str) else None


def _is_nothing(value: Any) -> bool:
    return value in ([], {}) or any(
        value is nothing or (value == nothing and type(value) is type(nothing)) for nothing in _NOTHING
    )


def _depends_on_itself(graph: Graph, node: int) -> bool:
    return any(
        target == node and step.mode <= DATA and mode <= DATA
        for step in reach(graph, node)
        for target, mode in (*graph.nodes[step.node].edges, *((change, SAME) for change in graph.changes(step.node)))
    )


def _conditions(graph: Graph, node: Node) -> Iterator[int]:
    """Yield the conditions and loops that a node is computed under, up to the outermost loop."""
    control = node.control
    while control is not None:
        yield control
        if control == node.loop:
            return
        control = graph.nodes[control].control
    if node.loop is not None:
        yield node.loop


def leaves(value: Any, path: Path) -> Iterator[tuple[Path, Any]]:
    """Yield the single values in plain JSON. An empty list or object is one."""
    todo: list[tuple[Path, Any]] = [(path, value)]
    while todo:
        path, value = todo.pop()
        if isinstance(value, Mapping) and value:
            todo += [((*path, str(key)), inner) for key, inner in reversed(list(value.items()))]
        elif isinstance(value, list | tuple) and value:
            todo += [((*path, index), inner) for index, inner in reversed(list(enumerate(value)))]
        else:
            yield path, value


def _read(answer: Any) -> Any:
    if isinstance(answer, str) and answer[:1] in "[{":
        try:
            return json.loads(answer)
        except (ValueError, RecursionError):
            return answer
    return answer
