"""From GGUF to MLX: what comes out, once, whole, and the same model."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import textwrap
from pathlib import Path

import numpy as np
import pytest

from rlm.files import home
from rlm.models.local.embedded import embedded_gguf
from rlm.models.local.gguf import WeightsError, as_mlx
from rlm.models.local.gguf.mlx_folder import Form, write_folder
from rlm.models.local.gguf.reader import Gguf
from tests.support.installed import needs
from tests.support.tiny_gguf import write_tiny

pytestmark = [pytest.mark.weights, needs("mlx_lm")]


@pytest.fixture
def own_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("RLM_HOME", str(tmp_path / "home"))
    return tmp_path / "home"


def written(source: Path, target: Path, form: Form) -> Path:
    target.mkdir()
    with Gguf(source) as gguf:
        write_folder(gguf, target, form, lambda done, total: None)
    return target


def logits(folder: Path, tokens: list[int]) -> np.ndarray:
    import mlx.core as mx
    from mlx_lm import load

    model = load(str(folder))[0]
    return np.array(model(mx.array([tokens])).astype(mx.float32))[0]


def test_the_forms_hold_the_same_model(tmp_path: Path) -> None:
    source = write_tiny(tmp_path / "tiny.gguf")
    plain = logits(written(source, tmp_path / "plain", Form(False, "F32")), [2, 40, 7, 99])
    groups = logits(written(source, tmp_path / "groups", Form(True, "F32")), [2, 40, 7, 99])
    np.testing.assert_allclose(groups, plain, atol=1e-4)
    rounded = logits(written(source, tmp_path / "rounded", Form(False, "BF16")), [2, 40, 7, 99])
    np.testing.assert_allclose(rounded, plain, atol=0.05)


def test_rows_of_rotated_heads_go_where_mlx_expects_them(tmp_path: Path) -> None:
    """llama.cpp keeps rotated pairs side by side, which is what MLX calls traditional: both must give the same."""
    import mlx.core as mx
    from mlx_lm.models.llama import Model, ModelArgs

    source = write_tiny(tmp_path / "tiny.gguf")
    folder = written(source, tmp_path / "plain", Form(False, "F32"))
    config = json.loads((folder / "config.json").read_text())
    weights = dict(mx.load(str(folder / "model.safetensors")).items())
    with Gguf(source) as gguf:
        from rlm.models.local.gguf.blocks import Groups, unpack

        for ours, theirs in (("attn_q", "q_proj"), ("attn_k", "k_proj")):
            tensor = gguf.tensors[f"blk.0.{ours}.weight"]
            groups = unpack(tensor.format, gguf.raw(tensor, 0, tensor.size))
            assert isinstance(groups, Groups)
            weights[f"model.layers.0.self_attn.{theirs}.weight"] = mx.array(groups.dense().reshape(tensor.shape))
    model = Model(ModelArgs.from_dict({**config, "rope_traditional": True}))
    model.load_weights(list(weights.items()))
    tokens = [2, 40, 7, 99, 12]
    np.testing.assert_allclose(np.array(model(mx.array([tokens])))[0], logits(folder, tokens), atol=1e-4)


def test_the_tokenizer_gives_back_any_text(tmp_path: Path) -> None:
    from tokenizers import Tokenizer

    folder = written(write_tiny(tmp_path / "tiny.gguf"), tmp_path / "out", Form(False, "F32"))
    tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
    text = "the théâtre, 12 €\n\t<|im_end|>"
    encoded = tokenizer.encode(text)
    assert tokenizer.decode(encoded.ids, skip_special_tokens=False) == text
    assert encoded.ids[-1] == 1
    assert json.loads((folder / "tokenizer_config.json").read_text())["eos_token"] == "<|im_end|>"
    assert json.loads((folder / "config.json").read_text())["eos_token_id"] == [1, 0]


def test_the_embedded_model_is_converted_once_and_answers(own_home: Path) -> None:
    import mlx.core as mx
    from mlx_lm import load

    told: list[tuple[int, int]] = []
    folder = as_mlx(embedded_gguf(), progress=lambda done, total: told.append((done, total)))
    assert folder.parent == home() / "mlx"
    assert told[0][0] == 0
    assert told[-1][0] == told[-1][1] > 90_000_000
    assert [done for done, _ in told] == sorted(done for done, _ in told)
    before, again = folder.stat().st_mtime_ns, len(told)
    assert as_mlx(embedded_gguf(), progress=lambda done, total: told.append((done, total))) == folder
    assert len(told) == again
    assert folder.stat().st_mtime_ns == before
    model, tokenizer = load(str(folder))[:2]
    asked = tokenizer.encode("The capital of France is")
    likeliest = mx.argmax(model(mx.array([asked]))[0, -1]).item()
    assert tokenizer.decode([likeliest]) == " Paris"


def test_two_processes_convert_a_model_once(tmp_path: Path, own_home: Path) -> None:
    source = write_tiny(tmp_path / "tiny.gguf")
    code = textwrap.dedent(f"""
        from pathlib import Path
        from rlm.models.local.gguf import as_mlx
        told = []
        print(as_mlx(Path({str(source)!r}), progress=lambda done, total: told.append(done)), len(told) > 0)
    """)
    running = [subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True) for _ in range(3)]
    said = [one.communicate()[0].split() for one in running]
    assert len({path for path, _ in said}) == 1
    assert sorted(did for _, did in said) == ["False", "False", "True"]


def test_a_killed_conversion_leaves_no_model_and_no_lock(tmp_path: Path, own_home: Path) -> None:
    source = write_tiny(tmp_path / "tiny.gguf")
    code = textwrap.dedent(f"""
        import os, signal
        from pathlib import Path
        from rlm.models.local.gguf import as_mlx
        as_mlx(Path({str(source)!r}), progress=lambda done, total: done and os.kill(os.getpid(), signal.SIGKILL))
    """)
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == -signal.SIGKILL
    left = os.listdir(own_home / "mlx")
    assert [name for name in left if not name.startswith(".")] == []
    assert any(name.endswith(".partial") for name in left)
    folder = as_mlx(source)
    assert logits(folder, [1, 2]).shape[0] == 2
    assert not any(name.endswith(".partial") for name in os.listdir(own_home / "mlx"))


def test_another_file_of_the_same_name_is_another_model(tmp_path: Path, own_home: Path) -> None:
    source = write_tiny(tmp_path / "tiny.gguf", seed=1)
    first = as_mlx(source)
    write_tiny(source, seed=2)
    assert as_mlx(source) != first


def test_what_cannot_be_converted_raises_and_leaves_nothing(tmp_path: Path, own_home: Path) -> None:
    source = write_tiny(tmp_path / "odd.gguf", architecture="gemma3")
    with pytest.raises(WeightsError, match=r"'gemma3'; llama, qwen2 are converted for MLX. Run it with llama.cpp"):
        as_mlx(source)
    assert [name for name in os.listdir(own_home / "mlx") if not name.endswith(".lock")] == []
    with pytest.raises(WeightsError, match="there is no file"):
        as_mlx(tmp_path / "none.gguf")
