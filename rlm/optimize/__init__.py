"""Optimization of a task: instructions and examples that dspy's optimizers find, tried on rows that they never saw.

    optimize("task.yaml", "rows.jsonl", optimizer="gepa", runs=200)

`rows` reads and splits the rows, `program` is the task as a dspy program, `optimizers` calls dspy's, `leaks` looks for
training answers in instructions, and `search` puts them together. What was found is a file that the task names with
`learned:` (`rlm.repl.learned`).
"""

from .rows import LabeledRow, Split, read_labeled_rows, split_rows
from .search import Optimization, OptimizeError, optimize

__all__ = ["LabeledRow", "Optimization", "OptimizeError", "Split", "optimize", "read_labeled_rows", "split_rows"]
