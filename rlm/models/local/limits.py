"""What fits: a prompt into a context, weights into memory."""

from __future__ import annotations

import os
from pathlib import Path

from .errors import DoesNotFit, LocalModelError
from .memory import SPARE, free_memory
from .types import Settings

DEFAULT_CONTEXT = 8192
LEAST_CONTEXT = 256
SMALL = 4_500_000_000


def check_numbers(context: int | None, parallel: int, threads: int | None) -> None:
    """Raise `LocalModelError` for numbers that no backend can do with."""
    least = (("context", context, LEAST_CONTEXT), ("parallel", parallel, 1), ("threads", threads, 1))
    for name, given, smallest in least:
        if given is not None and given < smallest:
            raise LocalModelError(f"{name} is {given}; it has to be at least {smallest}")


def check_penalties(settings: Settings, name: str) -> None:
    """Raise dspy's error for settings that only llama.cpp's server has."""
    given = [one for one in ("frequency_penalty", "presence_penalty") if getattr(settings, one)]
    if not given:
        return
    from dspy.utils.exceptions import LMUnsupportedFeatureError

    raise LMUnsupportedFeatureError(
        message=f"{name} has no {' and no '.join(given)}: leave it out, or run a GGUF file on llama.cpp's server",
        model=name,
        features=given,
    )


def check_context(prompt_tokens: int, context: int, name: str) -> None:
    """Raise dspy's context error, before anything is computed, if the prompt leaves no room for an answer."""
    if prompt_tokens < context:
        return
    from dspy.utils.exceptions import ContextWindowExceededError

    raise ContextWindowExceededError(
        message=f"the prompt has {prompt_tokens} tokens and {name} has a context of {context}", model=name
    )


def room_for(max_tokens: int, prompt_tokens: int, context: int) -> int:
    """How many tokens may be written."""
    return min(max_tokens, context - prompt_tokens)


def threads() -> int:
    """How many threads compute: half the processors, which on most machines are the real cores.

    The threads wait for one another at every layer: with one on each processor, any other busy process slows them all.
    """
    return max(1, (os.cpu_count() or 2) // 2)


def check_memory(weights: Path, *, as_float32: bool = False) -> None:
    """Raise `DoesNotFit` if the weights need more memory than is free; shorter floats may be widened to float32."""
    free = free_memory()
    size = sum(file.stat().st_size * (2 if as_float32 and _is_half(file) else 1) for file in _files(weights))
    if free is not None and size + SPARE > free:
        raise DoesNotFit(
            f"{weights} needs about {(size + SPARE) / 1e9:.1f} GB of memory and {free / 1e9:.1f} GB are free. "
            "Use a smaller model or one with fewer bits a weight."
        )


def is_small(weights: Path) -> bool:
    """Whether the weights are those of a small model: about seven billion parameters of four bits, or fewer."""
    return sum(file.stat().st_size for file in _files(weights)) < SMALL


def _files(weights: Path) -> list[Path]:
    return sorted(weights.glob("*.safetensors")) if weights.is_dir() else [weights]


def _is_half(file: Path) -> bool:
    """Whether all weights in a safetensors file have 16 bits. `WeightsError` where it is damaged."""
    from .gguf.safetensors import read_header

    kinds = [tensor["dtype"] for tensor in read_header(file).values()]
    return bool(kinds) and all(kind in ("BF16", "F16") for kind in kinds)
