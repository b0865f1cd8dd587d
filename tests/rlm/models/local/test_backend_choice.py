"""The choice of a backend: one for loading, for the command line and for `rlm doctor`."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from rlm.models import OutlinesLM
from rlm.models.local import backend_choice
from rlm.models.local.backend_choice import NotRunnable, backends, choose, choose_backend
from rlm.models.local.embedded import embedded_gguf
from rlm.models.local.errors import DoesNotFit, MissingExtra
from rlm.models.local.gguf import WeightsError
from rlm.models.local.model_files import Facts, examine
from tests.support.tiny_gguf import write_tiny

GGUF = Facts(embedded_gguf(), "GGUF Q4_1", "llama", 1000)


@pytest.fixture
def folder(tmp_path: Path) -> Facts:
    (tmp_path / "model.safetensors").write_bytes((2).to_bytes(8, "little") + b"{}")
    (tmp_path / "config.json").write_text('{"model_type": "llama", "quantization": {"bits": 4}}')
    (tmp_path / "tokenizer.json").write_text("{}")
    return examine(tmp_path)


@pytest.mark.parametrize("platform", ["linux", "darwin"])
def test_gguf_files_go_to_llama_cpp_wherever_it_is_installed(platform: str, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("xllamacpp")
    monkeypatch.setattr(sys, "platform", platform)
    assert choose(GGUF) == ("llamacpp", None)


def test_gguf_files_are_converted_for_mlx_without_llama_cpp(hide_packages: Callable[..., None]) -> None:
    pytest.importorskip("mlx_lm")
    hide_packages("xllamacpp", "llama_cpp")
    assert choose(GGUF) == ("mlx", None)
    backend, problem = choose(replace(GGUF, not_for_mlx="a.gguf scales its positions"))
    assert backend is None
    assert problem == "a.gguf scales its positions: pip install 'rlm-kernel[llamacpp]'"


def test_folders_go_to_mlx_and_else_to_transformers(
    folder: Facts, hide_packages: Callable[..., None], monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("mlx_lm")
    assert choose_backend(folder) == "mlx"
    hide_packages("mlx", "mlx_lm")
    monkeypatch.setattr(backend_choice, "is_installed", lambda module: module in ("torch", "transformers"))
    assert choose_backend(folder) == "transformers"


def test_the_wanted_backend_is_the_only_one(folder: Facts, hide_packages: Callable[..., None]) -> None:
    hide_packages("mlx", "mlx_lm")
    with pytest.raises(
        NotRunnable, match=r"nothing is installed that runs it: pip install 'rlm-kernel\[mlx\]'"
    ) as error:
        choose_backend(GGUF, "mlx")
    assert (error.value.cause, error.value.extra) == ("missing", "mlx")
    with pytest.raises(NotRunnable, match="llamacpp does not read it; it needs mlx or transformers") as error:
        choose_backend(folder, "llamacpp")
    assert error.value.cause == "format"


def test_weights_that_do_not_fit_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(backend_choice, "free_memory", lambda: 50_000_000)
    with pytest.raises(NotRunnable, match=r"needs about 0\.4 GB of memory and 0\.1 GB are free") as error:
        choose_backend(GGUF)
    assert error.value.cause == "memory"
    with pytest.raises(DoesNotFit, match=r"GB of memory and 0\.1 GB are free"):
        OutlinesLM(embedded_gguf(), backend="llamacpp", context=278)


@pytest.mark.parametrize(("dtype", "factor"), [("BF16", 2), ("F32", 1)])
def test_short_floats_are_counted_as_wide_as_mlx_makes_them_on_a_cpu(
    dtype: str, factor: int, folder: Facts, monkeypatch: pytest.MonkeyPatch
) -> None:
    weights = folder.path / "model.safetensors"
    header = f'{{"__metadata__": {{}}, "w": {{"dtype": "{dtype}", "shape": [1], "data_offsets": [0, 4]}}}}'.encode()
    weights.write_bytes(len(header).to_bytes(8, "little") + header + bytes(1_000_000))
    needed = backend_choice.SPARE + factor * weights.stat().st_size
    monkeypatch.setattr(sys, "platform", "linux")
    monkeypatch.setattr(backend_choice, "free_memory", lambda: needed)
    backend_choice.check_memory(folder, "mlx")
    monkeypatch.setattr(backend_choice, "free_memory", lambda: needed - 1)
    with pytest.raises(NotRunnable):
        backend_choice.check_memory(folder, "mlx")


def test_without_any_backend_the_error_names_the_extra(hide_packages: Callable[..., None]) -> None:
    hide_packages("mlx", "mlx_lm", "xllamacpp", "llama_cpp", "transformers", "torch")
    assert not any(backend.installed for backend in backends())
    with pytest.raises(MissingExtra, match=r"pip install 'rlm-kernel\[llamacpp\]'") as error:
        OutlinesLM(context=279)
    assert error.value.extra == "llamacpp"


# Hides packages in a new process, before anything of rlm is imported.
WITHOUT = """
import sys
class Finder:
    def __init__(self, finder):
        self.finder = finder
    def find_spec(self, name, *rest):
        return None if name.partition(".")[0] in {hidden!r} else self.finder.find_spec(name, *rest)
    def __getattr__(self, name):
        return getattr(self.finder, name)
sys.meta_path[:] = [Finder(finder) for finder in sys.meta_path]
"""


def _python(hidden: set[str], code: str) -> subprocess.CompletedProcess[str]:
    program = WITHOUT.format(hidden=hidden) + code
    return subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=110, check=False)


def test_the_embedded_model_answers_without_the_mlx_extra() -> None:
    pytest.importorskip("xllamacpp")
    code = "from rlm.models import OutlinesLM\nlm = OutlinesLM(max_tokens=4)\nprint(lm.local.backend, len(lm('Hi')))"
    done = _python({"mlx", "mlx_lm"}, code)
    assert done.stdout.split() == ["llamacpp", "1"], done.stderr


@pytest.mark.parametrize("hidden", [{"mlx", "mlx_lm"}, {"xllamacpp", "llama_cpp"}])
def test_doctor_runs_with_one_extra_alone(hidden: set[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(os.environ, "RLM_HOME", str(tmp_path))
    done = _python(hidden, "import rlm.cli\nrlm.cli.main(['doctor', '--json'])")
    checks: dict[str, Any] = {check["name"]: check for check in json.loads(done.stdout)["checks"]}
    assert checks["local models"]["ok"], done.stderr
    package = "xllamacpp" if "mlx" in hidden else "mlx-lm"
    assert checks["local models"]["detail"].startswith(f"run with {package} ")


def test_a_gguf_file_is_known_where_numpy_is_not_installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The extra for GGUF files does not bring numpy; only the conversion for MLX needs it."""
    path = write_tiny(tmp_path / "tiny.gguf")
    monkeypatch.setitem(sys.modules, "numpy", None)
    for module in ("mlx_folder", "blocks", "safetensors"):
        monkeypatch.delitem(sys.modules, f"rlm.models.local.gguf.{module}", raising=False)
    facts = examine(path)
    assert facts.is_gguf
    assert facts.not_for_mlx == "numpy is not installed, which the conversion for MLX needs; run it with llama.cpp"
    with pytest.raises(WeightsError, match="not a model folder"):
        examine(tmp_path)
