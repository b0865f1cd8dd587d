"""The registry of models: names for GGUF files and MLX folders, in one small file. The weights stay where they are."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from contextlib import contextmanager
from difflib import get_close_matches
from pathlib import Path

from ...errors import RlmError
from ...files import FileLock, home, write_atomic
from .embedded import embedded_gguf
from .model_files import Facts, examine

EMBEDDED = "embedded"
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")


class LibraryError(RlmError, ValueError):
    """A name that is unknown, taken or not allowed; the message says what to do."""


def entries() -> dict[str, Path]:
    """Return the added models by name. The embedded one is always known and not among them."""
    try:
        content = json.loads(_file().read_text(encoding="utf-8"))
        return {str(name): Path(path) for name, path in content["models"].items()}
    except FileNotFoundError:
        return {}
    except (OSError, ValueError, TypeError, KeyError, AttributeError) as error:
        raise LibraryError(f"{_file()} cannot be read ({error}); repair it or remove it") from None


def add(name: str, path: Path) -> Facts:
    """Add a model under a name. Raises `WeightsError` where the path is not a model, and `LibraryError`."""
    if not _NAME.fullmatch(name):
        raise LibraryError(f"{name!r} cannot be a name; use up to 64 letters, digits, '.', '_' and '-'")
    if name == EMBEDDED:
        raise LibraryError("'embedded' is the model that comes in a package; take another name")
    path = path.expanduser().resolve()
    facts = examine(path)
    with _changing() as models:
        if name in models and models[name] != path:
            raise LibraryError(f"{name!r} is {models[name]} already; `rlm models remove {name}` forgets it")
        models[name] = path
    return facts


def remove(name: str) -> Path:
    """Remove a name. The weights stay where they are."""
    if name == EMBEDDED:
        raise LibraryError("'embedded' comes from a package and is always listed")
    with _changing() as models:
        if name not in models:
            raise LibraryError(_unknown(name, models))
        return models.pop(name)


def locate(name: str) -> Path:
    """Return the file or folder of a name. Raises `LibraryError`, and `WeightsError` where `embedded` is missing."""
    if name == EMBEDDED:
        return embedded_gguf()
    known = entries()
    if name not in known:
        raise LibraryError(_unknown(name, known))
    return known[name]


def _unknown(name: str, known: dict[str, Path]) -> str:
    names = [EMBEDDED, *known]
    close = get_close_matches(name, names, n=1)
    hint = f"did you mean {close[0]}?" if close else f"known are {', '.join(names)}."
    return f"no model is called {name!r}; {hint} `rlm models add {name} PATH` adds one"


def _file() -> Path:
    return home() / "models.json"


@contextmanager
def _changing() -> Iterator[dict[str, Path]]:
    """Yield the list under a lock, and write it as a whole afterwards."""
    file = _file()
    file.parent.mkdir(parents=True, exist_ok=True)
    with FileLock(file.parent / ".models.lock"):
        models = entries()
        yield models
        content = {"models": {name: str(path) for name, path in sorted(models.items())}}
        write_atomic(file, json.dumps(content, indent=1, ensure_ascii=False), mode=0o600)
