"""Repairs of scripts that small models write: mistakes whose correction leaves no choice. Hints are in `rules.py`."""

from __future__ import annotations

import ast
from collections.abc import Collection, Iterator

from .code_facts import tree_of

_FOLDS = {"lower": str.lower, "casefold": str.casefold, "upper": str.upper}
_PURE_FUNCTIONS = """
Counter abs all any bool dict enumerate filter float frozenset int len list map max min range reversed round set sorted
str sum tuple zip
"""
_PURE_METHODS = """
casefold compile count endswith findall finditer fullmatch get group groups index items join keys lower lstrip match
most_common partition replace rpartition rsplit rstrip search split splitlines startswith strip title upper values
"""


def repaired(code: str, needed: Collection[str]) -> str:
    """Return the code without comparisons that can never be true, and without what no name in `needed` depends on."""
    tree = tree_of(code)
    if tree is None:
        return code
    tree = ast.parse(code)  # a copy: the one that is cached is shared
    folded = _Folded()
    tree = folded.visit(tree)
    unused = list(_unused(tree, frozenset(needed)))
    if not folded.changed and not unused:
        return code
    tree.body = [node for node in tree.body if node not in unused]
    return ast.unparse(ast.fix_missing_locations(tree))


class _Folded(ast.NodeTransformer):
    """Writes a constant in the case of the text that it is compared with: `'Failed' in line.lower()` is never true."""

    def __init__(self) -> None:
        self.changed = False

    def visit_Compare(self, node: ast.Compare) -> ast.AST:
        self.generic_visit(node)
        sides = [node.left, *node.comparators]
        folds = {fold for side in sides if (fold := _fold_of(side)) is not None}
        if len(folds) == 1:
            fold = folds.pop()
            node.left, *node.comparators = (self._written(side, fold) for side in sides)
        return node

    def visit_Call(self, node: ast.Call) -> ast.AST:
        self.generic_visit(node)
        method = node.func
        if isinstance(method, ast.Attribute) and method.attr in ("count", "startswith", "endswith", "find"):
            fold = _fold_of(method.value)
            if fold is not None:
                node.args = [self._written(argument, fold) for argument in node.args]
        return node

    def _written(self, node: ast.expr, fold: str) -> ast.expr:
        if isinstance(node, ast.Tuple | ast.List | ast.Set):
            node.elts = [self._written(element, fold) for element in node.elts]
        if not isinstance(node, ast.Constant) or not isinstance(node.value, str):
            return node
        text = _FOLDS[fold](node.value)
        self.changed = self.changed or text != node.value
        return ast.copy_location(ast.Constant(text), node)


def _fold_of(node: ast.expr) -> str | None:
    """Return `lower` for `line.lower()`, also where more follows that changes no case: `line.lower().split()`."""
    while isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
        if node.func.attr in _FOLDS:
            return node.func.attr
        if node.func.attr not in ("split", "strip", "rstrip", "lstrip"):
            return None
        node = node.func.value
    if isinstance(node, ast.Subscript):
        return _fold_of(node.value)
    return None


def _unused(tree: ast.Module, needed: frozenset[str]) -> Iterator[ast.stmt]:
    """Yield assignments at the top that change nothing but names which nothing afterwards reads, the last first."""
    read: set[str] = {*needed}
    for node in reversed(tree.body):
        names = _assigned(node)
        if names is not None and not names & read and _is_pure(node):
            yield node
            continue
        if names is not None and _is_pure(node):
            read -= names
        read |= _read(node)


def _read(node: ast.stmt) -> set[str]:
    names = {part.id for part in ast.walk(node) if isinstance(part, ast.Name) and not isinstance(part.ctx, ast.Store)}
    added = (part.target for part in ast.walk(node) if isinstance(part, ast.AugAssign))
    return names | {part.id for part in added if isinstance(part, ast.Name)}


def _assigned(node: ast.stmt) -> set[str] | None:
    """Return the names that an assignment binds; None for anything else."""
    if not isinstance(node, ast.Assign):
        return None
    parts = (target.elts if isinstance(target, ast.Tuple) else [target] for target in node.targets)
    targets = [target_part for part in parts for target_part in part]
    names = {part.id for part in targets if isinstance(part, ast.Name)}
    return names if all(isinstance(part, ast.Name) for part in targets) else None


def _is_pure(node: ast.stmt) -> bool:
    """Return whether a statement calls nothing that could change something."""
    for part in ast.walk(node):
        if isinstance(part, ast.Await | ast.Yield | ast.YieldFrom | ast.NamedExpr):
            return False
        if isinstance(part, ast.Call):
            function = part.func
            if isinstance(function, ast.Name) and function.id not in _PURE_FUNCTIONS.split():
                return False
            if isinstance(function, ast.Attribute) and function.attr not in _PURE_METHODS.split():
                return False
            if not isinstance(function, ast.Name | ast.Attribute):
                return False
    return True
