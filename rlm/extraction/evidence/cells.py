"""What the cells of a run printed, and what can be read in their code without running it."""

from __future__ import annotations

import ast
import re
import warnings

from ...history import REPLHistoryEntry

# What the runtime writes and code may print: places in code (tracebacks, warnings), and the rest of the budget.
_RUNTIME = re.compile(
    r"""File\ "[^"\n]{1,500}",\ line\ \d+ | <cell\ \d+>(?::\d+)? | \{['"]llm_calls['"]:[^{}\n]{0,200}\}""", re.VERBOSE
)


def printed(entry: REPLHistoryEntry) -> str:
    """Return what the code printed, with text of the runtime blanked. Positions are those in the output."""
    return _RUNTIME.sub(lambda match: " " * len(match[0]), entry.printed)


def literals(code: str) -> str:
    """Return the literals in some code, one a line; all of the code if it cannot be parsed."""
    tree = _parse(code)
    if tree is None:
        return code
    values = []
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant):
            values.append(str(node.value))
        elif isinstance(node, ast.UnaryOp) and isinstance(node.operand, ast.Constant):
            values.append(f"-{node.operand.value!r}")
    return "\n".join(values)


def loop_names(code: str) -> set[str]:
    """Return the names that loops bind. Afterwards they have the last item, which is rarely the answer."""
    tree = _parse(code)
    targets: list[ast.expr] = []
    for loop in ast.walk(tree) if tree is not None else ():
        if isinstance(loop, ast.For | ast.AsyncFor):
            targets.append(loop.target)
            # A loop that unpacks its items leaves the parts as well.
            unpacked = [statement for statement in loop.body if isinstance(statement, ast.Assign)]
            targets += [part for item in unpacked for part in item.targets if isinstance(part, ast.Tuple | ast.List)]
    return {node.id for target in targets for node in ast.walk(target) if isinstance(node, ast.Name)}


def _parse(code: str) -> ast.AST | None:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # warnings about the model's code are not for the user
            return ast.parse(code)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None
