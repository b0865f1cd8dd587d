"""Block formats against the reference implementation of GGUF, and packing against MLX itself."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from rlm.models.local.gguf.blocks import Groups, bfloat16, bits_of, grouped, unpack
from rlm.models.local.gguf.reader import FORMATS

gguf = pytest.importorskip("gguf")
quants = pytest.importorskip("gguf.quants")

QUANTISED = [name for name, _, _ in FORMATS.values() if name.startswith("Q")]
# Where each format keeps numbers of 16 bits, which random bytes would make infinite.
HALVES = {"Q4_0": (0,), "Q5_0": (0,), "Q8_0": (0,), "Q6_K": (208,)}


def random_blocks(kind: str, count: int = 64) -> Any:
    rng = np.random.default_rng(sum(map(ord, kind)))
    size = next(size for name, _, size in FORMATS.values() if name == kind)
    blocks = rng.integers(0, 256, (count, size), dtype=np.uint8)
    for place in HALVES.get(kind, (0, 2)):
        blocks[:, place : place + 2] = rng.normal(0, 0.02, (count, 1)).astype(np.float16).view(np.uint8)
    return blocks


def reference(kind: str, blocks: Any) -> Any:
    return quants.dequantize(blocks.reshape(1, -1), gguf.GGMLQuantizationType[kind]).reshape(-1)


@pytest.mark.parametrize("kind", [kind for kind in QUANTISED if kind != "Q6_K"])
def test_groups_hold_exactly_the_weights_of_the_file(kind: str) -> None:
    blocks = random_blocks(kind)
    groups = unpack(kind, blocks.tobytes())
    assert isinstance(groups, Groups)
    assert groups.bits == bits_of(kind)
    np.testing.assert_array_equal(groups.dense().reshape(-1), reference(kind, blocks))


def test_six_bits_are_rounded_to_eight_within_a_quarter_of_their_step() -> None:
    blocks = random_blocks("Q6_K")
    groups = unpack("Q6_K", blocks.tobytes())
    assert isinstance(groups, Groups)
    wrong = np.abs(groups.dense().reshape(-1) - reference("Q6_K", blocks)).reshape(-1, 32).max(axis=1)
    halves = np.ascontiguousarray(blocks[:, 208:]).view(np.float16).astype(np.float32)
    steps = np.abs(halves * np.ascontiguousarray(blocks[:, 192:208]).view(np.int8)).reshape(-1, 2).max(axis=1)
    assert (wrong <= steps / 4 + 1e-7).all()
    assert bits_of("Q6_K") == groups.bits == 8


@pytest.mark.parametrize("kind", QUANTISED)
def test_mlx_reads_the_same_weights_from_what_is_packed(kind: str) -> None:
    mx = pytest.importorskip("mlx.core")
    groups = unpack(kind, random_blocks(kind).tobytes())
    assert isinstance(groups, Groups)
    scales, offsets = mx.array(groups.scales[:, None]), mx.array(groups.offsets[:, None])
    read = mx.dequantize(mx.array(groups.packed()), scales, offsets, group_size=32, bits=groups.bits)
    np.testing.assert_allclose(np.array(read), groups.dense(), rtol=1e-6, atol=1e-7)


@pytest.mark.parametrize("kind", ["F32", "F16", "BF16"])
def test_plain_numbers_are_read_as_they_are(kind: str) -> None:
    values = np.random.default_rng(1).normal(size=64).astype(np.float32)
    raw = {"F32": values, "F16": values.astype(np.float16), "BF16": bfloat16(values)}[kind].tobytes()
    np.testing.assert_allclose(unpack(kind, raw), values, rtol={"F32": 0, "F16": 1e-3, "BF16": 2**-8}[kind])


def test_bfloat16_rounds_to_the_nearest() -> None:
    values = np.array([1.0, 1.0 + 2**-8 + 2**-12, -3.1415927, 0.0], np.float32)
    back = (bfloat16(values).astype(np.uint32) << 16).view(np.float32)
    assert back.tolist() == [1.0, 1.0078125, -3.140625, 0.0]


def test_equal_weights_can_be_grouped() -> None:
    np.testing.assert_allclose(grouped(np.full(64, 0.25, np.float32)).dense(), 0.25)
