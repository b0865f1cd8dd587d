"""What this machine can run: the backends that are installed, and the memory that is free. No backend is imported."""

from __future__ import annotations

import importlib.metadata
import importlib.util
import sys
from dataclasses import dataclass

from .memory import SPARE, free_memory
from .model_files import Facts


@dataclass(frozen=True, slots=True)
class Backend:
    """A way to run models, and whether its packages are here."""

    name: str
    modules: tuple[str, ...]
    package: str
    extra: str

    @property
    def installed(self) -> bool:
        """Whether it can be imported."""
        return all(importlib.util.find_spec(module) is not None for module in self.modules)

    @property
    def version(self) -> str:
        """Of the package that does the work."""
        try:
            return importlib.metadata.version(self.package)
        except importlib.metadata.PackageNotFoundError:
            return "of no known version"


_MLX = Backend("mlx", ("mlx.core", "mlx_lm"), "mlx-lm", "mlx")
_XLLAMACPP = Backend("llamacpp", ("xllamacpp",), "xllamacpp", "llamacpp")
_LLAMA_CPP_PYTHON = Backend("llamacpp", ("llama_cpp",), "llama-cpp-python", "llamacpp")
_TRANSFORMERS = Backend("transformers", ("transformers", "torch"), "transformers", "transformers")


def backends() -> tuple[Backend, ...]:
    """All there are, whether installed or not."""
    return _MLX, _XLLAMACPP, _LLAMA_CPP_PYTHON, _TRANSFORMERS


def choose(facts: Facts, wanted: str | None = None) -> tuple[str | None, str | None]:
    """The backend that would run a model here, and why it would not run. One of the two is None.

    A backend that is `wanted` is the only one that will do.
    """
    order = _order(facts)
    able = [backend for backend in order if wanted in (None, "auto", backend.name)]
    if not able:
        others = " or ".join(dict.fromkeys(backend.name for backend in order))
        why = facts.not_for_mlx if facts.is_gguf and wanted == _MLX.name else None
        return None, f"{why or f'{wanted} does not read it'}; it needs {others}"
    fitting = [backend for backend in able if backend.installed]
    if not fitting:
        if facts.is_gguf and _MLX.installed and facts.not_for_mlx:
            return None, f"{facts.not_for_mlx}: pip install 'rlm-kernel[llamacpp]'"
        extras = " or ".join(f"'rlm-kernel[{extra}]'" for extra in dict.fromkeys(one.extra for one in able))
        return None, f"nothing is installed that runs it: pip install {extras}"
    free = free_memory()
    if free is not None and facts.size + SPARE > free:
        return None, f"needs about {(facts.size + SPARE) / 1e9:.1f} GB of memory; {free / 1e9:.1f} GB are free"
    return fitting[0].name, None


def _order(facts: Facts) -> list[Backend]:
    if not facts.is_gguf:
        return [_MLX, _TRANSFORMERS]
    llama = [_XLLAMACPP, _LLAMA_CPP_PYTHON]
    if facts.not_for_mlx is not None:
        return llama
    return [_MLX, *llama] if sys.platform == "darwin" else [*llama, _MLX]
