"""From the code of cells to the graph: an abstract interpreter that runs nothing.

Straight-line code at the top level is followed in order. Branches and loops join what they may leave; functions and
names that they share are followed without order. What cannot be followed is opaque: `exec`, `globals()`, attributes
with two underscores, modules that reach into the interpreter, code that does not parse. A cell that failed may have
run up to any of its statements.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from .graph import Place
from .program import Cell, Program
from .statements import Statements

__all__ = ["Cell", "Program", "analyze"]

_MAX_CODE = 500_000


def analyze(
    cells: Iterable[Cell],
    inputs: Mapping[str, Any],
    tools: Iterable[str] = (),
    *,
    max_nodes: int = 30_000,
) -> Program:
    """Return the graph of the cells, in order. Never raises; takes nearly linear time.

    `inputs` are the live inputs; only their types are read. `tools` are names of the caller's functions.
    """
    builder = Statements(inputs, frozenset(tools), max_nodes)
    size = 0
    for cell in cells:
        size += len(cell.code)
        if size > _MAX_CODE:
            builder.give_up(Place(cell.iteration, 0, "more code than is read"))
            break
        builder.add_cell(cell)
    program = builder.program
    program.names = {name: node for name in builder.module.layers[0] if (node := builder.module.get(name)) is not None}
    return program
