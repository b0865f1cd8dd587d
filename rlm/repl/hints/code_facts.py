"""The syntax of a cell, read once for all who look at it. Nobody changes what they find here."""

from __future__ import annotations

import ast
import functools
import warnings

_NAME = "<reply>"
for _kind in (SyntaxWarning, DeprecationWarning):  # "\\d" is the model's to mend, and nothing for the user's terminal
    warnings.filterwarnings("ignore", category=_kind, module=_NAME)


@functools.lru_cache(8)
def tree_of(code: str) -> ast.Module | None:
    """The tree of the code; None where it does not compile."""
    try:
        return ast.parse(code, _NAME)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None


@functools.lru_cache(8)
def nodes_of(code: str) -> tuple[ast.AST, ...]:
    """All nodes of the tree; none where the code does not compile."""
    tree = tree_of(code)
    return () if tree is None else tuple(ast.walk(tree))
