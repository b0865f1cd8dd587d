"""Finding the weights and the backend for a model, and loading each set of weights once."""

from __future__ import annotations

import hashlib
import importlib.util
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any, Literal
from weakref import WeakValueDictionary

from .errors import LocalModelError, MissingExtra, MissingModel
from .limits import DEFAULT_CONTEXT, check_memory, check_numbers
from .types import LocalModel

Backend = Literal["auto", "mlx", "llamacpp", "transformers"]
Progress = Callable[[int, int], None]
"""Told how many bytes of how many have been converted."""

_loaded: WeakValueDictionary[tuple[Any, ...], Any] = WeakValueDictionary()
_lock = threading.Lock()


def load(
    model: str | Path | None,
    backend: Backend,
    *,
    context: int | None,
    parallel: int,
    threads: int | None = None,
    progress: Progress | None = None,
) -> LocalModel:
    """The model, loaded if it is not in memory already. None is the embedded model."""
    from .gguf import WeightsError

    check_numbers(context, parallel, threads)
    try:
        path = embedded() if model is None else Path(model).expanduser().absolute()
        if not path.exists():
            raise MissingModel(f"there is no model at {path}: give a GGUF file or a folder with MLX weights")
        chosen = choose(path) if backend == "auto" else backend
        key = (path, chosen, context, parallel, threads)
        with _lock:
            loaded = _loaded.get(key)
            if loaded is None:
                loaded = _loaded[key] = _load(path, chosen, context, parallel, threads, progress)
            return loaded
    except WeightsError as error:
        raise LocalModelError(str(error)) from error


def choose(path: Path) -> Backend:
    """The backend for these weights on this machine, by what they are and by what is installed."""
    if path.is_dir():
        return "mlx" if _has("mlx_lm") and _has("mlx") else "transformers"
    if sys.platform == "darwin" and _has("mlx_lm"):
        return "mlx"
    if _has("xllamacpp") or _has("llama_cpp"):
        return "llamacpp"
    return "mlx" if _has("mlx_lm") and _has("mlx") else "llamacpp"


def embedded() -> Path:
    """The small model that comes in a package."""
    from .gguf import embedded_gguf

    return embedded_gguf()


def name_of(path: Path, backend: str) -> str:
    """The model's name, with a fingerprint of its content: what is cached under it was said by these weights."""
    digest = hashlib.sha256()
    for file in sorted(path.glob("*.safetensors")) + sorted(path.glob("*.json")) if path.is_dir() else [path]:
        with file.open("rb") as content:
            digest.update(f"{file.name} {file.stat().st_size}".encode())
            digest.update(content.read(65536))
            content.seek(-min(1 << 20, file.stat().st_size), 2)
            digest.update(content.read())
    stem = path.name if path.is_dir() else path.stem
    return f"{backend}/{stem}@{digest.hexdigest()[:8]}"


def _load(
    path: Path,
    backend: Backend,
    context: int | None,
    parallel: int,
    threads: int | None,
    progress: Progress | None,
) -> LocalModel:
    name = name_of(path, backend)
    if path.is_dir() and backend in ("mlx", "transformers"):
        from .gguf.safetensors import check_weights

        check_weights(path)
    if backend == "mlx":
        from .backends.mlx import mlx_model

        check_memory(path)  # before it is converted, which takes minutes
        folder = _mlx_folder(path, progress)
        check_memory(folder, as_float32=sys.platform == "linux")
        return mlx_model(folder, name, context)
    if backend == "llamacpp":
        if path.is_dir():
            raise LocalModelError(f"llama.cpp reads a GGUF file; the folder {path} needs mlx or transformers")
        check_memory(path)
        return _llama(path, name, context, parallel, threads)
    if backend == "transformers":
        from .backends.transformers import torch_model

        if not path.is_dir():
            raise LocalModelError(f"transformers reads a folder with safetensors; {path.name} needs mlx or llamacpp")
        check_memory(path)
        return torch_model(path, name, context)
    raise LocalModelError(f"no backend is called {backend!r}: choose mlx, llamacpp or transformers")


def _llama(path: Path, name: str, context: int | None, parallel: int, threads: int | None) -> LocalModel:
    from .gguf.reader import Gguf

    with Gguf(path) as file:
        trained = int(file.fields.get(f"{file.architecture}.context_length", DEFAULT_CONTEXT))
    context = min(context or DEFAULT_CONTEXT, trained)
    # llama-cpp-python shows its logits, which is what forced tokens need. The server batches, which it does not.
    if _has("llama_cpp") and (parallel == 1 or not _has("xllamacpp")):
        from .backends.llama_cpp_python import llama_model

        return llama_model(path, name, context, threads)
    from .backends.llama_server import LlamaServerModel

    return LlamaServerModel(path, name, context, parallel, threads)


def _mlx_folder(path: Path, progress: Progress | None) -> Path:
    if path.is_dir():
        return path
    if not (_has("mlx") and _has("mlx_lm")):
        raise MissingExtra("mlx", "an MLX model needs mlx and mlx-lm, which are not installed")
    from .gguf import as_mlx

    return as_mlx(path, progress=progress)


def _has(module: str) -> bool:
    return importlib.util.find_spec(module) is not None
