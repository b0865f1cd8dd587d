"""From an item to a `Task`. What many items share is read once; an item only adds its inputs."""

from __future__ import annotations

import dataclasses
from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..tasks import Overrides, Recorded, Task, TaskError, TaskProblem, load
from ..tasks.errors import suggestion

if TYPE_CHECKING:
    from ..signatures import InvalidInputs, Signature
    from ..tasks.yaml_document import Document
    from .item import Item


@dataclass(slots=True)
class Base:
    """A task without its inputs, and what its file says about them."""

    task: Task
    entries: dict[str, Any]
    document: Document
    values: dict[str, Any]
    """Inputs of the file that were read already: items share them."""

    @property
    def signature(self) -> Signature:
        """What goes in, and what must come out."""
        return self.task.signature


class Binder:
    """Makes tasks of items. It keeps what was read last, for items of the same task."""

    def __init__(
        self, models: Mapping[str, str] | None = None, budget: Mapping[str, Any] | None = None, *, keep: int = 16
    ) -> None:
        """`models` and `budget` stand in place of those of the tasks; `keep` is how many tasks are kept."""
        self._overrides = Overrides(models=models or {}, budget=budget or {})
        self._keep = keep
        self._bases: OrderedDict[tuple[str, str, str], Base] = OrderedDict()

    def bind(self, item: Item) -> Task:
        """The task of an item, ready to run. Raises `TaskError`."""
        if not item.inputs:
            return load(path_of(item), self._overrides, read_stdin=None, recorded=Recorded(item.text, None))
        base = self.base(item)
        inputs = checked(base, self.values(base, item), item.name)
        return dataclasses.replace(base.task, inputs=inputs)

    def base(self, item: Item) -> Base:
        """The task of an item without any inputs. Raises `TaskError`."""
        place = (item.folder, item.file, item.text)
        base = self._bases.get(place)
        if base is None:
            base = self._bases[place] = _read(path_of(item), item.text, self._overrides)
            while len(self._bases) > self._keep:
                self._bases.popitem(last=False)
        else:
            self._bases.move_to_end(place)
        return base

    def values(self, base: Base, item: Item) -> dict[str, Any]:
        """The inputs of an item, read but not checked. Raises `TaskError` where one cannot be read."""
        own = [name for name in base.entries if name not in item.inputs]
        missing = {name: base.entries[name] for name in own if name not in base.values}
        base.values |= _read_entries(base, missing, None)
        given = _read_entries(base, _as_entries(item.inputs), item.name)
        return {**{name: base.values[name] for name in own if name in base.values}, **given}


def path_of(item: Item) -> Path:
    """The task file of an item; there need not be one."""
    return Path(item.folder) / item.file


def checked(base: Base, values: Mapping[str, Any], where: str, what: str = "input") -> dict[str, Any]:
    """Inputs that fit the signature, typed. `TaskError` says what does not fit; `what` is its word for an input."""
    from ..signatures import InvalidInputs

    try:
        return base.signature.check_inputs(values)
    except InvalidInputs as error:
        raise TaskError(TaskProblem(where, one) for one in _words(base, values, error, what)) from None


def _words(base: Base, values: Mapping[str, Any], error: InvalidInputs, what: str) -> list[str]:
    names = [one.name for one in base.signature.inputs]
    said = []
    for one in error.problems:
        name, *inner = one.path.split("/")[1:]
        if name not in names:
            known = suggestion(name, names) if names else "; it has no inputs"
            said.append(f"{what} {name!r} is no input of the signature{known}")
        elif name not in values:
            said.append(f"{what} {name!r} ({one.expected}) is missing")
        else:
            spelled = ".".join([name, *inner])
            said.append(f"{what} {spelled!r}: expected {one.expected}, got {one.got}")
    return said


def _read(path: Path, text: str, overrides: Overrides) -> Base:
    from ..tasks.validation import validate_task
    from ..tasks.yaml_document import Document

    task = load(path, overrides, read_stdin=None, recorded=Recorded(text, {}))
    document = Document(str(path), text)
    written, problems, _ = validate_task(document)
    if written is None or problems:
        raise TaskError(problems)
    return Base(task, dict(written.inputs), document, {})


def _as_entries(inputs: Mapping[str, Any]) -> dict[str, Any]:
    # Validated as the file's own are, so that `{file: ...}` means the same in both. Other values mean themselves.
    mappings = {name: value for name, value in inputs.items() if isinstance(value, Mapping)}
    if not mappings:
        return dict(inputs)
    from ..tasks.schema.task import TaskFile

    return {**inputs, **TaskFile.model_validate({"signature": "x -> y", "inputs": mappings}).inputs}


def _read_entries(base: Base, entries: Mapping[str, Any], where: str | None) -> dict[str, Any]:
    from ..tasks.inputs import InputReader

    if not entries:
        return {}
    assert base.task.path is not None
    reader = InputReader(base.signature, base.task.path.parent, base.document, None)
    values = reader.values(entries)
    if reader.problems:
        if where is None:
            raise TaskError(reader.problems)
        raise TaskError(TaskProblem(where, one.message.removeprefix("inputs.")) for one in reader.problems)
    return values
