"""Sampling of tokens from logits in NumPy, for backends that leave it to the caller."""

from __future__ import annotations

from typing import Any

import numpy as np

from .decoding import Sampler
from .types import Settings

Logits = np.ndarray[Any, Any]

_BITS = np.array([[(byte >> bit) & 1 for bit in range(8)] for byte in range(256)], dtype=np.bool_)


def unpack_mask(mask: bytes, size: int) -> Logits:
    """Return a boolean per token. A model may have more logits than its tokenizer has tokens: those are masked."""
    bits = _BITS[np.frombuffer(mask, dtype=np.uint8)].reshape(-1)
    return bits[:size] if len(bits) >= size else np.pad(bits, (0, size - len(bits)))


def numpy_sampler(settings: Settings) -> Sampler:
    """Return a sampler: the likeliest token at a temperature of 0, else a random one within top_k and top_p."""
    random = np.random.default_rng(settings.seed)

    def sample(logits: Logits, mask: bytes | None) -> int:
        if mask is not None:
            logits = np.where(unpack_mask(mask, len(logits)), logits, -np.inf)
        if settings.temperature == 0:
            return int(logits.argmax())
        return _random_token(logits / settings.temperature, settings, random)

    return sample


def _random_token(logits: Logits, settings: Settings, random: np.random.Generator) -> int:
    order = np.argsort(logits)[::-1]
    if settings.top_k:
        order = order[: settings.top_k]
    probabilities = np.exp(logits[order] - logits[order[0]])
    probabilities /= probabilities.sum()
    if settings.top_p < 1:
        count = int(np.searchsorted(probabilities.cumsum(), settings.top_p)) + 1
        order, probabilities = order[:count], probabilities[:count] / probabilities[:count].sum()
    return int(random.choice(order, p=probabilities))
