"""Checks: Python expressions over the outputs that must be true. They are parsed here; the sandbox runs them."""

from __future__ import annotations

import ast
import builtins
from collections.abc import Collection
from pathlib import Path
from typing import TYPE_CHECKING

from pydantic import Field

from ..errors import RlmError
from .errors import TaskProblem, suggestion
from .schema.section import Section
from .yaml_document import Document

if TYPE_CHECKING:
    from ..extraction.confidence import Scorer


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


class AcceptFile(Section):
    """The condition for accepting extracted answers."""

    error: float = Field(
        gt=0, lt=1, description="The largest share of wrong answers among accepted ones.", examples=[0.1]
    )


class ConfidenceFile(Section):
    """The confidence of extracted answers."""

    calibrator: str = Field(
        description="A file that `rlm eval calibrate` wrote; a relative path is relative to the task file.",
        examples=["calibrator.json"],
    )
    accept_at: AcceptFile | None = Field(
        None, description="Extracted answers below the threshold for this error are not accepted: the run fails."
    )


def read_confidence(
    section: ConfidenceFile | None, document: Document, folder: Path
) -> tuple[Scorer | None, list[TaskProblem]]:
    """Return the calibrator, if the file names one, and the problems of the section."""
    if section is None:
        return None, []
    from ..calibration import CalibratorError, NoRule, scorer_of

    accept_at = section.accept_at.model_dump() if section.accept_at is not None else None
    try:
        return scorer_of(folder / section.calibrator, accept_at), []
    except CalibratorError as error:
        path: tuple[str, ...] = ("confidence", "calibrator")
        message = str(error)
    except NoRule as error:
        path, message = ("confidence", "accept_at", "error"), str(error)
    return None, [document.problem(f"{'.'.join(path)}: {message}", document.value_place(path))]
