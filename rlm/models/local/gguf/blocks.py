"""The block formats of GGUF, and the quantisation groups of MLX.

Most of GGUF's formats are equivalent to MLX's affine groups of 32: a weight is a small whole number times a scale plus
an offset. So they are repacked without rounding, and the model stays the one that was published. Only Q6_K, whose
groups have 16 weights, is rounded, to 8 bits, which is finer than its own.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

GROUP = 32
Floats = NDArray[np.float32]
Bytes = NDArray[np.uint8]


@dataclass(frozen=True, slots=True)
class Groups:
    """Weights as whole numbers in groups of 32, each with a scale and an offset."""

    codes: Bytes
    """An array of shape (groups, 32)."""

    scales: Floats
    offsets: Floats
    bits: int

    def dense(self) -> Floats:
        """Return the weights as floats."""
        return self.codes * self.scales[:, None] + self.offsets[:, None]

    def packed(self) -> NDArray[np.uint32]:
        """Return the codes as MLX packs them: one after the other, the low bits first."""
        if self.bits == 8:
            return np.ascontiguousarray(self.codes).view(np.uint32)
        spread = np.unpackbits(self.codes[:, :, None], axis=2, count=self.bits, bitorder="little")
        return np.packbits(spread.reshape(len(self.codes), -1), axis=1, bitorder="little").view(np.uint32)


def bits_of(kind: str) -> int | None:
    """Return the bits of a weight in MLX's groups; None for formats of plain floats."""
    return {"4": 4, "5": 5, "6": 8, "8": 8}[kind[1]] if kind.startswith("Q") else None


def unpack(kind: str, raw: bytes) -> Groups | Floats:
    """Return the weights in whole blocks of a format."""
    return _READERS[kind](np.frombuffer(raw, np.uint8))


def grouped(weights: Floats) -> Groups:
    """Return weights rounded to 8 bits."""
    rows = weights.reshape(-1, GROUP)
    low, high = rows.min(axis=1), rows.max(axis=1)
    scales = np.maximum((high - low) / 255, np.float32(1e-12))
    codes = np.clip(np.rint((rows - low[:, None]) / scales[:, None]), 0, 255).astype(np.uint8)
    return Groups(codes, scales, low, 8)


def bfloat16(values: Floats) -> NDArray[np.uint16]:
    """Return floats as bfloat16, rounded to the nearest."""
    whole = np.ascontiguousarray(values, np.float32).view(np.uint32)
    return ((whole + 0x7FFF + ((whole >> 16) & 1)) >> 16).astype(np.uint16)


def _half(raw: Bytes) -> Floats:
    return np.ascontiguousarray(raw).view(np.float16).astype(np.float32).reshape(-1)


def _nibbles(raw: Bytes) -> Bytes:
    """Return the low halves of bytes, then the high ones."""
    return np.concatenate([raw & 15, raw >> 4], axis=-1)


def _fifth_bits(raw: Bytes) -> Bytes:
    return np.unpackbits(raw, axis=-1, bitorder="little") << np.uint8(4)


def _q4_0(raw: Bytes) -> Groups:
    blocks = raw.reshape(-1, 18)
    scales = _half(blocks[:, :2])
    return Groups(_nibbles(blocks[:, 2:]), scales, -8 * scales, 4)


def _q4_1(raw: Bytes) -> Groups:
    blocks = raw.reshape(-1, 20)
    return Groups(_nibbles(blocks[:, 4:]), _half(blocks[:, :2]), _half(blocks[:, 2:4]), 4)


def _q5_0(raw: Bytes) -> Groups:
    blocks = raw.reshape(-1, 22)
    scales = _half(blocks[:, :2])
    return Groups(_nibbles(blocks[:, 6:]) | _fifth_bits(blocks[:, 2:6]), scales, -16 * scales, 5)


def _q5_1(raw: Bytes) -> Groups:
    blocks = raw.reshape(-1, 24)
    codes = _nibbles(blocks[:, 8:]) | _fifth_bits(blocks[:, 4:8])
    return Groups(codes, _half(blocks[:, :2]), _half(blocks[:, 2:4]), 5)


def _q8_0(raw: Bytes) -> Groups:
    blocks = raw.reshape(-1, 34)
    scales = _half(blocks[:, :2])
    return Groups(blocks[:, 2:] ^ np.uint8(0x80), scales, -128 * scales, 8)  # from -128..127 to 0..255


def _k_scales(blocks: Bytes) -> tuple[Floats, Floats]:
    """Return the scales and offsets of the eight groups of Q4_K and Q5_K: 6 bits each, times one number per block."""
    packed = blocks[:, 4:16]
    first, second, third = packed[:, :4], packed[:, 4:8], packed[:, 8:]
    scales = np.concatenate([first & 63, (third & 15) | (first >> 6 << 4)], axis=1)
    offsets = np.concatenate([second & 63, (third >> 4) | (second >> 6 << 4)], axis=1)
    return (
        (_half(blocks[:, :2])[:, None] * scales).reshape(-1),
        (-_half(blocks[:, 2:4])[:, None] * offsets).reshape(-1),
    )


def _q4_k(raw: Bytes) -> Groups:
    blocks = raw.reshape(-1, 144)
    codes = _nibbles(blocks[:, 16:].reshape(-1, 4, 32))
    return Groups(codes.reshape(-1, GROUP), *_k_scales(blocks), 4)


def _q5_k(raw: Bytes) -> Groups:
    blocks = raw.reshape(-1, 176)
    low = _nibbles(blocks[:, 48:].reshape(-1, 4, 32)).reshape(-1, 8, GROUP)
    # Bit g of byte i is the fifth bit of weight i in group g.
    high = (blocks[:, None, 16:48] >> np.arange(8, dtype=np.uint8)[None, :, None]) & np.uint8(1)
    return Groups((low | (high << np.uint8(4))).reshape(-1, GROUP), *_k_scales(blocks), 5)


def _q6_k(raw: Bytes) -> Groups:
    blocks = raw.reshape(-1, 210)
    low = _nibbles(blocks[:, :128].reshape(-1, 2, 64))  # halves of 128 weights
    shifts = np.array([0, 2, 4, 6], np.uint8)[:, None]
    high = (blocks[:, 128:192].reshape(-1, 2, 1, 32) >> shifts & 3).reshape(-1, 2, 128)
    codes = (low | (high << 4)).reshape(-1, 16, 16).astype(np.float32) - 32
    scales = np.ascontiguousarray(blocks[:, 192:208]).view(np.int8).astype(np.float32)
    return grouped(_half(blocks[:, 208:])[:, None, None] * scales[:, :, None] * codes)


def _bf16(raw: Bytes) -> Floats:
    return (raw.view(np.uint16).astype(np.uint32) << 16).view(np.float32)


_READERS: dict[str, Callable[[Any], Groups | Floats]] = {
    "F32": lambda raw: raw.view(np.float32),
    "F16": _half,
    "BF16": _bf16,
    "Q4_0": _q4_0,
    "Q4_1": _q4_1,
    "Q5_0": _q5_0,
    "Q5_1": _q5_1,
    "Q8_0": _q8_0,
    "Q4_K": _q4_k,
    "Q5_K": _q5_k,
    "Q6_K": _q6_k,
}
