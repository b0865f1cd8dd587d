"""Labeled rows: the inputs of a task, and the right outputs. They are split at random, with a seed."""

from __future__ import annotations

import json
import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ..batch.item import Item
from ..batch.rows import Row, read_rows
from ..batch.task_binding import TaskBinder
from ..evals.sample import Sample
from ..tasks import Task, TaskError, TaskProblem

_EXPECTED = "expected"
_MAX_PROBLEMS = 10


@dataclass(frozen=True, slots=True)
class LabeledRow:
    """One row, ready to run."""

    name: str
    inputs: dict[str, Any]
    expected: dict[str, Any]

    def sample(self, scoring: Mapping[str, str]) -> Sample:
        """Return the row as what a scorer of evaluations takes."""
        return Sample(self.name, "", 0, 0, "", "", {}, self.expected, dict(scoring))


@dataclass(frozen=True, slots=True)
class Split:
    """Rows to learn from, to choose by, and to test on."""

    train: tuple[LabeledRow, ...]
    validation: tuple[LabeledRow, ...]
    test: tuple[LabeledRow, ...]


def read_labeled_rows(task_path: Path, data: Path, binder: TaskBinder) -> tuple[Task, list[LabeledRow]]:
    """Return the task without inputs, and the rows of a .jsonl or .csv file. Raises `TaskError` with all problems.

    The right outputs are in the columns that are named like outputs, or under `expected`.
    """
    text = task_path.read_text(encoding="utf-8-sig")
    folder, file = str(task_path.absolute().parent), task_path.name
    task = binder.template(Item("", task_path.name, text, folder, file=file)).task
    outputs = {field.name for field in task.signature.outputs}
    rows: list[LabeledRow] = []
    problems: list[TaskProblem] = []
    for row in read_rows(data):
        try:
            inputs, expected = _sides(row, outputs, task)
            item = Item(row.where, row.where, text, folder, inputs, file)
            rows.append(LabeledRow(row.where, binder.bind(item).inputs, expected))
        except TaskError as error:
            problems += error.problems
    if problems:
        more = [TaskProblem(str(data), f"and {len(problems) - _MAX_PROBLEMS} more problems")]
        raise TaskError([*problems[:_MAX_PROBLEMS], *(more if len(problems) > _MAX_PROBLEMS else [])])
    return task, rows


def _sides(row: Row, outputs: set[str], task: Task) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return inputs and right outputs of a row."""
    schemas = task.signature.output_schema()["properties"]
    if row.problem is not None:
        raise TaskError([TaskProblem(row.where, row.problem)])
    values = dict(row.values)
    nested = values.pop(_EXPECTED, None) if _EXPECTED not in outputs else None
    expected = dict(nested) if isinstance(nested, Mapping) else {}
    for name in outputs & values.keys():
        expected[name] = _plain(values.pop(name), schemas.get(name, {}))
    if not expected or not expected.keys() <= outputs:
        wanted = ", ".join(sorted(outputs))
        raise TaskError(
            [
                TaskProblem(
                    row.where, f"has no right output; give columns named like the outputs ({wanted}), or `expected`"
                )
            ]
        )
    if not values:
        raise TaskError([TaskProblem(row.where, "has no inputs")])
    return values, expected


def _plain(value: Any, schema: Mapping[str, Any]) -> Any:
    """Return a cell of a CSV file as the output is: its JSON value, where the output is no text."""
    if not isinstance(value, str) or schema.get("type") == "string":
        return value
    try:
        return json.loads(value)
    except ValueError:
        return value


def split_rows(rows: Sequence[LabeledRow], *, seed: int, test_share: float, validation_share: float) -> Split:
    """Split rows at random. Each part has at least one row where there are three."""
    order = list(rows)
    random.Random(seed).shuffle(order)
    test = max(1, round(len(order) * test_share))
    validation = max(1, round(len(order) * validation_share))
    chosen = order[test : test + validation]
    return Split(tuple(order[test + validation :]), tuple(chosen), tuple(order[:test]))
