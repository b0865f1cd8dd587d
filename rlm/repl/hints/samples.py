"""Answers that small models write down: one of the first few things that code printed, or a value out of the blue."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Mapping

from sandbox import Variable

from .code_facts import nodes_of

SAMPLE = (
    "Only {shown} of the {size} in `{name}` were shown, and this value was written down, not computed. Compute the "
    "answer from all of `{name}`, print it, and submit the variable that holds it."
)


def from_a_sample(code: str, before: str, variables: Mapping[str, Variable]) -> str | None:
    """Why a value that `code` submits or prints is doubtful, if the cell `before` showed a part; None if it is not."""
    if not _gives_a_constant(code):
        return None
    for name, shown in _slices(before):
        size = variables[name].size if name in variables else None
        if isinstance(size, int) and size > shown:
            return SAMPLE.format(shown=shown, size=size, name=name)
    return None


def written_down(code: str) -> set[str]:
    """The names that the code sets to a constant."""
    return {target.id for target in _set_to_constants(code)}


def computed(variables: Mapping[str, Variable], cells: Iterable[str]) -> dict[str, Variable]:
    """The variables without those that were only ever set to constants since: what a model says, and did not find."""
    said: set[str] = set()
    for code in cells:
        constants = _set_to_constants(code)
        stored = [node for node in nodes_of(code) if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)]
        said = (said | {node.id for node in constants}) - {node.id for node in stored if node not in constants}
    return {name: one for name, one in variables.items() if name not in said}


def _set_to_constants(code: str) -> set[ast.Name]:
    made = [node for node in nodes_of(code) if isinstance(node, ast.Assign) and isinstance(node.value, ast.Constant)]
    return {target for node in made for target in node.targets if isinstance(target, ast.Name)}


def _gives_a_constant(code: str) -> bool:
    names, given = written_down(code), []
    for node in nodes_of(code):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in ("SUBMIT", "print"):
            given += [one.value for one in node.keywords] if node.func.id == "SUBMIT" else node.args
            if node.func.id == "SUBMIT" and any(isinstance(one.value, ast.Constant) for one in node.keywords):
                return True
    return any(isinstance(one, ast.Name) and one.id in names for one in given)


def _slices(code: str) -> list[tuple[str, int]]:
    """The names of which the code takes the first so many, as in `hits[:3]`."""
    return [
        (node.value.id, node.slice.upper.value)
        for node in nodes_of(code)
        if isinstance(node, ast.Subscript)
        and isinstance(node.value, ast.Name)
        and isinstance(node.slice, ast.Slice)
        and node.slice.lower is None
        and isinstance(node.slice.upper, ast.Constant)
        and isinstance(node.slice.upper.value, int)
    ]
