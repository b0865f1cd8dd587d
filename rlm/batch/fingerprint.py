"""Keys of items: hashes of the task, its inputs, models, policy and code."""

from __future__ import annotations

import ast
import hashlib
import json
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from pydantic_core import to_jsonable_python

from ..calibration.io import calibrator_path
from ..tasks.models import ModelSpec
from ..tasks.references import file_of
from .task_binding import TaskTemplate

_HASHED_ELSEWHERE = ("inputs", "models")
_RETRY_OPTIONS = ("timeout", "num_retries")
"""Options of a model that its answers do not depend on."""

FORMAT = 1
"""Increased when the meaning of a key changes, so that no item counts as done that would be run differently now."""

_FIRST_VERSION = "0.1.0"
"""Of rlm: part of every key of this format, so that those of older ledgers stay what they are."""


def template_digest(template: TaskTemplate) -> str:
    """Return a hash of everything but the inputs."""
    task = template.task
    specs = {role: getattr(task.models, role) for role in ("main", "sub", "extraction")}
    if task.plans is not None:
        specs |= {f"plan {name}": spec for name, spec in task.plans.models.items()}
    document = template.document.value if isinstance(template.document.value, dict) else {}
    fields = {name: value for name, value in document.items() if name not in _HASHED_ELSEWHERE and value is not None}
    return _digest(
        {
            "format": FORMAT,
            "rlm": _FIRST_VERSION,
            "said": fields,
            "models": {role: _model(spec) for role, spec in specs.items()},
            "scripts": [_file_digest(spec.scripted) for spec in specs.values() if spec.scripted is not None],
            "budget": task.trigger.to_dict(),
            "policy": [task.policy, task.isolation],
            "code": [_file_digest(path) for path in _code_files(template)],
            "calibrator": _calibrator_digest(template, document),
            **_learned(template),
        }
    )


def value_digest(value: Any) -> str:
    """Return a hash of one input."""
    if isinstance(value, str):
        return hashlib.sha256(b"text " + value.encode("utf-8", "surrogatepass")).hexdigest()
    return _digest(to_jsonable_python(value, bytes_mode="base64", fallback=repr, inf_nan_mode="strings"))


def item_digest(template: str, values: Mapping[str, str]) -> str:
    """Return a hash of a task with its inputs, given the hashes of both."""
    return _digest([template, dict(values)])


def repeated(digest: str, count: int) -> str:
    """Return the key of the `count`th of several equal items: each has an outcome of its own."""
    return digest if count == 1 else _digest([digest, count])


def imported_files(folder: Path, modules: Iterable[str]) -> list[Path]:
    """Return the files in a folder that its modules import, directly or through others, judged by their source."""
    files: dict[Path, None] = {}
    queue = list(modules)
    while queue:
        module = queue.pop()
        file = file_of(folder, module)
        if file is not None and file not in files:
            files[file] = None
            queue += _imports(file, module)
    return sorted(files)


def _model(spec: ModelSpec) -> list[Any]:
    identity = [spec.model, _relevant(spec.options), str(spec.weights)]
    if spec.command is not None:  # the name of a command of one's own is that of its program alone
        identity += [list(spec.command.argv), spec.command.reply]
    return identity


def _relevant(options: Mapping[str, Any]) -> dict[str, Any]:
    """Return the options of a model that its answers depend on."""
    return {name: value for name, value in options.items() if name not in _RETRY_OPTIONS}


def _learned(template: TaskTemplate) -> dict[str, Any]:
    """Return what was learned for the task; nothing for tasks without, whose keys stay the same."""
    learned = template.task.learned
    return {} if learned is None else {"learned": learned.to_dict()}


def _calibrator_digest(template: TaskTemplate, document: Mapping[str, Any]) -> str | None:
    section = document.get("confidence")
    name = section.get("calibrator") if isinstance(section, dict) else section
    if name is None or template.task.path is None:
        return None
    return _file_digest(calibrator_path(str(name), template.task.path.parent))


def _code_files(template: TaskTemplate) -> list[Path]:
    """Return the modules beside the task that it names, for tools and its signature, and the modules they import."""
    assert template.task.path is not None
    folder = template.task.path.parent
    document = template.document.value
    signature = str(document.get("signature", "")) if isinstance(document, dict) else ""
    references = [*template.task.tool_references, *([signature] if "->" not in signature else [])]
    modules = [str(reference).partition(":")[0] for reference in references]
    named = [file for file in (file_of(folder, module) for module in modules) if file is not None]
    return [*named, *(file for file in imported_files(folder, modules) if file not in named)]


def _imports(file: Path, module: str) -> Iterator[str]:
    """Yield the names of modules that a file may import; `from a import b` may import `a.b`."""
    try:
        tree = ast.parse(file.read_bytes())
    except (SyntaxError, ValueError):
        return  # reported when it is imported
    yield from _with_parents(module)
    package = module if file.name == "__init__.py" else module.rpartition(".")[0]
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield from _with_parents(alias.name)
        elif isinstance(node, ast.ImportFrom):
            parts = package.split(".") if node.level and package else []
            parts = parts[: len(parts) - node.level + 1] if node.level else []
            base = ".".join([*parts, *([node.module] if node.module else [])])
            for alias in node.names:
                yield from _with_parents(f"{base}.{alias.name}" if base else alias.name)


def _with_parents(module: str) -> Iterator[str]:
    parts = module.split(".")
    for count in range(1, len(parts) + 1):
        yield ".".join(parts[:count])


def _digest(data: Any) -> str:
    text = json.dumps(data, sort_keys=True, ensure_ascii=True, separators=(",", ":"), default=repr)
    return hashlib.sha256(text.encode("ascii")).hexdigest()


def _file_digest(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()
