"""The `adapter` setting of a task file: what steps, typed questions and the extraction go through."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from .errors import TaskProblem
from .local_models import wrong_with
from .models import ModelSpec, spec_of
from .schema.task import AdapterFile, AdapterName
from .yaml_document import Document


@dataclass(frozen=True, slots=True)
class AdapterSpec:
    """Which adapter, and for `two-step` the model of the second step, if not the one that extracts."""

    name: AdapterName
    model: ModelSpec | None = None


def read_adapter(
    written: AdapterName | AdapterFile | None, document: Document, folder: Path
) -> tuple[AdapterSpec | None, list[TaskProblem]]:
    """The adapter that the file names, and what is wrong with its model."""
    if written is None or isinstance(written, str):
        return (None if written is None else AdapterSpec(written)), []
    if written.model is None:
        return AdapterSpec(written.name), []
    spec = spec_of(written.model, folder)
    wrong = wrong_with(spec, folder) if spec.local else None
    place = document.value_place(("adapter", "model"))
    return AdapterSpec(written.name, spec), [document.problem(f"adapter.model: {wrong}", place)] if wrong else []
