"""Reading GGUF files, whole and damaged."""

from __future__ import annotations

from pathlib import Path

import pytest

from rlm.models.local.gguf import WeightsError
from rlm.models.local.gguf.reader import Gguf
from rlm.models.local.library import examine
from tests.support.tiny_gguf import write_tiny


def test_fields_and_tensors_are_read(tmp_path: Path) -> None:
    path = write_tiny(tmp_path / "tiny.gguf")
    with Gguf(path) as gguf:
        assert gguf.architecture == "llama"
        assert gguf.architecture_field("block_count") == 1
        assert gguf.fields["tokenizer.ggml.tokens"][:2] == ["<|endoftext|>", "<|im_end|>"]
        embedding = gguf.tensors["token_embd.weight"]
        assert embedding.format == "Q8_0"
        assert embedding.shape == (len(gguf.fields["tokenizer.ggml.tokens"]), 64)


@pytest.mark.parametrize("part", [0, 3, 20, 200, 2000, -1])
def test_a_file_that_is_cut_off_is_recognised(tmp_path: Path, part: int) -> None:
    whole = write_tiny(tmp_path / "tiny.gguf").read_bytes()
    path = tmp_path / "cut.gguf"
    path.write_bytes(whole[:part])
    with pytest.raises(WeightsError, match=r"cut off|empty|not a GGUF file"):
        Gguf(path)


def test_hostile_counts_do_not_eat_the_memory(tmp_path: Path) -> None:
    path = tmp_path / "bad.gguf"
    path.write_bytes(b"GGUF" + (3).to_bytes(4, "little") + b"\xff" * 8 + b"\xff" * 8 + b"\xff" * 64)
    with pytest.raises(WeightsError, match="damaged"):
        Gguf(path)


def test_another_kind_of_file_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "text.gguf"
    path.write_text("Dear reader, this is no model.")
    with pytest.raises(WeightsError, match="is not a GGUF file"):
        examine(path)


def test_what_a_model_is_is_known_without_loading_it(tmp_path: Path) -> None:
    facts = examine(write_tiny(tmp_path / "tiny.gguf"))
    assert (facts.format, facts.architecture, facts.context) == ("GGUF Q4_1", "llama", 128)
    assert facts.not_for_mlx is None
    assert facts.is_gguf


def test_an_architecture_that_is_not_converted_is_left_to_llamacpp(tmp_path: Path) -> None:
    facts = examine(write_tiny(tmp_path / "odd.gguf", architecture="gemma3"))
    assert facts.architecture == "gemma3"
    assert facts.not_for_mlx is not None
    assert "llama.cpp" in facts.not_for_mlx


def test_a_folder_that_is_no_model_is_refused(tmp_path: Path) -> None:
    with pytest.raises(WeightsError, match=r"config\.json, tokenizer\.json, \*\.safetensors"):
        examine(tmp_path)
