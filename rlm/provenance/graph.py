"""The graph of definitions and uses: nodes for values, edges to what they were made from, and reachability.

An edge has a mode. `SAME`: the value may be the other one, or a part of it (a name, an item, a branch). `DATA`: it was
computed from the other one. `CONTROL`: the other one decided whether, or how often, or which. Objects that may be
changed through another name share a region: what is put into one is put into all. The analysis of Steensgaard does
the same for pointers; it is conservative and takes nearly linear time.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, Literal

SAME, DATA, CONTROL = 0, 1, 2

NodeKind = Literal["input", "literal", "model", "tool", "value", "choice", "opaque", "nothing"]


@dataclass(frozen=True, slots=True)
class Place:
    """A place in the code of a cell."""

    iteration: int
    line: int = 0
    code: str = ""
    """The statement or expression, cut to a line."""


@dataclass(frozen=True, slots=True)
class Part:
    """A part of an input that code took: `log[:1000]`, or the lines up to a `break`."""

    input: str
    unit: Literal["characters", "lines", "items"]
    start: int | None = None
    stop: int | None = None
    stops_early: bool = False
    """A loop over it has a `break`: how much was read is not known."""


@dataclass(slots=True)
class Node:
    """One value of a run, or several that the analysis does not tell apart."""

    kind: NodeKind
    place: Place | None = None
    value: Any = None
    """The value of a literal; the name of an input, a model function or a tool."""

    edges: list[tuple[int, int]] = field(default_factory=list)
    """Nodes and modes."""

    items: dict[Any, int] | None = None
    """The items of a display, by key or index."""

    whole: tuple[str, str] | None = None
    """The input that this is, or is all lines or items of, and its unit."""

    part: Part | None = None
    """The edges lead to a part of an input only."""

    cut: str = ""
    """A slice of a computed value, `hits[:3]`, or a loop over one that may end early: the code of it."""

    is_default: bool = False
    """A literal for the case that nothing is found: `d.get(key, 0)`."""

    is_step: bool = False
    """The literal 1 of a count: `n += 1`."""

    loop: int | None = None
    """The control node of the outermost loop that it is in."""

    accumulates: Literal["no", "maybe", "yes"] = "no"
    """Whether it grows with each pass of a loop: `n += 1`. Maybe: if it depends on itself."""

    control: int | None = None
    """The condition or loop under which it was computed."""


class Graph:
    """Nodes, edges and regions. Growth is bounded: when `full`, new nodes are opaque."""

    def __init__(self, max_nodes: int = 30_000) -> None:
        self.nodes: list[Node] = [Node("opaque")]
        self.max_nodes = max_nodes
        self._parents: list[int] = [0]
        self._changes: dict[int, list[int]] = {}

    @property
    def full(self) -> bool:
        """Whether the graph has no room for more nodes."""
        return len(self.nodes) >= self.max_nodes

    def add(self, kind: NodeKind, *edges: tuple[int, int], **about: Any) -> int:
        """Add a node and return its number; the opaque node if the graph is full."""
        if self.full:
            return 0
        number = len(self.nodes)
        self.nodes.append(Node(kind, **about))
        self._parents.append(number)
        for target, mode in edges:
            self.connect(number, target, mode)
        return number

    def connect(self, source: int, target: int, mode: int) -> None:
        """Add an edge. Nodes that may be the same object come to share a region."""
        if source == target or source == 0:
            return
        self.nodes[source].edges.append((target, mode))
        if mode == SAME and self.nodes[target].kind not in ("literal", "nothing", "opaque"):
            self._unite(source, target)

    def change(self, target: int, value: int) -> None:
        """Note that an object, or something that it holds, was changed by a value."""
        if target:
            self._changes.setdefault(self.region(target), []).append(value)

    def region(self, node: int) -> int:
        """Return the region of a node."""
        parents = self._parents
        while parents[node] != node:
            parents[node] = parents[parents[node]]
            node = parents[node]
        return node

    def changes(self, node: int) -> list[int]:
        """Return what the region of a node was changed by."""
        return self._changes.get(self.region(node), [])

    def _unite(self, one: int, other: int) -> None:
        first, second = self.region(one), self.region(other)
        if first == second:
            return
        if len(self._changes.get(first, ())) < len(self._changes.get(second, ())):
            first, second = second, first
        self._parents[second] = first
        if moved := self._changes.pop(second, None):
            self._changes.setdefault(first, []).extend(moved)


@dataclass(frozen=True, slots=True)
class Reached:
    """A node that was reached, and how."""

    node: int
    mode: int
    partial: bool
    """Whether the way leads through a part of an input."""

    previous: int
    """The index of the step before in the list of all; -1 for the start."""


def reach(graph: Graph, start: int) -> list[Reached]:
    """Return every way to reach a node from the start, nearest first: at most one for each mode and extent.

    Each node and each region is expanded at most six times.
    """
    found: list[Reached] = [Reached(start, SAME, False, -1)]
    seen = {(start, SAME, False)}
    regions: set[tuple[int, int, bool]] = set()
    for index, step in enumerate(found):  # the list grows while it is read
        node = graph.nodes[step.node]
        for target, mode, partial in _onward(graph, step, node, regions):
            state = (target, max(step.mode, mode), step.partial or partial)
            if state not in seen:
                seen.add(state)
                found.append(Reached(*state, previous=index))
    return found


def _onward(
    graph: Graph, step: Reached, node: Node, regions: set[tuple[int, int, bool]]
) -> Iterator[tuple[int, int, bool]]:
    partial = node.part is not None
    for target, mode in node.edges:
        yield target, mode, partial
    region = (graph.region(step.node), step.mode, step.partial)
    if region not in regions:
        regions.add(region)
        for change in graph.changes(step.node):
            yield change, SAME, False
