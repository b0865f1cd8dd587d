"""What a batch is made of: task files, lines of tasks, or one task over many rows; read one at a time."""

from __future__ import annotations

import itertools
import json
import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from ..tasks import TaskError, TaskProblem
from ..tasks.errors import suggestion
from ..tasks.schema.task import SOURCES
from ..tasks.yaml_document import read
from . import fingerprint
from .csv_values import Cells
from .item import Item
from .rows import JSONL, Row, read_objects, read_rows
from .task_binding import Base, Binder, checked

YAML = (".yaml", ".yml")
NAMES = ("id", "name")
"""Columns that name a row, unless they are inputs."""

_FROM_FILE = ":file"
_MOST_PROBLEMS = 20
_FILES_KEPT = 100
_SLACK_S = 300.0


@dataclass(frozen=True, slots=True)
class Found:
    """One item as it was read; its key is not known yet."""

    item: Item
    where: str
    """File and line, for messages."""

    what: str = "input"
    """What its inputs are called there."""

    problem: TaskProblem | None = None
    """What is wrong with it, where it could not be read."""


class Source:
    """Where the items of a batch come from. It can be read more than once, and holds none of them."""

    def __init__(
        self,
        files: Sequence[Path],
        over: Path | None = None,
        *,
        binder: Binder | None = None,
        skip: Sequence[str] = (),
        limit: int | None = None,
    ) -> None:
        """`over` has the rows for one task file; `skip` names columns of it to pass over; `limit` is how many items."""
        self._files, self._over, self._skip, self._limit = list(files), over, frozenset(skip), limit
        self._binder = binder or Binder()
        self._digests: tuple[Base | None, str, dict[str, str]] = (None, "", {})
        self._marks: dict[Path, tuple[int, ...]] = {}
        self._reading: tuple[Path, ...] = ()
        for path in self._files:
            if path.suffix.lower() not in (*YAML, *JSONL):
                raise TaskError([TaskProblem(str(path), "is neither a task file (.yaml) nor lines of tasks (.jsonl)")])
        if over is not None and (len(self._files) != 1 or self._files[0].suffix.lower() not in YAML):
            raise TaskError([TaskProblem("--over", "takes the rows for one task file; give exactly one .yaml")])

    def read(self) -> Iterator[Item]:
        """The items, without keys and unchecked but for what it takes to read them."""
        return (_readable(found).item for found in self._limited())

    def checked(self) -> Iterator[tuple[Item, Base, str]]:
        """The items with their tasks and hashes. `TaskError` says all that is wrong, as far as a person would read."""
        problems: list[TaskProblem] = []
        empty = True
        for found in self._limited():
            empty = False
            try:
                base = self._binder.base(_readable(found).item)
                values = self._binder.values(base, replace(found.item, name=found.where))
                checked(base, values, found.where, found.what)
                made = found.item, base, self._digest(base, found.item, values)
            except TaskError as error:
                problems += error.problems
                if len(problems) >= _MOST_PROBLEMS:
                    problems.append(TaskProblem("rlm batch", "there may be more; these come first"))
                    break
                continue
            if not problems:
                yield made
        if empty:
            problems.append(self._nothing())
        if problems:
            raise TaskError(replace(one, order=(index, 0)) for index, one in enumerate(problems))

    def same_name(self, first: int, second: int, name: str) -> str:
        """What is wrong where two items have one name, and what to do; they are given by their numbers."""
        places = [next(itertools.islice(self._limited(), one - 1, None)).where for one in (first, second)]
        if places[0] == places[1]:
            return f"{places[0]} is there twice, as items {first} and {second}; name it once"
        remedy = "give one of them another name"
        if self._over is not None:
            column = _naming(self._binder.base(from_file(self._files[0], "")))
            remedy += f", or pass the column over with --skip {column}: rows are then called by their numbers"
        return f"{places[0]} and {places[1]} are both called {name!r}; {remedy}"

    def _nothing(self) -> TaskProblem:
        if self._over is None:
            return TaskProblem(str(self._files[0]), "is empty; each line is a task")
        as_csv = self._over.suffix.lower() == ".csv"
        return TaskProblem(str(self._over), "has a heading and no rows" if as_csv else "is empty; each line is a row")

    def _digest(self, base: Base, item: Item, values: dict[str, Any]) -> str:
        if self._digests[0] is not base:
            self._digests = (base, fingerprint.base_digest(base), {})
        _, digest, shared = self._digests
        hashes = {}
        for name, value in values.items():
            if name in item.inputs:
                hashes[name] = fingerprint.value_digest(value)
            else:
                shared[name] = hashes[name] = shared.get(name) or fingerprint.value_digest(value)
        return fingerprint.item_digest(digest, hashes)

    def _limited(self) -> Iterator[Found]:
        return itertools.islice(self._found(), self._limit)

    def changed(self) -> Path | None:
        """The file that is being read, if it is not any more what it was when it was first read."""
        return next((path for path in self._reading if _mark(path) != self._marks[path]), None)

    def _found(self) -> Iterator[Found]:
        for path in self._files:
            self._reading = (path,) if self._over is None else (path, self._over)
            for one in self._reading:
                self._marks.setdefault(one, _mark(one))
            if self._over is not None:
                yield from self._rows(path, self._over)
            elif path.suffix.lower() in YAML:
                yield Found(from_file(path, str(path)), str(path))
            else:
                yield from self._lines(path)

    def _rows(self, path: Path, over: Path) -> Iterator[Found]:
        task = from_file(path, "")
        base = self._binder.base(task)
        cells = Cells(base.signature)
        as_csv = over.suffix.lower() == ".csv"
        named = _naming(base)
        for row in read_rows(over):
            if row.problem is not None:
                yield Found(task, row.where, problem=TaskProblem(row.where, row.problem))
                continue
            if as_csv and (unknown := sorted(self._skip - row.values.keys())):
                raise TaskError([_no_column(over, unknown[0], row.values)])
            values = {name: value for name, value in row.values.items() if name not in self._skip}
            name = _name(values.pop(named, None) if named is not None else None, f"row {row.number}")
            given = {}
            for column, value in values.items():
                if as_csv and column.endswith(_FROM_FILE):
                    given[column.removesuffix(_FROM_FILE)] = _beside(over, {"file": value})
                else:
                    given[column] = _plain(cells.typed(column, value)) if as_csv else _beside(over, value)
            item = replace(task, name=name, inputs=given)
            yield Found(item, row.where, "column" if as_csv else "input")

    def _lines(self, path: Path) -> Iterator[Found]:
        prefix = "line " if len(self._files) == 1 else f"{path}:"
        files: dict[str, Item] = {}
        for row in read_objects(path):
            if len(files) > _FILES_KEPT:
                files.clear()
            try:
                yield _line(row, path, f"{prefix}{row.where.rpartition(':')[2]}", files)
            except TaskError as error:
                nothing = Item("", row.where, "", "", {}, path.name)
                yield from (Found(nothing, row.where, problem=problem) for problem in error.problems)


