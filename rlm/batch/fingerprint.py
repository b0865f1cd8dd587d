"""Keys of items: a hash of the task with its inputs, of models, policy and of the code's version."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from pydantic_core import to_jsonable_python

from rlm import __version__

from ..tasks.references import file_of
from .code_files import imported
from .task_binding import Base

_NOT_SAID = ("inputs", "models")
_PATIENCE = ("timeout", "num_retries")
"""How patiently a model is asked: nothing that its answer depends on."""

FORMAT = 1
"""Counts up when the meaning of a key changes, so that nothing is taken for done that would be done otherwise now."""


def base_digest(base: Base) -> str:
    """A hash of everything but the inputs."""
    task = base.task
    specs = {role: getattr(task.models, role) for role in ("main", "sub", "extraction")}
    if task.plans is not None:
        specs |= {f"plan {name}": spec for name, spec in task.plans.models.items()}
    said = base.document.value if isinstance(base.document.value, dict) else {}
    return _digest(
        {
            "format": FORMAT,
            "rlm": __version__,
            "said": {name: value for name, value in said.items() if name not in _NOT_SAID and value is not None},
            "models": {role: [spec.model, _telling(spec.options), str(spec.weights)] for role, spec in specs.items()},
            "scripts": [_file(spec.scripted) for spec in specs.values() if spec.scripted is not None],
            "budget": task.trigger.to_dict(),
            "policy": [task.policy, task.isolation],
            "code": [_file(path) for path in _modules(base)],
            "calibrator": _calibrator(base, said),
        }
    )


def _telling(options: Mapping[str, Any]) -> dict[str, Any]:
    """The options of a model that its answers depend on."""
    return {name: value for name, value in options.items() if name not in _PATIENCE}


def _calibrator(base: Base, said: Mapping[str, Any]) -> str | None:
    """A hash of the file that says how far to trust an answer."""
    section = said.get("confidence")
    if not isinstance(section, dict) or base.task.path is None:
        return None
    return _file(base.task.path.parent / str(section.get("calibrator")))


def value_digest(value: Any) -> str:
    """A hash of one input."""
    if isinstance(value, str):
        return hashlib.sha256(b"text " + value.encode("utf-8", "surrogatepass")).hexdigest()
    return _digest(to_jsonable_python(value, bytes_mode="base64", fallback=repr, inf_nan_mode="strings"))


def item_digest(base: str, values: Mapping[str, str]) -> str:
    """A hash of a task with its inputs, from the hashes of both."""
    return _digest([base, dict(values)])


def repeated(digest: str, count: int) -> str:
    """The key of the `count`th item that is the same as others: each of them has an outcome of its own."""
    return digest if count == 1 else _digest([digest, count])


def _digest(data: Any) -> str:
    text = json.dumps(data, sort_keys=True, ensure_ascii=True, separators=(",", ":"), default=repr)
    return hashlib.sha256(text.encode("ascii")).hexdigest()


def _modules(base: Base) -> Iterable[Path]:
    """Modules beside the task that it names, for tools and the class of its signature, and what they import there."""
    assert base.task.path is not None
    folder = base.task.path.parent
    said = base.document.value.get("signature", "") if isinstance(base.document.value, dict) else ""
    named = [*base.task.tool_references, *([said] if "->" not in str(said) else [])]
    modules = [str(one).partition(":")[0] for one in named]
    found = [one for one in (file_of(folder, module) for module in modules) if one is not None]
    return [*found, *(one for one in imported(folder, modules) if one not in found)]


def _file(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()
