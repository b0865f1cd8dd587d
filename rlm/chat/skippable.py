"""Cells that need not run again when a kernel is rebuilt, because they provably left nothing behind.

A cell is left out where it does not compile, or where it only reads: calls of a few builtins and helpers, on inputs and
on values of builtin types, whose results are printed and not bound to a name. Everything else runs again.
"""

from __future__ import annotations

import ast
from collections.abc import Collection, Iterable

from ..repl.hints.code_facts import nodes_of, tree_of

_CALLS = frozenset(
    {
        *("abs", "all", "any", "ascii", "bin", "bool", "chr", "divmod", "float", "hex", "int", "isinstance", "len"),
        *("max", "min", "ord", "print", "repr", "round", "sorted", "str", "sum", "tuple", "type"),
        *("peek", "search", "chunk", "count_tokens"),
        *("SUBMIT", "validate_json", "budget", "llm_query", "llm_batch", "llm_errors", "rlm_query"),
    }
)
"""Functions without an effect but what they print. Calls of the host have recorded answers, and are not made again."""

_METHODS = frozenset(
    {
        *("casefold", "count", "endswith", "find", "index", "isalnum", "isalpha", "isdigit", "join", "lower", "lstrip"),
        *("partition", "replace", "rfind", "rpartition", "rstrip", "split", "splitlines", "startswith", "strip"),
        *("title", "upper", "zfill"),
    }
)
"""Methods of text that change nothing."""

_PURE = (
    *(ast.Module, ast.Expr, ast.Load, ast.Constant, ast.JoinedStr, ast.FormattedValue, ast.keyword, ast.Starred),
    *(ast.Slice, ast.UnaryOp, ast.UAdd, ast.USub, ast.Not, ast.Invert, ast.BoolOp, ast.And, ast.Or, ast.IfExp),
    *(ast.Compare, ast.Eq, ast.NotEq, ast.Lt, ast.LtE, ast.Gt, ast.GtE, ast.Is, ast.IsNot, ast.In, ast.NotIn),
    *(ast.BinOp, ast.Add, ast.Sub, ast.Mult, ast.Div, ast.FloorDiv, ast.Mod, ast.Tuple, ast.List, ast.Dict),
)
_PLAIN_TYPES = frozenset({"str", "bytes", "int", "float", "bool", "NoneType", "list", "tuple", "dict"})


def names_bound(cells: Iterable[str]) -> frozenset[str]:
    """Return every name that the cells may bind, anywhere; a cell that may bind any name gives `*`."""
    names: set[str] = set()
    for code in cells:
        for node in nodes_of(code):
            if isinstance(node, ast.Name) and not isinstance(node.ctx, ast.Load):
                names.add(node.id)
            elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
                names.add(node.name)
            elif isinstance(node, ast.alias):
                names.add((node.asname or node.name).partition(".")[0])
            elif isinstance(node, ast.ExceptHandler | ast.MatchAs | ast.MatchStar) and node.name:
                names.add(node.name)
            elif isinstance(node, ast.MatchMapping) and node.rest:
                names.add(node.rest)
            elif isinstance(node, ast.Attribute) and node.attr in ("__dict__", "__globals__", "modules"):
                names.add("*")
            if isinstance(node, ast.Name) and node.id in ("exec", "eval", "globals", "locals", "vars", "setattr"):
                names.add("*")
    return frozenset(names)


def only_reads(code: str, plain: Collection[str], bound: Collection[str]) -> bool:
    """Return whether running this code again can be left out.

    `plain` are the variables whose values are of builtin types, and whose parts are; `bound` is what `names_bound`
    found in all cells of the session.
    """
    tree = tree_of(code)
    if tree is None:
        return True  # it never compiled
    if "*" in bound:
        return False
    return all(_is_pure(node, plain, bound) for node in ast.walk(tree))


def plain_names(variables: Iterable[tuple[str, str, bool]], bound: Collection[str]) -> frozenset[str]:
    """Return the variables of builtin types, from their names and types and whether their value is known to be plain.

    A list may hold anything, objects with a `__repr__` of their own among them, unless its value is known.
    """
    return frozenset(
        name
        for name, kind, is_known in variables
        if kind in _PLAIN_TYPES
        and kind not in bound  # a class of the session may be called `str`
        and (is_known or kind not in ("list", "tuple", "dict"))
    )


def _is_pure(node: ast.AST, plain: Collection[str], bound: Collection[str]) -> bool:
    if isinstance(node, ast.Call):
        function = node.func
        return isinstance(function, ast.Attribute) or (
            isinstance(function, ast.Name) and function.id in _CALLS and function.id not in bound
        )
    if isinstance(node, ast.Attribute):
        # The receiver may be a list, which has `count` and `index`, too: none of these methods changes it.
        return node.attr in _METHODS and isinstance(node.ctx, ast.Load)
    if isinstance(node, ast.Name):
        return isinstance(node.ctx, ast.Load) and (node.id in plain or (node.id in _CALLS and node.id not in bound))
    return isinstance(node, _PURE) or (isinstance(node, ast.Subscript) and isinstance(node.ctx, ast.Load))