def _no_column(rows: Path, name: str, columns: Iterable[str]) -> TaskProblem:
    return TaskProblem("--skip", f"{rows} has no column {name!r}{suggestion(name, columns)}")


def _readable(found: Found) -> Found:
    """What was found, if it could be read. Raises `TaskError`."""
    if found.problem is not None:
        raise TaskError([found.problem])
    return found


def from_file(path: Path, name: str) -> Item:
    """The item of a task file, without a key."""
    return Item("", name, read(path).text, str(path.absolute().parent), {}, path.name)


def lease_of(base: Base) -> float:
    """How long an item may be with a worker: far longer than its budget lets it run."""
    most = base.task.trigger.max_duration
    return 2 * most + _SLACK_S if math.isfinite(most) else 7 * 24 * 3600.0


def _mark(path: Path) -> tuple[int, ...]:
    """What changes when a file does; nothing for one that is not there, which is said where it is read."""
    try:
        found = path.stat()
    except OSError:
        return ()
    return found.st_ino, found.st_size, found.st_mtime_ns


def _naming(base: Base) -> str | None:
    """The column that names rows of a task, if there is such a column."""
    inputs = {one.name for one in base.signature.inputs}
    return next((name for name in NAMES if name not in inputs), None)


def _name(given: Any, otherwise: str) -> str:
    """What a row is called; where its name is left empty, as a row without that column is."""
    return otherwise if given is None or given == "" else str(given)


def _line(row: Row, path: Path, name: str, files: dict[str, Item]) -> Found:
    """The item of a line of tasks. Raises `TaskError` where there is none."""
    if row.problem is not None:
        raise TaskError([TaskProblem(row.where, row.problem)])
    values = dict(row.values)
    name = _name(next((values.pop(one) for one in NAMES if one in values), None), name)
    if "task" not in values:
        return Found(Item("", name, _as_file(values), str(path.absolute().parent), {}, path.name), row.where)
    task, inputs = values.pop("task"), values.pop("inputs", {})
    if values or not isinstance(inputs, dict) or not isinstance(task, str | dict):
        message = 'is not {"task": FILE or TASK, "inputs": {...}, "id": NAME}, and no task either'
        raise TaskError([TaskProblem(row.where, message)])
    if isinstance(task, dict):
        item = Item("", name, _as_file(task), str(path.absolute().parent), inputs, path.name)
    else:
        if task not in files:
            try:
                files[task] = from_file(path.parent / task, task)
            except TaskError as error:
                said = "; ".join(map(str, error.problems))
                raise TaskError([TaskProblem(row.where, f"names a task that cannot be used: {said}")]) from None
        item = replace(files[task], name=name, inputs=inputs)
    return Found(item, row.where)


def _as_file(task: dict[str, Any]) -> str:
    """A task of a line as its own file would say it."""
    return json.dumps(task, ensure_ascii=False, indent=2)


def _beside(rows: Path, value: Any) -> Any:
    """An input of a row. Files that a row names are looked for beside the rows."""
    for kind in ("file", "json"):
        if isinstance(value, dict) and isinstance(value.get(kind), str):
            return {**value, kind: str(rows.absolute().parent / value[kind])}
    return value


def _plain(value: Any) -> Any:
    """A value that means itself, also where it looks like the name of a file."""
    return {"value": value} if isinstance(value, dict) and any(name in value for name in SOURCES) else value
