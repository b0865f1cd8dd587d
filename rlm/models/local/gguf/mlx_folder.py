"""The conversion of a GGUF file to an MLX folder: weights, configuration and tokenizer, in small pieces."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .blocks import GROUP, Groups, bfloat16, bits_of, unpack
from .errors import WeightsError
from .reader import FORMATS, Gguf, Tensor
from .safetensors import Slot, create
from .tokenizer import check_tokenizer, end_tokens, write_tokenizer

ARCHITECTURES = {"llama": "LlamaForCausalLM", "qwen2": "Qwen2ForCausalLM"}

_LAYER = {
    "attn_q": "self_attn.q_proj",
    "attn_k": "self_attn.k_proj",
    "attn_v": "self_attn.v_proj",
    "attn_output": "self_attn.o_proj",
    "ffn_gate": "mlp.gate_proj",
    "ffn_up": "mlp.up_proj",
    "ffn_down": "mlp.down_proj",
    "attn_norm": "input_layernorm",
    "ffn_norm": "post_attention_layernorm",
}
_TOP = {"token_embd": "model.embed_tokens", "output_norm": "model.norm", "output": "lm_head"}
_PIECE = 1 << 22  # weights that are converted at a time


@dataclass(frozen=True, slots=True)
class Form:
    """The form of converted weights: quantised as in the file or plain floats, and the type of the floats."""

    quantised: bool
    floats: str
    """`F32` or `BF16`."""

    def __str__(self) -> str:
        return f"{'groups' if self.quantised else 'plain'}-{self.floats.lower()}"


def check_convertible(gguf: Gguf) -> None:
    """Raise `WeightsError` if a file has parts that cannot be converted."""
    name = gguf.path.name
    if gguf.architecture not in ARCHITECTURES:
        known = ", ".join(ARCHITECTURES)
        raise WeightsError(
            f"{name} has the architecture {gguf.architecture!r}; {known} are converted for MLX. Run it with llama.cpp"
        )
    names = {kind for kind, _, _ in FORMATS.values()}
    for tensor in gguf.tensors.values():
        if tensor.format not in names:
            raise WeightsError(
                f"{name}: {tensor.name} has a format ({tensor.format}) that is not converted for MLX; "
                "run it with llama.cpp, or get the file as Q4_K_M or Q8_0"
            )
        _target(gguf, tensor)
    if gguf.architecture_field("rope.scaling.type", "none") != "none" or "rope_freqs.weight" in gguf.tensors:
        raise WeightsError(f"{name} scales its positions, which is not converted for MLX; run it with llama.cpp")
    check_tokenizer(gguf)


def write_folder(gguf: Gguf, folder: Path, form: Form, progress: Callable[[int, int], None]) -> None:
    """Write the folder. `progress` is called with the converted bytes and the total."""
    check_convertible(gguf)
    slots = {slot.name: slot for tensor in gguf.tensors.values() for slot in _slots(gguf, tensor, form)}
    total, done = sum(tensor.size for tensor in gguf.tensors.values()), 0
    progress(0, total)
    arrays = create(folder / "model.safetensors", list(slots.values()))
    for tensor in gguf.tensors.values():
        for size in _convert(gguf, tensor, form, arrays):
            done += size
            progress(done, total)
    for array in arrays.values():
        array.flush()
    (folder / "config.json").write_text(json.dumps(_config(gguf, form), indent=1), encoding="utf-8")
    write_tokenizer(gguf, folder)


def _target(gguf: Gguf, tensor: Tensor) -> tuple[str, str]:
    """Return the module of a tensor in the MLX model, and its name there: `weight` or `bias`."""
    parts = tensor.name.split(".")
    if len(parts) == 2 and parts[0] in _TOP:
        return _TOP[parts[0]], parts[1]
    if len(parts) == 4 and parts[0] == "blk" and parts[2] in _LAYER:
        return f"model.layers.{parts[1]}.{_LAYER[parts[2]]}", parts[3]
    raise WeightsError(f"{gguf.path.name} has an unknown tensor {tensor.name!r}; run it with llama.cpp")


def _bits(tensor: Tensor, form: Form) -> int | None:
    """Return the bits of the converted weights; None for plain floats."""
    return bits_of(tensor.format) if form.quantised and len(tensor.shape) == 2 else None


def _slots(gguf: Gguf, tensor: Tensor, form: Form) -> list[Slot]:
    module, part = _target(gguf, tensor)
    bits = _bits(tensor, form)
    if bits is None:
        return [Slot(f"{module}.{part}", form.floats, tensor.shape)]
    rows, columns = tensor.shape
    return [
        Slot(f"{module}.weight", "U32", (rows, columns * bits // 32)),
        Slot(f"{module}.scales", form.floats, (rows, columns // GROUP)),
        Slot(f"{module}.biases", form.floats, (rows, columns // GROUP)),
    ]


def _convert(gguf: Gguf, tensor: Tensor, form: Form, arrays: dict[str, Any]) -> Iterator[int]:
    """Convert one tensor in pieces, and yield the bytes of the file in each."""
    module, part = _target(gguf, tensor)
    rows, columns = tensor.shape if len(tensor.shape) == 2 else (1, tensor.shape[0])
    order, row_bytes = _order(gguf, tensor), tensor.size // rows
    step = max(1, _PIECE // columns)
    for begin in range(0, rows, step):
        end = min(rows, begin + step)
        piece = unpack(tensor.format, gguf.raw(tensor, begin * row_bytes, end * row_bytes))
        rows_out: Any = slice(begin, end) if order is None else order[begin:end]
        if isinstance(piece, Groups) and _bits(tensor, form) is not None:
            arrays[f"{module}.weight"][rows_out] = piece.packed().reshape(end - begin, -1)
            arrays[f"{module}.scales"][rows_out] = _floats(piece.scales, form).reshape(end - begin, -1)
            arrays[f"{module}.biases"][rows_out] = _floats(piece.offsets, form).reshape(end - begin, -1)
        else:
            dense = _floats(piece.dense() if isinstance(piece, Groups) else piece, form)
            if len(tensor.shape) == 1:
                arrays[f"{module}.{part}"][:] = dense.reshape(-1)
            else:
                arrays[f"{module}.{part}"][rows_out] = dense.reshape(end - begin, columns)
        yield (end - begin) * row_bytes


def _order(gguf: Gguf, tensor: Tensor) -> NDArray[np.intp] | None:
    """Return the new place of each row. llama.cpp stores the halves of a rotated pair side by side, MLX apart."""
    heads = {"attn_q": "attention.head_count", "attn_k": "attention.head_count_kv"}
    name = heads.get(tensor.name.split(".")[2]) if tensor.name.startswith("blk.") else None
    if gguf.architecture != "llama" or name is None or len(tensor.shape) != 2:
        return None
    rows = np.arange(tensor.shape[0])
    width = tensor.shape[0] // int(gguf.architecture_field(name))
    inside = rows % width
    return rows - inside + inside % 2 * (width // 2) + inside // 2


def _floats(values: Any, form: Form) -> Any:
    return values if form.floats == "F32" else bfloat16(values)


def _config(gguf: Gguf, form: Form) -> dict[str, Any]:
    """Return `config.json`, as transformers writes it."""
    heads = gguf.architecture_field("attention.head_count")
    config: dict[str, Any] = {
        "model_type": gguf.architecture,
        "architectures": [ARCHITECTURES[gguf.architecture]],
        "hidden_size": gguf.architecture_field("embedding_length"),
        "num_hidden_layers": gguf.architecture_field("block_count"),
        "intermediate_size": gguf.architecture_field("feed_forward_length"),
        "num_attention_heads": heads,
        "num_key_value_heads": gguf.architecture_field("attention.head_count_kv", heads),
        "rms_norm_eps": gguf.architecture_field("attention.layer_norm_rms_epsilon"),
        "vocab_size": gguf.tensors["token_embd.weight"].shape[0],
        "rope_theta": gguf.architecture_field("rope.freq_base", 10000.0),
        "max_position_embeddings": gguf.architecture_field("context_length"),
        "tie_word_embeddings": "output.weight" not in gguf.tensors,
        "bos_token_id": gguf.fields.get("tokenizer.ggml.bos_token_id"),
        "eos_token_id": end_tokens(gguf),
        "pad_token_id": gguf.fields.get("tokenizer.ggml.padding_token_id"),
        "hidden_act": "silu",
        "attention_bias": False,
        "mlp_bias": False,
        "torch_dtype": "float32" if form.floats == "F32" else "bfloat16",
    }
    width = gguf.architecture_field("attention.key_length")
    if width is not None:
        config["head_dim"] = width
    if form.quantised:
        config["quantization"] = _quantization(gguf, form)
    return config


def _quantization(gguf: Gguf, form: Form) -> dict[str, Any]:
    """Return the bits of each module: a file such as Q4_K_M has several formats."""
    modules: dict[str, Any] = {"group_size": GROUP, "bits": 4}
    for tensor in gguf.tensors.values():
        bits = _bits(tensor, form)
        if bits not in (None, 4):
            modules[_target(gguf, tensor)[0]] = {"group_size": GROUP, "bits": bits}
    return modules
