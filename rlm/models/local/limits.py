"""What fits: a prompt into a context, weights into memory."""

from __future__ import annotations

import json
import os
from pathlib import Path

from .errors import DoesNotFit

DEFAULT_CONTEXT = 8192

_SPARE = 256 * 1024 * 1024


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
    if free is not None and size + _SPARE > free:
        raise DoesNotFit(
            f"{weights} needs about {(size + _SPARE) / 1e9:.1f} GB of memory and {free / 1e9:.1f} GB are free. "
            "Use a smaller model or one with fewer bits a weight."
        )


def free_memory() -> int | None:
    """Bytes that new work can have on this machine, within the limits of its container; None where it can't be told."""
    found = [value for value in (_available(), _cgroup_room()) if value is not None]
    return min(found, default=None)


def _files(weights: Path) -> list[Path]:
    return sorted(weights.glob("*.safetensors")) if weights.is_dir() else [weights]


def _is_half(file: Path) -> bool:
    """Whether all weights in a safetensors file have 16 bits. Its header says so, after its own length."""
    with file.open("rb") as content:
        header = json.loads(content.read(int.from_bytes(content.read(8), "little")))
    kinds = [tensor["dtype"] for name, tensor in header.items() if name != "__metadata__"]
    return bool(kinds) and all(kind in ("BF16", "F16") for kind in kinds)


def _available() -> int | None:
    try:
        lines = Path("/proc/meminfo").read_text(encoding="ascii").splitlines()
    except OSError:
        return _total_memory()
    return next((int(line.split()[1]) * 1024 for line in lines if line.startswith("MemAvailable:")), None)


def _total_memory() -> int | None:
    # macOS gives back file pages and compresses the rest, so what counts there is what the machine has.
    try:
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (ValueError, OSError):
        return None


def _cgroup_room() -> int | None:
    group = Path("/sys/fs/cgroup")
    try:
        most = (group / "memory.max").read_text(encoding="ascii").strip()
        used = int((group / "memory.current").read_text(encoding="ascii"))
        stats = dict(line.split() for line in (group / "memory.stat").read_text(encoding="ascii").splitlines())
    except (OSError, ValueError):
        return None
    # Pages of files are counted as used there, and are given back when something else needs them.
    return None if most == "max" else int(most) - used + int(stats.get("inactive_file", 0))
