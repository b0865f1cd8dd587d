"""Models that run on this machine, as a task file names them: `local/NAME`, or the path of a file or folder.

Whether they are there is checked without loading them.
"""

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
    """Whether a model is named as one that runs here."""
    return model.startswith((_PREFIX, *_PATHS)) or model.endswith(".gguf")


def weights_of(model: str, folder: Path) -> Path | None:
    """The file or folder of a local model; None for the embedded one, and for a name that nobody knows."""
    if not model.startswith(_PREFIX):
        return folder / Path(model).expanduser()
    name = model.removeprefix(_PREFIX)
    try:
        return None if name == EMBEDDED else locate(name)
    except LibraryError:
        return None


def local_problems(models: Models, document: Document, folder: Path, given: Collection[str]) -> list[TaskProblem]:
    """What is wrong with the local models of a task. `given` are the roles that the command line has set.

    That the embedded model is not installed is no mistake of the file, and is not said here.
    """
    found: list[TaskProblem] = []
    for role in ("main", "sub", "extraction"):
        spec: ModelSpec = getattr(models, role)
        own = ("models", role)
        named = role in given or document.has(own) or role == "main"
        if spec.scripted is not None or not named:
            continue
        for option, why in _misplaced(spec).items():
            place = document.key_place((*own, option))
            found.append(document.problem(f"models.{role}.{option} {why}", place))
        wrong = wrong_with(spec, folder) if spec.local else None
        if wrong is not None and role in given:
            found.append(TaskProblem(f"the {role} model of the command line", wrong))
        elif wrong is not None:
            path = next(path for path in ((*own, "model"), own, ("models",)) if document.has(path))
            found.append(document.problem(f"{'.'.join(path)}: {wrong}", document.value_place(path)))
    return found


def wrong_with(spec: ModelSpec, folder: Path) -> str | None:
    """An unknown name, no such file, not a model; None if all is well."""
    name = spec.model.removeprefix(_PREFIX)
    try:
        if name == EMBEDDED and spec.model != name:
            return None
        examine(locate(name) if spec.model != name else folder / Path(name).expanduser())
    except (LibraryError, WeightsError) as error:
        return str(error)
    return None


def _misplaced(spec: ModelSpec) -> dict[str, str]:
    """Options that mean nothing to a model of this kind, each with the reason."""
    options = {*spec.options, *(["api_key_env"] if spec.api_key_env is not None else [])}
    if spec.local:
        return dict.fromkeys(sorted(options & _ONLY_REMOTE), f"means nothing to {spec.model}, which runs here")
    hint = "is for models that run here, such as local/embedded"
    return dict.fromkeys(sorted(options & _ONLY_LOCAL), hint)
