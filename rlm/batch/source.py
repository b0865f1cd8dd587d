"""The items of a batch: task files, lines of tasks, or one task over many rows; read one at a time."""

from __future__ import annotations

import itertools
import json
import math
import shlex
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from ..tasks import TaskError, TaskProblem
from ..tasks.schema import SOURCES
from ..tasks.yaml_document import read
from ..text import suggestion
from . import fingerprint
from .item import Item
from .rows import JSONL, CsvCells, Row, number_rows, read_objects, read_rows
from .task_binding import TaskBinder, TaskTemplate, check_inputs

YAML = (".yaml", ".yml")
NAME_COLUMNS = ("id", "name")
"""Columns that name a row, unless they are inputs."""

Rows = Path | Sequence[Mapping[str, Any]]
"""A .csv or .jsonl file, or the rows themselves."""

_FILE_COLUMN = ":file"
_MAX_PROBLEMS = 20
_CACHED_FILES = 100
_LEASE_MARGIN_S = 300.0
_UNLIMITED_LEASE_S = 7 * 24 * 3600.0


@dataclass(frozen=True, slots=True)
class SourceEntry:
    """One item as it was read; its key is not computed yet."""

    item: Item
    where: str
    """File and line, for messages."""

    noun: str = "input"
    """The word for its inputs in messages: `column` in a CSV file."""

    problem: TaskProblem | None = None
    """Why it cannot be read; None if it can."""

    def readable(self) -> Item:
        """Return the item. Raises `TaskError` if it cannot be read."""
        if self.problem is not None:
            raise TaskError([self.problem])
        return self.item


