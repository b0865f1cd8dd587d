"""What this machine can run: the backends that are installed, and the memory that is free. No backend is imported."""

from __future__ import annotations

import importlib.metadata
import importlib.util
import os
import sys
from dataclasses import dataclass
from pathlib import Path

from .facts import Facts

_SPARE = 256 * 1024 * 1024


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


def choose(facts: Facts) -> tuple[str | None, str | None]:
    """The backend that would run a model here, and why it would not run. One of the two is None."""
    fitting = [backend for backend in _order(facts) if backend.installed]
    if not fitting:
        if facts.is_gguf and _MLX.installed and facts.not_for_mlx:
            return None, f"{facts.not_for_mlx}: pip install 'rlm-kernel[llamacpp]'"
        extras = " or ".join(f"'rlm-kernel[{extra}]'" for extra in dict.fromkeys(one.extra for one in _order(facts)))
        return None, f"nothing is installed that runs it: pip install {extras}"
    free = free_memory()
    if free is not None and facts.size + _SPARE > free:
        return None, f"needs about {(facts.size + _SPARE) / 1e9:.1f} GB of memory; {free / 1e9:.1f} GB are free"
    return fitting[0].name, None


def _order(facts: Facts) -> list[Backend]:
    if not facts.is_gguf:
        return [_MLX, _TRANSFORMERS]
    llama = [_XLLAMACPP, _LLAMA_CPP_PYTHON]
    if facts.not_for_mlx is not None:
        return llama
    return [_MLX, *llama] if sys.platform == "darwin" else [*llama, _MLX]


def free_memory() -> int | None:
    """Bytes that a model could have, within the limits of a container; None where nobody says."""
    known = [value for value in (_available(), _container_room()) if value is not None]
    return min(known, default=None)


def _available() -> int | None:
    try:
        lines = Path("/proc/meminfo").read_text(encoding="ascii").splitlines()
    except OSError:
        try:  # macOS gives back what files took, so that all of it counts
            return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
        except (ValueError, OSError):
            return None
    return next((int(line.split()[1]) * 1024 for line in lines if line.startswith("MemAvailable:")), None)


def _container_room() -> int | None:
    group = Path("/sys/fs/cgroup")
    try:
        most = (group / "memory.max").read_text(encoding="ascii").strip()
        used = int((group / "memory.current").read_text(encoding="ascii"))
        stats = dict(line.split() for line in (group / "memory.stat").read_text(encoding="ascii").splitlines())
    except (OSError, ValueError):
        return None
    return None if most == "max" else int(most) - used + int(stats.get("inactive_file", 0))
