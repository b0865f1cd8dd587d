"""`module:name` references of a task file, looked for beside it first. Imported only when they are used."""

from __future__ import annotations

import ast
import importlib
import importlib.util
import sys
from pathlib import Path
from typing import Any

from .errors import suggestion


class ImportProblem(Exception):
    """A reference that leads nowhere; the message says why."""


def look(folder: Path, reference: str) -> None:
    """Raise `ImportProblem` if a reference cannot be right. Nothing is imported; a file beside the task is read."""
    module, _, name = reference.partition(":")
    if not name.isidentifier() or not all(part.isidentifier() for part in module.split(".")):
        raise ImportProblem(f"{reference!r} is not written as module:name")
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
        close = suggestion(name, sorted(names))
        raise ImportProblem(f"{file} has no {name!r}{close if 'did you mean' in close else ''}")


def fetch(folder: Path, reference: str) -> Any:
    """What a reference names. The folder stays on `sys.path`, as a script's folder does."""
    module, _, name = reference.partition(":")
    if str(folder) not in sys.path:
        sys.path.insert(0, str(folder))
    importlib.invalidate_caches()
    try:
        found = importlib.import_module(module)
    except (Exception, SystemExit) as error:  # a script that ends where it is imported must not end us with it
        if isinstance(error, ModuleNotFoundError) and error.name in ("dspy", "litellm"):
            raise
        raise ImportProblem(f"{module!r} cannot be imported: {type(error).__name__}: {error}") from error
    wanted, came = file_of(folder, module), getattr(found, "__file__", None)
    if wanted is not None and (came is None or Path(came).resolve() != wanted.resolve()):
        raise ImportProblem(f"the name {module!r} is taken by {came or 'a built-in module'}; rename {wanted}")
    if not hasattr(found, name):
        raise ImportProblem(f"{module!r} has no {name!r}")
    return getattr(found, name)


def file_of(folder: Path, module: str) -> Path | None:
    """The file of a module beside the task, if it is there."""
    place = folder.joinpath(*module.split("."))
    candidates = (place.with_name(place.name + ".py"), place / "__init__.py")
    return next((one for one in candidates if one.is_file()), None)


def _installed(top: str) -> bool:
    try:
        return importlib.util.find_spec(top) is not None
    except (ImportError, ValueError):
        return False


def _bound(tree: ast.Module) -> set[str]:
    """The names that a module binds anywhere at its top level, as far as its text tells."""
    names: set[str] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            names.add(node.name)
        elif isinstance(node, ast.alias):
            names.add((node.asname or node.name).partition(".")[0])
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            names.add(node.id)
    return names
