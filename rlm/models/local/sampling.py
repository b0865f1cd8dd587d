"""Choosing a token from scores, in NumPy: for backends that leave that to the caller."""

from __future__ import annotations

from typing import Any

import numpy as np

from .decoding import Pick
from .types import Settings

Scores = np.ndarray[Any, Any]

_BITS = np.array([[(byte >> bit) & 1 for bit in range(8)] for byte in range(256)], dtype=np.bool_)


def unpacked(allowed: bytes, size: int) -> Scores:
    """One truth value a token. A model may have more rows than its tokenizer has tokens: those are never allowed."""
    bits = _BITS[np.frombuffer(allowed, dtype=np.uint8)].reshape(-1)
    return bits[:size] if len(bits) >= size else np.pad(bits, (0, size - len(bits)))


def numpy_picker(settings: Settings) -> Pick:
    """The likeliest token at a temperature of 0, or one drawn within top_k and top_p."""
    random = np.random.default_rng(settings.seed)

    def pick(scores: Scores, allowed: bytes | None) -> int:
        if allowed is not None:
            scores = np.where(unpacked(allowed, len(scores)), scores, -np.inf)
        if settings.temperature == 0:
            return int(scores.argmax())
        return _drawn(scores / settings.temperature, settings, random)

    return pick


def _drawn(scores: Scores, settings: Settings, random: np.random.Generator) -> int:
    order = np.argsort(scores)[::-1]
    if settings.top_k:
        order = order[: settings.top_k]
    chances = np.exp(scores[order] - scores[order[0]])
    chances /= chances.sum()
    if settings.top_p < 1:
        inside = int(np.searchsorted(chances.cumsum(), settings.top_p)) + 1
        order, chances = order[:inside], chances[:inside] / chances[:inside].sum()
    return int(random.choice(order, p=chances))
