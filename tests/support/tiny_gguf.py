"""A GGUF file of a few kilobytes with random weights: enough to be read, converted and refused."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from gguf import GGMLQuantizationType, GGUFWriter
from gguf.quants import quantize

WIDTH, INNER, HEADS, KEYS = 64, 128, 4, 2


def write_tiny(path: Path, architecture: str = "llama", seed: int = 0) -> Path:
    """Write the file."""
    rng = np.random.default_rng(seed)
    letters = [chr(code) for code in [*range(33, 127), *range(161, 173), *range(174, 256)]]
    letters += [chr(256 + number) for number in range(256 - len(letters))]  # bytes, as GPT-2 spells them
    tokens = ["<|endoftext|>", "<|im_end|>", *letters, "th", "the"]
    writer = GGUFWriter(str(path), architecture)
    writer.add_file_type(3)
    writer.add_context_length(128)
    writer.add_embedding_length(WIDTH)
    writer.add_block_count(1)
    writer.add_feed_forward_length(INNER)
    writer.add_head_count(HEADS)
    writer.add_head_count_kv(KEYS)
    writer.add_layer_norm_rms_eps(1e-5)
    writer.add_rope_freq_base(10000.0)
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre("smollm")
    writer.add_token_list(tokens)
    writer.add_token_types([3, 3] + [1] * (len(tokens) - 2))
    writer.add_token_merges(["t h", "th e"])
    writer.add_bos_token_id(0)
    writer.add_eos_token_id(1)
    writer.add_chat_template("{% for m in messages %}{{ m['content'] }}<|im_end|>{% endfor %}")

    def add(name: str, shape: tuple[int, ...], kind: str) -> None:
        values = rng.normal(0, 0.1, shape).astype(np.float32)
        if kind == "F32":
            writer.add_tensor(name, values)
        else:
            number = GGMLQuantizationType[kind]
            writer.add_tensor(name, quantize(values, number), raw_dtype=number)

    add("token_embd.weight", (len(tokens), WIDTH), "Q8_0")
    add("output_norm.weight", (WIDTH,), "F32")
    for name, rows, columns in (
        ("attn_q", WIDTH, WIDTH),
        ("attn_k", WIDTH // HEADS * KEYS, WIDTH),
        ("attn_v", WIDTH // HEADS * KEYS, WIDTH),
        ("attn_output", WIDTH, WIDTH),
        ("ffn_gate", INNER, WIDTH),
        ("ffn_up", INNER, WIDTH),
        ("ffn_down", WIDTH, INNER),
    ):
        add(f"blk.0.{name}.weight", (rows, columns), "Q4_1")
    for name in ("attn_norm", "ffn_norm"):
        add(f"blk.0.{name}.weight", (WIDTH,), "F32")
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path
