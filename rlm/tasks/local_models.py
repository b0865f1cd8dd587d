"""Local models as a task file names them: `local/NAME`, or the path of a file or folder. Checked, never loaded."""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path
from typing import TYPE_CHECKING

from ..models.local.gguf import WeightsError
from ..models.local.library import EMBEDDED, LibraryError, examine, locate
from .errors import TaskProblem
from .yaml_document import Document

if TYPE_CHECKING:
    from .models import Models, ModelSpec

_PREFIX = "local/"
_PATHS = ("./", "../", "/", "~/")
_ONLY_LOCAL = frozenset({"backend", "context", "parallel", "threads"})
_ONLY_REMOTE = frozenset(
    {"api_base", "api_version", "api_key_env", "reasoning_effort", "model_type", "timeout", "num_retries"}
)


def is_local(model: str) -> bool:
    """Return whether a name is that of a local model."""
    return model.startswith((_PREFIX, *_PATHS)) or model.endswith(".gguf")


def weights_of(model: str, folder: Path) -> Path | None:
    """Return the file or folder of a local model; None for the embedded one and for an unknown name."""
    if not model.startswith(_PREFIX):
        return folder / Path(model).expanduser()
    name = model.removeprefix(_PREFIX)
    try:
        return None if name == EMBEDDED else locate(name)
    except LibraryError:
        return None


def local_problems(models: Models, document: Document, folder: Path, given: Collection[str]) -> list[TaskProblem]:
    """Return the problems of the local models of a task. `given` are the roles that the command line has set.

    A missing embedded model is a problem of the machine and not of the file: it is not reported here.
    """
    problems: list[TaskProblem] = []
    for role in ("main", "sub", "extraction"):
        spec: ModelSpec = getattr(models, role)
        own = ("models", role)
        named = role in given or document.has(own) or role == "main"
        if spec.scripted is not None or not named:
            continue
        for option, why in _misplaced(spec).items():
            place = document.key_place((*own, option))
            problems.append(document.problem(f"models.{role}.{option} {why}", place))
        problem = problem_of(spec, folder) if spec.local else None
        if problem is not None and role in given:
            problems.append(TaskProblem(f"the {role} model of the command line", problem))
        elif problem is not None:
            path = next(path for path in ((*own, "model"), own, ("models",)) if document.has(path))
            problems.append(document.problem(f"{'.'.join(path)}: {problem}", document.value_place(path)))
    return problems


def problem_of(spec: ModelSpec, folder: Path) -> str | None:
    """Return why a local model cannot be used: an unknown name, a missing file, not a model; else None."""
    name = spec.model.removeprefix(_PREFIX)
    try:
        if name == EMBEDDED and spec.model != name:
            return None
        examine(locate(name) if spec.model != name else folder / Path(name).expanduser())
    except (LibraryError, WeightsError) as error:
        return str(error)
    return None


def _misplaced(spec: ModelSpec) -> dict[str, str]:
    """Return the options that a model of this kind does not have, each with the reason."""
    options = {*spec.options, *(["api_key_env"] if spec.api_key_env is not None else [])}
    if spec.local:
        return dict.fromkeys(
            sorted(options & _ONLY_REMOTE), f"has no effect on {spec.model}, which runs on this machine"
        )
    hint = "is for models that run on this machine, such as local/embedded"
    return dict.fromkeys(sorted(options & _ONLY_LOCAL), hint)
