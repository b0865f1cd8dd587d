"""What code says without being run: the values that stand in it and were not computed, and what its loops leave."""

from __future__ import annotations

import ast
import warnings


def literals(code: str) -> str:
    """The literals of some code, one a line; all of the code, where it cannot be read."""
    tree = _parsed(code)
    if tree is None:
        return code
    found = []
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant):
            found.append(str(node.value))
        elif isinstance(node, ast.UnaryOp) and isinstance(node.operand, ast.Constant):
            found.append(f"-{node.operand.value!r}")
    return "\n".join(found)


def loop_names(code: str) -> set[str]:
    """The names that loops bind: what they hold afterwards is the last item, which is rarely what was looked for."""
    tree = _parsed(code)
    targets: list[ast.expr] = []
    for loop in ast.walk(tree) if tree is not None else ():
        if isinstance(loop, ast.For | ast.AsyncFor):
            targets.append(loop.target)
            # A loop that takes its items apart leaves the parts, too.
            taken_apart = [inner for inner in loop.body if isinstance(inner, ast.Assign)]
            targets += [one for inner in taken_apart for one in inner.targets if isinstance(one, ast.Tuple | ast.List)]
    return {node.id for target in targets for node in ast.walk(target) if isinstance(node, ast.Name)}


def _parsed(code: str) -> ast.AST | None:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # about the model's code, to somebody who did not write it
            return ast.parse(code)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None
