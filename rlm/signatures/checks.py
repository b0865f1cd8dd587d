"""The expressions that outputs must satisfy: whether a text is one. They are evaluated in `rlm.repl.output_checks`."""

from __future__ import annotations

import ast
import builtins
from collections.abc import Collection

from ..errors import RlmError
from ..text import suggestion


class CheckProblem(RlmError):
    """An expression that cannot be a check, and the position of the problem."""

    def __init__(self, message: str, position: int = 0) -> None:
        self.position = position
        super().__init__(message)


def read_check(text: str, outputs: Collection[str] | None, inputs: Collection[str] = ()) -> None:
    """Raise `CheckProblem` unless a text is an expression over the outputs. Checks cannot read inputs.

    Where the outputs are not known, only the syntax is checked.
    """
    try:
        tree = ast.parse(text.strip(), mode="eval")
    except SyntaxError as error:
        if _is_assignment(text):
            raise CheckProblem("`=` assigns a value; `==` compares", _indent(text) + text.strip().index("=")) from None
        position = (error.offset or 1) - 1 if error.lineno == 1 else 0
        raise CheckProblem(f"not a Python expression: {error.msg}", _indent(text) + max(0, position)) from None
    except (ValueError, RecursionError, MemoryError) as error:
        raise CheckProblem(f"not a Python expression: {error}") from None
    _check_policy(text)
    if outputs is None:
        return
    bound = _bound(tree)
    used = [node for node in ast.walk(tree) if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load)]
    for node in used:
        if node.id not in outputs and node.id not in bound and not hasattr(builtins, node.id):
            is_input = node.id in inputs
            advice = "; checks see the outputs only" if is_input else suggestion(node.id, sorted(outputs))
            what = "an input" if is_input else "not an output"
            raise CheckProblem(f"{node.id!r} is {what}{advice}", _indent(text) + _column(text, node))
    if not {node.id for node in used} & set(outputs):
        raise CheckProblem(f"uses none of the outputs ({', '.join(outputs)})")


def _is_assignment(text: str) -> bool:
    try:
        (statement,) = ast.parse(text.strip()).body
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return False
    return isinstance(statement, ast.Assign)


def _check_policy(text: str) -> None:
    """Refuse what the sandbox would refuse."""
    from sandbox.policy import review

    for refusal in review(ast.parse(text.strip())):
        position = refusal.column if refusal.line == 1 else 0
        raise CheckProblem(f"the sandbox refuses it: {refusal.message}", _indent(text) + position)


def _bound(tree: ast.AST) -> set[str]:
    names = {node.id for node in ast.walk(tree) if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)}
    return names | {node.arg for node in ast.walk(tree) if isinstance(node, ast.arg)}


def _indent(text: str) -> int:
    return len(text) - len(text.lstrip())


def _column(text: str, node: ast.expr) -> int:
    # `ast` counts columns in bytes.
    line = text.strip().splitlines()[0].encode()
    return len(line[: node.col_offset].decode(errors="ignore")) if node.lineno == 1 else 0
