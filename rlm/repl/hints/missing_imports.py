"""Imports that code forgot: names of the standard library that everybody knows. For models that run here."""

from __future__ import annotations

import ast
from collections.abc import Collection

from .code_facts import nodes_of

KNOWN = {
    **{name: f"import {name}" for name in ("re", "json", "math", "collections", "itertools", "statistics", "datetime")},
    **{name: f"from collections import {name}" for name in ("Counter", "defaultdict")},
}


def with_imports(code: str, bound: Collection[str]) -> str:
    """The code with the imports it lacks in front; as it is where it lacks none, or does not compile."""
    nodes = nodes_of(code)
    names = [node for node in nodes if isinstance(node, ast.Name)]
    own = {node.id for node in names if isinstance(node.ctx, ast.Store)} | set(bound)
    own |= {(one.asname or one.name).partition(".")[0] for node in nodes for one in _imported(node)}
    lacking = sorted({node.id for node in names if node.id in KNOWN and node.id not in own})
    return "\n".join([*(KNOWN[name] for name in lacking), code])


def _imported(node: ast.AST) -> list[ast.alias]:
    return node.names if isinstance(node, ast.Import | ast.ImportFrom) else []
