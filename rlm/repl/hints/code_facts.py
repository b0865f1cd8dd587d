"""Facts about code from its syntax tree: names it reads, constants it sets, slices it takes, imports it lacks."""

from __future__ import annotations

import ast
import functools
import warnings
from collections.abc import Collection

_NAME = "<reply>"
for _kind in (SyntaxWarning, DeprecationWarning):  # "\\d" is for the model to correct, and nothing for the terminal
    warnings.filterwarnings("ignore", category=_kind, module=_NAME)


@functools.lru_cache(8)
def tree_of(code: str) -> ast.Module | None:
    """Return the syntax tree; None where the code does not compile. The tree is shared: do not change it."""
    try:
        return ast.parse(code, _NAME)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None


@functools.lru_cache(8)
def nodes_of(code: str) -> tuple[ast.AST, ...]:
    """Return all nodes of the tree; none where the code does not compile."""
    tree = tree_of(code)
    return () if tree is None else tuple(ast.walk(tree))


def names_read(code: str, names: Collection[str]) -> frozenset[str]:
    """Return which of the names the code reads."""
    return frozenset(
        node.id
        for node in nodes_of(code)
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load) and node.id in names
    )


def names_stored(code: str) -> frozenset[str]:
    """Return the names that the code assigns to."""
    return frozenset(
        node.id for node in nodes_of(code) if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)
    )


def names_called(code: str) -> frozenset[str]:
    """Return the names of the functions that the code calls by name."""
    return frozenset(
        node.func.id for node in nodes_of(code) if isinstance(node, ast.Call) and isinstance(node.func, ast.Name)
    )


def constant_targets(code: str) -> frozenset[ast.Name]:
    """Return the targets of assignments of a constant: `answer = 300`."""
    assignments = [
        node for node in nodes_of(code) if isinstance(node, ast.Assign) and isinstance(node.value, ast.Constant)
    ]
    return frozenset(target for node in assignments for target in node.targets if isinstance(target, ast.Name))


def constant_names(code: str) -> frozenset[str]:
    """Return the names that the code sets to a constant."""
    return frozenset(target.id for target in constant_targets(code))


def names_computed(code: str) -> frozenset[str]:
    """Return the names that the code sets to something else than a constant."""
    constant = constant_targets(code)
    stored = [node for node in nodes_of(code) if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)]
    return frozenset(node.id for node in stored if node not in constant)


KNOWN = {
    **{name: f"import {name}" for name in ("re", "json", "math", "collections", "itertools", "statistics", "datetime")},
    **{name: f"from collections import {name}" for name in ("Counter", "defaultdict")},
}


def with_imports(code: str, bound: Collection[str]) -> str:
    """Return the code with the imports it lacks in front; as it is where it lacks none, or does not compile."""
    nodes = nodes_of(code)
    names = [node for node in nodes if isinstance(node, ast.Name)]
    own = {node.id for node in names if isinstance(node.ctx, ast.Store)} | set(bound)
    own |= {(alias.asname or alias.name).partition(".")[0] for node in nodes for alias in _imported(node)}
    lacking = sorted({node.id for node in names if node.id in KNOWN and node.id not in own})
    return "\n".join([*(KNOWN[name] for name in lacking), code])


def _imported(node: ast.AST) -> list[ast.alias]:
    return node.names if isinstance(node, ast.Import | ast.ImportFrom) else []