class Source:
    """The source of a batch's items. It can be read more than once, and keeps none of them in memory."""

    def __init__(
        self,
        files: Sequence[Path],
        rows: Rows | None = None,
        *,
        binder: TaskBinder | None = None,
        skip: Sequence[str] = (),
        limit: int | None = None,
    ) -> None:
        """Read task files or, with `rows`, one task file over many rows.

        `skip` names columns of the rows to ignore; `limit` is the number of items to read. Raises `TaskError`.
        """
        self._files, self._rows, self._skip, self._limit = list(files), rows, frozenset(skip), limit
        self._binder = binder or TaskBinder()
        self._digests: tuple[TaskTemplate | None, str, dict[str, str]] = (None, "", {})
        self._stamps: dict[Path, tuple[int, ...]] = {}
        self._open_files: tuple[Path, ...] = ()
        for path in self._files:
            if path.suffix.lower() not in (*YAML, *JSONL):
                raise TaskError([TaskProblem(str(path), "is neither a task file (.yaml) nor lines of tasks (.jsonl)")])
        if rows is not None and (len(self._files) != 1 or self._files[0].suffix.lower() not in YAML):
            raise TaskError([TaskProblem("--over", "takes the rows for one task file; give exactly one .yaml")])

    def read(self) -> Iterator[Item]:
        """Yield the items without keys. Only what is needed to read them is checked."""
        return (entry.readable() for entry in self._entries())

    def checked(self) -> Iterator[tuple[Item, TaskTemplate, str]]:
        """Yield the items with their templates and hashes. Raises `TaskError` with the first problems, all together."""
        problems: list[TaskProblem] = []
        empty = True
        for entry in self._entries():
            empty = False
            try:
                template = self._binder.template(entry.readable())
                values = self._binder.values(template, replace(entry.item, name=entry.where))
                check_inputs(template, values, entry.where, entry.noun)
                checked = entry.item, template, self._digest(template, entry.item, values)
            except TaskError as error:
                problems += error.problems
                if len(problems) >= _MAX_PROBLEMS:
                    problems.append(TaskProblem("rlm batch", "there may be more problems; these are the first"))
                    break
                continue
            if not problems:
                yield checked
        if empty:
            problems.append(self._empty())
        if problems:
            raise TaskError(replace(problem, order=(index, 0)) for index, problem in enumerate(problems))

    def duplicate_names(self, first: int, second: int, name: str) -> str:
        """Return a message about two items, given by number, that have the same name."""
        places = [next(itertools.islice(self._entries(), number - 1, None)).where for number in (first, second)]
        if places[0] == places[1]:
            return f"{places[0]} is given twice, as items {first} and {second}; give it once"
        remedy = "give one of them another name"
        if self._rows is not None:
            column = _name_column(self._binder.template(read_task_file(self._files[0], "")))
            remedy += f", or ignore the column with --skip {column}: rows are then named by their numbers"
        return f"{places[0]} and {places[1]} are both called {name!r}; {remedy}"

    def changed_file(self) -> Path | None:
        """Return a file that has changed since it was first read, of those that are being read; None if none has."""
        return next((path for path in self._open_files if _stamp(path) != self._stamps[path]), None)

    def _empty(self) -> TaskProblem:
        if self._rows is None:
            return TaskProblem(str(self._files[0]), "is empty; each line must be a task")
        if not isinstance(self._rows, Path):
            return TaskProblem("rows", "is empty")
        is_csv = self._rows.suffix.lower() == ".csv"
        problem = "has a header and no rows" if is_csv else "is empty; each line must be a row"
        return TaskProblem(str(self._rows), problem)

    def _digest(self, template: TaskTemplate, item: Item, values: dict[str, Any]) -> str:
        if self._digests[0] is not template:
            self._digests = (template, fingerprint.template_digest(template), {})
        _, digest, shared = self._digests
        hashes = {}
        for name, value in values.items():
            if name in item.inputs:
                hashes[name] = fingerprint.value_digest(value)
            else:
                shared[name] = hashes[name] = shared.get(name) or fingerprint.value_digest(value)
        return fingerprint.item_digest(digest, hashes)

    def _entries(self) -> Iterator[SourceEntry]:
        return itertools.islice(self._all_entries(), self._limit)

    def _all_entries(self) -> Iterator[SourceEntry]:
        for path in self._files:
            self._open_files = (path, self._rows) if isinstance(self._rows, Path) else (path,)
            for file in self._open_files:
                self._stamps.setdefault(file, _stamp(file))
            if self._rows is not None:
                yield from self._row_entries(path, self._rows)
            elif path.suffix.lower() in YAML:
                yield SourceEntry(read_task_file(path, str(path)), str(path))
            else:
                yield from self._line_entries(path)

    def _row_entries(self, path: Path, rows: Rows) -> Iterator[SourceEntry]:
        task = read_task_file(path, "")
        template = self._binder.template(task)
        cells = CsvCells(template.signature)
        is_csv = isinstance(rows, Path) and rows.suffix.lower() == ".csv"
        name_column, checked = _name_column(template), False
        for row in read_rows(rows) if isinstance(rows, Path) else number_rows(rows):
            if row.problem is not None:
                yield SourceEntry(task, row.where, problem=TaskProblem(row.where, row.problem))
                continue
            if is_csv and (unknown := sorted(self._skip - row.values.keys())):
                raise TaskError([_unknown_column(str(rows), unknown[0], row.values)])
            if is_csv and not checked:
                _refuse_columns(template, str(rows), [*row.values.keys() - self._skip - {name_column}])
                checked = True
            values = {name: value for name, value in row.values.items() if name not in self._skip}
            name = _name(values.pop(name_column, None) if name_column is not None else None, f"row {row.number}")
            inputs = {}
            for column, value in values.items():
                if not isinstance(rows, Path):
                    inputs[column] = _literal(value)
                elif not is_csv:
                    inputs[column] = _resolve(rows, value)
                elif column.endswith(_FILE_COLUMN):
                    inputs[column.removesuffix(_FILE_COLUMN)] = _resolve(rows, {"file": value})
                else:
                    inputs[column] = _literal(cells.convert(column, value))
            item = replace(task, name=name, inputs=inputs)
            yield SourceEntry(item, row.where, "column" if is_csv else "input")

    def _line_entries(self, path: Path) -> Iterator[SourceEntry]:
        prefix = "line " if len(self._files) == 1 else f"{path}:"
        task_files: dict[str, Item] = {}
        for row in read_objects(path):
            if len(task_files) > _CACHED_FILES:
                task_files.clear()
            try:
                yield _line_entry(row, path, f"{prefix}{row.where.rpartition(':')[2]}", task_files)
            except TaskError as error:
                unreadable = Item("", row.where, "", "", {}, path.name)
                yield from (SourceEntry(unreadable, row.where, problem=problem) for problem in error.problems)


