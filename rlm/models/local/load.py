"""Loading models: the weights, the backend that runs them, and one copy in memory per set of weights."""

from __future__ import annotations

import hashlib
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any, Literal
from weakref import WeakValueDictionary

from .backend_choice import LLAMA_CPP_PYTHON, XLLAMACPP, BackendName, NotRunnable, check_memory, choose_backend
from .embedded import embedded_gguf
from .errors import DoesNotFit, LocalModelError, MissingExtra, MissingModel
from .gguf import WeightsError
from .limits import DEFAULT_CONTEXT, check_numbers
from .model_files import Facts, examine
from .types import LocalModel

Progress = Callable[[int, int], None]
"""Called with the number of converted bytes and the total."""

_loaded: WeakValueDictionary[tuple[Any, ...], Any] = WeakValueDictionary()
_lock = threading.Lock()


def load(
    model: str | Path | None,
    backend: BackendName | Literal["auto"],
    *,
    context: int | None,
    parallel: int,
    threads: int | None = None,
    progress: Progress | None = None,
) -> LocalModel:
    """Return a model, loaded unless it is in memory already; None is the embedded model. Raises `LocalModelError`."""
    check_numbers(context, parallel, threads)
    try:
        path = embedded_gguf() if model is None else Path(model).expanduser().absolute()
        if not path.exists():
            raise MissingModel(f"there is no model at {path}: pass a GGUF file or a folder with MLX weights")
        facts = examine(path)
        chosen = choose_backend(facts, backend)
        key = (path, chosen, context, parallel, threads)
        with _lock:
            loaded = _loaded.get(key)
            if loaded is None:
                loaded = _loaded[key] = _load(facts, chosen, context, parallel, threads, progress)
            return loaded
    except NotRunnable as error:
        raise _as_dspy_error(path, error) from error
    except WeightsError as error:
        raise LocalModelError(str(error)) from error


def name_of(path: Path, backend: str) -> str:
    """Return the name of a model, with a fingerprint of its content, so that cached answers belong to these weights."""
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
    facts: Facts,
    backend: BackendName,
    context: int | None,
    parallel: int,
    threads: int | None,
    progress: Progress | None,
) -> LocalModel:
    name = name_of(facts.path, backend)
    if backend == "mlx":
        from .backends.mlx import mlx_model
        from .gguf import as_mlx

        if facts.is_gguf:
            facts = examine(as_mlx(facts.path, progress=progress))
            check_memory(facts, backend)
        return mlx_model(facts.path, name, context)
    if backend == "transformers":
        from .backends.transformers import torch_model

        return torch_model(facts.path, name, context)
    window = min(context or DEFAULT_CONTEXT, facts.context or DEFAULT_CONTEXT)
    # llama-cpp-python exposes logits, which forced tokens need; xllamacpp's server batches requests, which it does not.
    if LLAMA_CPP_PYTHON.installed and (parallel == 1 or not XLLAMACPP.installed):
        from .backends.llama_cpp_python import llama_model

        return llama_model(facts.path, name, window, threads)
    from .backends.llama_server import LlamaServerModel

    return LlamaServerModel(facts.path, name, window, parallel, threads)


def _as_dspy_error(path: Path, error: NotRunnable) -> LocalModelError:
    reason = f"{path} cannot be run here: {error}"
    if error.cause == "missing":
        return MissingExtra(error.extra, reason)
    return DoesNotFit(reason) if error.cause == "memory" else LocalModelError(reason)
