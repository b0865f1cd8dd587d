"""What is said where a local model cannot be loaded, and which backend is taken."""

from __future__ import annotations

import builtins
import sys
from pathlib import Path
from typing import Any

import dspy
import pytest

from rlm.models import OutlinesLM
from rlm.models.local import limits, load
from rlm.models.local.errors import DoesNotFit, LocalModelError, MissingExtra, MissingModel
from rlm.models.local.gguf import embedded_gguf


@pytest.fixture
def hidden(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Hides packages, as if they were not installed."""

    def hide(*names: str) -> None:
        real_import, real_find = builtins.__import__, load.importlib.util.find_spec

        def refuse(name: str, *rest: Any, **more: Any) -> Any:
            if name.split(".")[0] in names:
                raise ModuleNotFoundError(f"No module named {name!r}", name=name)
            return real_import(name, *rest, **more)

        monkeypatch.setattr(builtins, "__import__", refuse)
        monkeypatch.setattr(
            load.importlib.util, "find_spec", lambda name, *rest: None if name in names else real_find(name, *rest)
        )
        for name in [name for name in sys.modules if name.split(".")[0] in names]:
            monkeypatch.delitem(sys.modules, name)

    return hide


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(MissingModel, match=r"no model at .*gone\.gguf"):
        OutlinesLM(tmp_path / "gone.gguf")


def test_a_missing_extra_comes_with_the_command(hidden: Any) -> None:
    hidden("xllamacpp", "llama_cpp")
    with pytest.raises(MissingExtra, match=r"pip install 'rlm-kernel\[llamacpp\]'"):
        OutlinesLM(embedded_gguf(), backend="llamacpp", context=277)


def test_a_missing_mlx_comes_with_the_command(hidden: Any) -> None:
    hidden("mlx_lm")
    with pytest.raises(MissingExtra, match=r"pip install 'rlm-kernel\[mlx\]'"):
        OutlinesLM(embedded_gguf(), backend="mlx", context=277)


def test_a_model_that_does_not_fit_is_not_loaded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "free_memory", lambda: 50_000_000)
    with pytest.raises(DoesNotFit, match=r"GB of memory and 0\.1 GB are free"):
        OutlinesLM(embedded_gguf(), backend="llamacpp", context=278)


def test_memory_that_is_free_can_be_told() -> None:
    free = limits.free_memory()
    assert free is not None
    assert free > 0


def test_a_file_that_is_no_model_is_a_dspy_error(tmp_path: Path) -> None:
    pytest.importorskip("xllamacpp")
    broken = tmp_path / "broken.gguf"
    broken.write_bytes(embedded_gguf().read_bytes()[:3_000_000])
    with pytest.raises(LocalModelError, match=r"broken\.gguf") as caught:
        OutlinesLM(broken, backend="llamacpp")
    assert isinstance(caught.value, dspy.LMError)


def test_the_backend_follows_from_the_weights_and_from_what_is_installed(
    hidden: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "a.gguf"
    file.touch()
    assert load.choose(tmp_path) == "mlx"
    monkeypatch.setattr(sys, "platform", "linux")
    assert load.choose(file) == "llamacpp"
    monkeypatch.setattr(sys, "platform", "darwin")
    assert load.choose(file) == "mlx"
    monkeypatch.setattr(sys, "platform", "linux")
    hidden("xllamacpp", "llama_cpp")
    assert load.choose(file) == "mlx"
    hidden("mlx", "mlx_lm")
    assert load.choose(tmp_path) == "transformers"


def test_names_tell_weights_apart(tmp_path: Path) -> None:
    one, other = tmp_path / "one" / "m.gguf", tmp_path / "other" / "m.gguf"
    for file, content in ((one, b"a" * 100), (other, b"b" * 100)):
        file.parent.mkdir()
        file.write_bytes(content)
    names = {load.name_of(one, "llamacpp"), load.name_of(other, "llamacpp")}
    assert len(names) == 2
    assert all(name.startswith("llamacpp/m@") for name in names)


@pytest.mark.parametrize(("prompt", "context", "room"), [(10, 100, 90), (99, 100, 1)])
def test_an_answer_has_the_rest_of_the_context(prompt: int, context: int, room: int) -> None:
    limits.check_context(prompt, context, "m")
    assert limits.room_for(1000, prompt, context) == room


def test_a_prompt_that_fills_the_context_is_refused() -> None:
    with pytest.raises(dspy.ContextWindowExceededError, match="100 tokens"):
        limits.check_context(100, 100, "m")


@pytest.mark.parametrize(("kind", "needs"), [("BF16", 2), ("F32", 1)])
def test_short_floats_are_counted_as_wide_as_they_become(
    kind: str, needs: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    header = f'{{"__metadata__": {{}}, "w": {{"dtype": "{kind}", "shape": [1], "data_offsets": [0, 4]}}}}'.encode()
    weights = tmp_path / "model.safetensors"
    weights.write_bytes(len(header).to_bytes(8, "little") + header + bytes(1_000_000))
    size = weights.stat().st_size
    monkeypatch.setattr(limits, "free_memory", lambda: limits.SPARE + needs * size)
    limits.check_memory(tmp_path, as_float32=True)
    monkeypatch.setattr(limits, "free_memory", lambda: limits.SPARE + needs * size - 1)
    with pytest.raises(DoesNotFit):
        limits.check_memory(tmp_path, as_float32=True)