def read_task_file(path: Path, name: str) -> Item:
    """Return the item of a task file, without a key."""
    return Item("", name, read(path).text, str(path.absolute().parent), {}, path.name)


def lease_of(template: TaskTemplate) -> float:
    """Return the seconds that a worker may take for an item: far more than the budget of its run."""
    limit = template.task.trigger.max_duration
    return 2 * limit + _LEASE_MARGIN_S if math.isfinite(limit) else _UNLIMITED_LEASE_S


def _unknown_column(rows: str, name: str, columns: Iterable[str]) -> TaskProblem:
    return TaskProblem("--skip", f"{rows} has no column {name!r}{suggestion(name, columns)}")


def _refuse_columns(template: TaskTemplate, rows: str, columns: Sequence[str]) -> None:
    """Raise once for columns that are no inputs, and not for each row."""
    inputs = [field.name for field in template.signature.inputs]
    extra = sorted(column for column in columns if column.removesuffix(_FILE_COLUMN) not in inputs)
    if not extra:
        return
    names = ", ".join(map(repr, extra))
    what = f"column {names} is no input" if len(extra) == 1 else f"columns {names} are no inputs"
    near = suggestion(extra[0], inputs) if inputs else "; it has no inputs"
    skip = " ".join(f"--skip {shlex.quote(column)}" for column in extra)
    raise TaskError([TaskProblem(f"{rows}:1", f"{what} of the signature{near} (to ignore: {skip})")])


def _stamp(path: Path) -> tuple[int, ...]:
    """Return values that change when a file does; empty for a missing file, which is reported when it is read."""
    try:
        status = path.stat()
    except OSError:
        return ()
    return status.st_ino, status.st_size, status.st_mtime_ns


def _name_column(template: TaskTemplate) -> str | None:
    """Return the column that names the rows of a task, if there is such a column."""
    inputs = {field.name for field in template.signature.inputs}
    return next((name for name in NAME_COLUMNS if name not in inputs), None)


def _name(value: Any, default: str) -> str:
    """Return the name of a row, or the default if its name is missing or empty."""
    return default if value is None or value == "" else str(value)


def _line_entry(row: Row, path: Path, name: str, task_files: dict[str, Item]) -> SourceEntry:
    """Return the item of a line of tasks. Raises `TaskError` if it is neither a task nor names one."""
    if row.problem is not None:
        raise TaskError([TaskProblem(row.where, row.problem)])
    values = dict(row.values)
    name = _name(next((values.pop(column) for column in NAME_COLUMNS if column in values), None), name)
    if "task" not in values:
        return SourceEntry(Item("", name, _task_text(values), str(path.absolute().parent), {}, path.name), row.where)
    task, inputs = values.pop("task"), values.pop("inputs", {})
    if values or not isinstance(inputs, dict) or not isinstance(task, str | dict):
        message = 'is neither {"task": FILE or TASK, "inputs": {...}, "id": NAME} nor a task'
        raise TaskError([TaskProblem(row.where, message)])
    if isinstance(task, dict):
        item = Item("", name, _task_text(task), str(path.absolute().parent), inputs, path.name)
    else:
        if task not in task_files:
            try:
                task_files[task] = read_task_file(path.parent / task, task)
            except TaskError as error:
                reasons = "; ".join(map(str, error.problems))
                raise TaskError([TaskProblem(row.where, f"names a task that cannot be used: {reasons}")]) from None
        item = replace(task_files[task], name=name, inputs=inputs)
    return SourceEntry(item, row.where)


def _task_text(task: dict[str, Any]) -> str:
    """Return the text of a task file with the same content."""
    return json.dumps(task, ensure_ascii=False, indent=2)


def _resolve(rows: Path, value: Any) -> Any:
    """Return an input of a row; the path of a file in it is relative to the file of the rows."""
    for kind in ("file", "json"):
        if isinstance(value, dict) and isinstance(value.get(kind), str):
            return {**value, kind: str(rows.absolute().parent / value[kind])}
    return value


def _literal(value: Any) -> Any:
    """Return an entry for a value as it is, even if it looks like a reference to a file."""
    return {"value": value} if isinstance(value, dict) and any(name in value for name in SOURCES) else value
