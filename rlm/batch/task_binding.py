"""Binding items to tasks. What many items share is read once as a `TaskTemplate`; an item only adds its inputs."""

from __future__ import annotations

import dataclasses
from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..tasks import Overrides, Recorded, Task, TaskError, TaskProblem, load
from ..text import suggestion

if TYPE_CHECKING:
    from ..signatures import InvalidInputs, Signature
    from ..tasks.yaml_document import Document
    from .item import Item


@dataclass(slots=True)
class TaskTemplate:
    """A task without its inputs, and the entries of its file that describe them."""

    task: Task
    entries: dict[str, Any]
    document: Document
    values: dict[str, Any]
    """Inputs of the file that are read already; items share them."""

    @property
    def signature(self) -> Signature:
        """The signature of the task."""
        return self.task.signature


class TaskBinder:
    """Makes tasks of items, with a cache of the templates used last."""

    def __init__(
        self, models: Mapping[str, str] | None = None, budget: Mapping[str, Any] | None = None, *, size: int = 16
    ) -> None:
        """`models` and `budget` replace those of the tasks; `size` is the number of templates in the cache."""
        self._overrides = Overrides(models=models or {}, budget=budget or {})
        self._size = size
        self._templates: OrderedDict[tuple[str, str, str], TaskTemplate] = OrderedDict()

    def bind(self, item: Item) -> Task:
        """Return the task of an item, ready to run. Raises `TaskError`."""
        if not item.inputs:
            return load(task_path(item), self._overrides, read_stdin=None, recorded=Recorded(item.text, None))
        template = self.template(item)
        inputs = check_inputs(template, self.values(template, item), item.name)
        return dataclasses.replace(template.task, inputs=inputs)

    def template(self, item: Item) -> TaskTemplate:
        """Return the task of an item without any inputs. Raises `TaskError`."""
        place = (item.folder, item.file, item.text)
        template = self._templates.get(place)
        if template is None:
            template = self._templates[place] = _read(task_path(item), item.text, self._overrides)
            while len(self._templates) > self._size:
                self._templates.popitem(last=False)
        else:
            self._templates.move_to_end(place)
        return template

    def values(self, template: TaskTemplate, item: Item) -> dict[str, Any]:
        """Return the inputs of an item, read but not checked. Raises `TaskError` if one cannot be read."""
        shared = [name for name in template.entries if name not in item.inputs]
        unread = {name: template.entries[name] for name in shared if name not in template.values}
        template.values |= _read_entries(template, unread, None)
        own = _read_entries(template, _as_entries(item.inputs), item.name)
        return {**{name: template.values[name] for name in shared if name in template.values}, **own}


def task_path(item: Item) -> Path:
    """Return the path of an item's task file; the file need not exist."""
    return Path(item.folder) / item.file


def check_inputs(template: TaskTemplate, values: Mapping[str, Any], where: str, noun: str = "input") -> dict[str, Any]:
    """Return the inputs, converted to the types of the signature. Raises `TaskError`, which calls an input `noun`."""
    from ..signatures import InvalidInputs

    try:
        return template.signature.check_inputs(values)
    except InvalidInputs as error:
        raise TaskError(TaskProblem(where, text) for text in _messages(template, values, error, noun)) from None


def _messages(template: TaskTemplate, values: Mapping[str, Any], error: InvalidInputs, noun: str) -> list[str]:
    names = [field.name for field in template.signature.inputs]
    messages = []
    for problem in error.problems:
        name, *inner = problem.path.split("/")[1:]
        if name not in names:
            known = suggestion(name, names) if names else "; it has no inputs"
            messages.append(f"{noun} {name!r} is no input of the signature{known}")
        elif name not in values:
            messages.append(f"{noun} {name!r} ({problem.expected}) is missing")
        else:
            path = ".".join([name, *inner])
            messages.append(f"{noun} {path!r}: expected {problem.expected}, got {problem.got}")
    return messages


def _read(path: Path, text: str, overrides: Overrides) -> TaskTemplate:
    from ..tasks.validation import validate_task
    from ..tasks.yaml_document import Document

    task = load(path, overrides, read_stdin=None, recorded=Recorded(text, {}))
    document = Document(str(path), text)
    task_file, problems, _ = validate_task(document)
    if task_file is None or problems:
        raise TaskError(problems)
    return TaskTemplate(task, dict(task_file.inputs), document, {})


def _as_entries(inputs: Mapping[str, Any]) -> dict[str, Any]:
    # Validated like the entries of a task file, so that `{file: ...}` means the same in both.
    mappings = {name: value for name, value in inputs.items() if isinstance(value, Mapping)}
    if not mappings:
        return dict(inputs)
    from ..tasks.schema import TaskFile

    return {**inputs, **TaskFile.model_validate({"signature": "x -> y", "inputs": mappings}).inputs}


def _read_entries(template: TaskTemplate, entries: Mapping[str, Any], where: str | None) -> dict[str, Any]:
    from ..tasks.inputs import InputReader

    if not entries:
        return {}
    assert template.task.path is not None
    reader = InputReader(template.signature, template.task.path.parent, template.document, None)
    values = reader.values(entries)
    if reader.problems:
        if where is None:
            raise TaskError(reader.problems)
        raise TaskError(TaskProblem(where, problem.message.removeprefix("inputs.")) for problem in reader.problems)
    return values
