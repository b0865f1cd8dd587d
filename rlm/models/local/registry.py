"""The list of models: names for GGUF files and MLX folders, in one small file. The weights stay where they are."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from contextlib import contextmanager
from difflib import get_close_matches
from pathlib import Path

from ...errors import RlmError
from ...files import FileLock, write_atomic
from ...paths import home
from .gguf import embedded_gguf
from .model_files import Facts, examine

EMBEDDED = "embedded"
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")


class LibraryError(RlmError, ValueError):
    """A name that is not known, is taken or cannot be one; the message says what to do."""


def entries() -> dict[str, Path]:
    """The models that were added, by name. The embedded one is always there and not among them."""
    try:
        content = json.loads(_file().read_text(encoding="utf-8"))
        return {str(name): Path(path) for name, path in content["models"].items()}
    except FileNotFoundError:
        return {}
    except (OSError, ValueError, TypeError, KeyError, AttributeError) as error:
        raise LibraryError(f"{_file()} cannot be read ({error}); repair it or remove it") from None


def add(name: str, path: Path) -> Facts:
    """Remember a model under a name, once it is clear that it is one. `WeightsError` where it is not."""
    if not _NAME.fullmatch(name):
        raise LibraryError(f"{name!r} cannot be a name; letters, digits, '.', '_' and '-' can, up to 64 of them")
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
    """Forget a name. What it stood for is left alone."""
    if name == EMBEDDED:
        raise LibraryError("'embedded' comes from a package and is always listed")
    with _changing() as models:
        if name not in models:
            raise LibraryError(_unknown(name, models))
        return models.pop(name)


def locate(name: str) -> Path:
    """The file or folder of a name. For `embedded`, `WeightsError` where it is not installed."""
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
    """The list, to be changed: nobody else changes it meanwhile, and it is written as a whole or not at all."""
    file = _file()
    file.parent.mkdir(parents=True, exist_ok=True)
    with FileLock(file.parent / ".models.lock"):
        models = entries()
        yield models
        content = {"models": {name: str(path) for name, path in sorted(models.items())}}
        write_atomic(file, json.dumps(content, indent=1, ensure_ascii=False), mode=0o600)
