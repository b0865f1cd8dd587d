"""`module:name` references of a task file. The folder of the file is searched first; imports happen on use."""

from __future__ import annotations

import ast
import importlib
import importlib.util
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from ..text import near_name
from .errors import TaskError, TaskProblem


class ImportProblem(Exception):
    """A reference that cannot be resolved; the message says why."""


def check(folder: Path, reference: str) -> None:
    """Raise `ImportProblem` if a reference cannot be resolved. Nothing is imported; a file beside the task is read."""
    module, _, name = reference.partition(":")
    if not name.isidentifier() or not all(part.isidentifier() for part in module.split(".")):
        raise ImportProblem(f"{reference!r} is not of the form module:name")
    file = file_of(folder, module)
    if file is None:
        top = module.partition(".")[0]
        if file_of(folder, top) is None and not _installed(top):
            raise ImportProblem(f"there is no module {module!r}, neither in {folder} nor installed")
        return
    try:
        tree = ast.parse(file.read_bytes(), filename=str(file))
    except (SyntaxError, ValueError) as error:
        raise ImportProblem(f"{file} does not compile: {error}") from None
    names = _bound(tree)
    if name not in names and "*" not in names:
        near = near_name(name, sorted(names))
        raise ImportProblem(f"{file} has no {name!r}" + (f"; did you mean {near}?" if near else ""))


def load(folder: Path, reference: str) -> Any:
    """Import what a reference names. The folder stays on `sys.path`, as a script's folder does."""
    module, _, name = reference.partition(":")
    if str(folder) not in sys.path:
        sys.path.insert(0, str(folder))
    importlib.invalidate_caches()
    try:
        imported = importlib.import_module(module)
    except (Exception, SystemExit) as error:  # `SystemExit` of a script must not end this process
        if isinstance(error, ModuleNotFoundError) and error.name in ("dspy", "litellm"):
            raise
        raise ImportProblem(f"{module!r} cannot be imported: {type(error).__name__}: {error}") from error
    wanted, actual = file_of(folder, module), getattr(imported, "__file__", None)
    if wanted is not None and (actual is None or Path(actual).resolve() != wanted.resolve()):
        raise ImportProblem(f"the name {module!r} is taken by {actual or 'a built-in module'}; rename {wanted}")
    if not hasattr(imported, name):
        raise ImportProblem(f"{module!r} has no {name!r}")
    return getattr(imported, name)


def load_function(path: Path | None, section: str, reference: str) -> Callable[..., Any]:
    """Import a function that a section of a task file names. Raise `TaskError` if that fails."""
    where = f"{path}: {section}: {reference}"
    try:
        function = load(path.parent if path is not None else Path.cwd(), reference)
    except ImportProblem as error:
        raise TaskError([TaskProblem(where, str(error))]) from error
    if not callable(function):
        raise TaskError([TaskProblem(where, f"is not a function but {type(function).__name__}")])
    return function  # type: ignore[no-any-return]


def file_of(folder: Path, module: str) -> Path | None:
    """Return the file of a module beside the task, if it exists."""
    place = folder.joinpath(*module.split("."))
    candidates = (place.with_name(place.name + ".py"), place / "__init__.py")
    return next((file for file in candidates if file.is_file()), None)


def _installed(top: str) -> bool:
    try:
        return importlib.util.find_spec(top) is not None
    except (ImportError, ValueError):
        return False


def _bound(tree: ast.Module) -> set[str]:
    """Return the names that the text of a module binds."""
    names: set[str] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            names.add(node.name)
        elif isinstance(node, ast.alias):
            names.add((node.asname or node.name).partition(".")[0])
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            names.add(node.id)
    return names
