"""The backends that are installed, and the one that runs a model on this machine. No backend is imported."""

from __future__ import annotations

import importlib.metadata
import importlib.util
import sys
from dataclasses import dataclass
from typing import Literal, get_args

from .gguf.errors import WeightsError
from .hardware import SPARE, free_memory
from .model_files import Facts, weights_size

BackendName = Literal["mlx", "llamacpp", "transformers"]


class NotRunnable(WeightsError):
    """No backend runs the model here. `cause` is `format`, `missing` (install `extra`) or `memory`."""

    def __init__(self, cause: Literal["format", "missing", "memory"], reason: str, extra: str = "") -> None:
        super().__init__(reason)
        self.cause = cause
        self.extra = extra


@dataclass(frozen=True, slots=True)
class Backend:
    """A library that runs models, with the extra that installs it."""

    name: BackendName
    modules: tuple[str, ...]
    package: str
    extra: str

    @property
    def installed(self) -> bool:
        """Whether all of its modules can be imported."""
        return all(map(is_installed, self.modules))

    @property
    def version(self) -> str:
        """The version of the package that computes."""
        try:
            return importlib.metadata.version(self.package)
        except importlib.metadata.PackageNotFoundError:
            return "(unknown version)"


MLX = Backend("mlx", ("mlx.core", "mlx_lm"), "mlx-lm", "mlx")
XLLAMACPP = Backend("llamacpp", ("xllamacpp",), "xllamacpp", "llamacpp")
LLAMA_CPP_PYTHON = Backend("llamacpp", ("llama_cpp",), "llama-cpp-python", "llamacpp")
TRANSFORMERS = Backend("transformers", ("transformers", "torch"), "transformers", "transformers")


def is_installed(module: str) -> bool:
    """Return whether a module can be found, without importing it."""
    try:
        return importlib.util.find_spec(module) is not None
    except (ImportError, ValueError):  # its parent package is missing, or is half removed
        return False


def backends() -> tuple[Backend, ...]:
    """Return all known backends, installed or not."""
    return MLX, XLLAMACPP, LLAMA_CPP_PYTHON, TRANSFORMERS


def choose_backend(facts: Facts, wanted: str | None = None) -> BackendName:
    """Return the backend that runs a model here; only the `wanted` one, if it is given. Raises `NotRunnable`."""
    readers = _readers(facts)
    candidates = [backend for backend in readers if wanted in (None, "auto", backend.name)]
    if not candidates:
        names = " or ".join(dict.fromkeys(backend.name for backend in readers))
        if wanted not in get_args(BackendName):
            raise NotRunnable("format", f"no backend is called {wanted!r}: choose {names}")
        reason = facts.not_for_mlx if facts.is_gguf and wanted == MLX.name else None
        raise NotRunnable("format", f"{reason or f'{wanted} does not read it'}; it needs {names}")
    installed = next((backend for backend in candidates if backend.installed), None)
    if installed is None:
        extras = list(dict.fromkeys(backend.extra for backend in candidates))
        packages = " or ".join(f"'rlm-kernel[{extra}]'" for extra in extras)
        reason = "nothing is installed that runs it"
        if facts.is_gguf and facts.not_for_mlx and MLX.installed:
            reason = facts.not_for_mlx
        raise NotRunnable("missing", f"{reason}: pip install {packages}", extras[0])
    check_memory(facts, installed.name)
    return installed.name


def choose(facts: Facts, wanted: str | None = None) -> tuple[str | None, str | None]:
    """Return the backend that runs a model here, or None and the reason why none does."""
    try:
        return choose_backend(facts, wanted), None
    except NotRunnable as error:
        return None, str(error)


def check_memory(facts: Facts, backend: BackendName) -> None:
    """Raise `NotRunnable` if the weights need more memory than is free."""
    # MLX computes in float32 on a CPU, and widens shorter floats.
    widened = backend == "mlx" and sys.platform == "linux" and not facts.is_gguf
    needed, free = weights_size(facts.path, as_float32=widened) + SPARE, free_memory()
    if free is not None and needed > free:
        sizes = f"needs about {needed / 1e9:.1f} GB of memory and {free / 1e9:.1f} GB are free"
        raise NotRunnable("memory", f"{sizes}: use a smaller model or one with fewer bits per weight")


def _readers(facts: Facts) -> list[Backend]:
    """Return the backends that read the format, the preferred one first."""
    if not facts.is_gguf:
        return [MLX, TRANSFORMERS]
    llama = [XLLAMACPP, LLAMA_CPP_PYTHON]
    return llama if facts.not_for_mlx is not None else [*llama, MLX]
