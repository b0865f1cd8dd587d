"""The `adapter` setting of a task file, for steps, typed queries and the extraction."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from .errors import TaskProblem
from .local_models import problem_of
from .models import ModelSpec, spec_of
from .schema.task import AdapterFile, AdapterName
from .yaml_document import Document


@dataclass(frozen=True, slots=True)
class AdapterSpec:
    """An adapter, and for `two-step` the model of the second step. Default: the extraction model."""

    name: AdapterName
    model: ModelSpec | None = None


def read_adapter(
    section: AdapterName | AdapterFile | None, document: Document, folder: Path
) -> tuple[AdapterSpec | None, list[TaskProblem]]:
    """Return the adapter that the file names, and the problems of its model."""
    if section is None or isinstance(section, str):
        return (None if section is None else AdapterSpec(section)), []
    if section.model is None:
        return AdapterSpec(section.name), []
    spec = spec_of(section.model, folder)
    problem = problem_of(spec, folder) if spec.local else None
    place = document.value_place(("adapter", "model"))
    return AdapterSpec(section.name, spec), [document.problem(f"adapter.model: {problem}", place)] if problem else []
