"""What the analysis of cells returns: the graph, the calls of SUBMIT, the names after the last cell."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from .graph import Graph, Place


@dataclass(frozen=True, slots=True)
class Cell:
    """The code of one cell that the host ran, and whether it ran to its end."""

    iteration: int
    code: str
    success: bool = True


@dataclass(frozen=True, slots=True)
class Submission:
    """A call of SUBMIT in the code: a node for each output, or for a mapping of all."""

    iteration: int
    place: Place
    outputs: Mapping[str, int]
    whole: int | None
    """The mapping that was given by position, or as `**mapping`."""

    control: int | None
    is_indirect: bool
    """It is in a function, which may be called anywhere."""


@dataclass(slots=True)
class Program:
    """The graph of some cells, with the calls of SUBMIT and the names after the last cell."""

    graph: Graph
    submissions: list[Submission] = field(default_factory=list)
    names: dict[str, int] = field(default_factory=dict)
    opaque: list[Place] = field(default_factory=list)
    """Where code could not be followed."""

    printed: list[tuple[int, int]] = field(default_factory=list)
    """Iterations, with nodes of what their cells printed or showed."""
