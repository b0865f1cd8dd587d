"""Which files the code of a task is in: the modules it names beside it, and what these import from beside it."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator
from pathlib import Path

from ..tasks.references import file_of


def imported(folder: Path, modules: Iterable[str]) -> list[Path]:
    """The files in a folder that modules of it import, themselves or through others, as far as their text tells."""
    found: dict[Path, None] = {}
    waiting = list(modules)
    while waiting:
        module = waiting.pop()
        file = file_of(folder, module)
        if file is not None and file not in found:
            found[file] = None
            waiting += _imports(file, module)
    return sorted(found)


def _imports(file: Path, module: str) -> Iterator[str]:
    """The names of modules that a file may import; where a name may be a module or something in one, both."""
    try:
        tree = ast.parse(file.read_bytes())
    except (SyntaxError, ValueError):
        return  # that it cannot be imported is said when it is
    yield from _with_parents(module)
    package = module if file.name == "__init__.py" else module.rpartition(".")[0]
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for one in node.names:
                yield from _with_parents(one.name)
        elif isinstance(node, ast.ImportFrom):
            parts = package.split(".") if node.level and package else []
            parts = parts[: len(parts) - node.level + 1] if node.level else []
            base = ".".join([*parts, *([node.module] if node.module else [])])
            for one in node.names:
                yield from _with_parents(f"{base}.{one.name}" if base else one.name)


def _with_parents(module: str) -> Iterator[str]:
    parts = module.split(".")
    for count in range(1, len(parts) + 1):
        yield ".".join(parts[:count])
