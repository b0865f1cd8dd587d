"""What cannot be loaded is said before anything is converted or read: what it is, and what to do about it."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path
from typing import Any

import dspy
import pytest

from rlm.models import OutlinesLM
from rlm.models.local import library
from rlm.models.local.embedded import embedded_gguf
from rlm.models.local.errors import DoesNotFit, LocalModelError, MissingExtra
from rlm.models.local.gguf import WeightsError


@pytest.fixture
def huge(tmp_path: Path) -> Path:
    """A model of a terabyte, as far as anybody can see: the end of the file takes no room on the disk."""
    file = tmp_path / "huge.gguf"
    with embedded_gguf().open("rb") as whole, file.open("wb") as start:
        start.write(whole.read(4_000_000))
    os.truncate(file, 10**12)
    return file


@pytest.mark.parametrize("backend", ["mlx", "llamacpp"])
def test_a_model_that_does_not_fit_is_neither_loaded_nor_converted(
    backend: Any, huge: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RLM_HOME", str(tmp_path / "home"))
    with pytest.raises(DoesNotFit, match=r"huge\.gguf .* needs about 1000\.\d GB of memory and .* are free.*smaller"):
        OutlinesLM(huge, backend=backend)
    assert not (tmp_path / "home").exists()


def test_a_missing_torch_comes_with_the_command(tmp_path: Path, hide_packages: Any) -> None:
    hide_packages("torch")
    folder = _folder(tmp_path / "tf", _weights({"a": TENSOR}, 8))
    with pytest.raises(MissingExtra, match=r"pip install 'rlm-kernel\[transformers\]'"):
        OutlinesLM(folder, backend="transformers")


@pytest.mark.parametrize(
    ("weights", "backend", "said"),
    [
        ("file", "transformers", "transformers does not read it; it needs llamacpp or mlx"),
        ("folder", "llamacpp", "llamacpp does not read it; it needs mlx or transformers"),
        ("file", "mxl", "no backend is called 'mxl': choose llamacpp or mlx"),
        ("empty folder", "mlx", "is not a model folder: it has no config.json, tokenizer.json, "),
        ("text", "llamacpp", "is not a GGUF file"),
        ("text", "mlx", "is not a GGUF file"),
        ("empty", "auto", "is empty"),
    ],
)
def test_faults_of_the_weights_are_named(tmp_path: Path, weights: str, backend: Any, said: str) -> None:
    path = tmp_path / "a.gguf"
    if weights == "folder":
        _folder(path, _weights({"a": TENSOR}, 8))
    elif weights == "empty folder":
        path.mkdir()
    elif weights == "file":
        shutil.copyfile(embedded_gguf(), path)
    else:
        path.write_text("" if weights == "empty" else "hello, this is a letter and no model at all")
    with pytest.raises(LocalModelError, match=said) as caught:
        OutlinesLM(path, backend=backend)
    assert isinstance(caught.value, dspy.LMError)


TENSOR = {"dtype": "F16", "shape": [4], "data_offsets": [0, 8]}


def _folder(path: Path, weights: bytes) -> Path:
    path.mkdir()
    (path / "config.json").write_text('{"model_type": "llama"}')
    (path / "tokenizer.json").write_text("{}")
    (path / "m.safetensors").write_bytes(weights)
    return path


def _weights(header: Any, size: int) -> bytes:
    head = json.dumps(header).encode()
    return len(head).to_bytes(8, "little") + head + bytes(size)


@pytest.mark.parametrize(
    ("weights", "said"),
    [
        (b"x", "is not a safetensors file, or only the beginning"),
        (b"", "is not a safetensors file, or only the beginning"),
        ((3).to_bytes(8, "little") + b"x{}", "is damaged"),
        (_weights(["a"], 0), "is damaged"),
        (_weights({"a": {"dtype": "F16"}}, 0), "is damaged"),
        (_weights({"a": TENSOR}, 7), r"is cut off: it has \d+ bytes of \d+"),
    ],
)
def test_damaged_weights_are_named_and_not_added(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, weights: bytes, said: str
) -> None:
    monkeypatch.setenv("RLM_HOME", str(tmp_path / "home"))
    folder = _folder(tmp_path / "tf", weights)
    with pytest.raises(LocalModelError, match=rf"m\.safetensors {said}"):
        OutlinesLM(folder, backend="mlx")
    with pytest.raises(WeightsError, match=rf"m\.safetensors {said}"):
        library.add("tf", folder)
    assert library.entries() == {}


def test_a_folder_that_mlx_cannot_make_a_model_of_is_named(tmp_path: Path) -> None:
    folder = _folder(tmp_path / "tf", _weights({"a": TENSOR, "__metadata__": {"format": "pt"}}, 8))
    with pytest.raises(LocalModelError, match="tf is not a model that mlx-lm can load"):
        OutlinesLM(folder, backend="mlx")


@pytest.mark.parametrize(("name", "given", "least"), [("context", -5, 256), ("parallel", 0, 1), ("threads", 0, 1)])
def test_numbers_that_make_no_sense_are_refused(name: str, given: int, least: int) -> None:
    with pytest.raises(LocalModelError, match=f"{name} is {given}; it has to be at least {least}"):
        OutlinesLM(**{name: given})
