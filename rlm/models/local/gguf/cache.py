"""Converted models on disk. Each GGUF file is converted once; a folder that is there is whole."""

from __future__ import annotations

import hashlib
import os
import re
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from ....files import FileLock
from ....paths import home
from .errors import WeightsError
from .reader import Gguf

if TYPE_CHECKING:
    from .mlx_folder import Form

_VERSION = 1
"""To be raised when the conversion changes: then models are converted again."""

_LARGE = 600_000_000
"""Bytes of a file whose weights, as plain numbers, would be several gigabytes."""

_ENDS, _SAMPLE, _SAMPLES = 1 << 20, 1 << 16, 32


def as_mlx(gguf: Path, *, progress: Callable[[int, int], None] | None = None) -> Path:
    """The MLX folder of a GGUF file: from the cache, or converted now. Offline.

    `progress` is called with the bytes that are done and all of them, while there is something to do. Of two processes
    that want the same model, one converts it. A conversion that was killed leaves nothing that looks like a model.
    """
    gguf = gguf.resolve()
    if not gguf.is_file():
        raise WeightsError(f"there is no file {gguf}")
    form = _form(gguf.stat().st_size)
    name = f"{_readable(gguf.stem)}-{form}-{_fingerprint(gguf)}"
    target = home() / "mlx" / name
    if target.is_dir():
        return target
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        with FileLock(target.parent / f".{name}.lock"):
            if not target.is_dir():
                _convert(gguf, target, form, progress or _ignore)
    except OSError as error:
        raise WeightsError(
            f"{gguf.name} could not be converted into {target.parent} ({error.strerror or error})"
        ) from None
    return target


def _form(size: int) -> Form:
    """What runs best on this machine's MLX.

    A GPU computes with groups. A CPU is quickest with plain numbers of 32 bits, as long as there is room for them.
    Scales of 16 bits (BF16) are not fine enough: with them the embedded model talks nonsense.
    """
    import mlx.core as mx

    from .mlx_folder import Form

    return Form(quantised=mx.metal.is_available() or size > _LARGE, floats="F32")


def _convert(gguf: Path, target: Path, form: Form, progress: Callable[[int, int], None]) -> None:
    from .mlx_folder import write_folder

    partial = target.parent / f".{target.name}.partial"
    shutil.rmtree(partial, ignore_errors=True)  # of a process that was killed: we alone have the lock
    partial.mkdir()
    try:
        with Gguf(gguf) as file:
            write_folder(file, partial, form, progress)
        os.rename(partial, target)
    except BaseException:
        shutil.rmtree(partial, ignore_errors=True)
        raise


def _fingerprint(path: Path) -> str:
    """What tells one file from another without reading gigabytes: its size, both ends, and pieces from all over it."""
    size = path.stat().st_size
    digest = hashlib.sha256(f"{_VERSION} {size}".encode())
    with path.open("rb") as file:
        digest.update(file.read(_ENDS))
        for number in range(_SAMPLES):
            file.seek(size * number // _SAMPLES)
            digest.update(file.read(_SAMPLE))
        file.seek(max(0, size - _ENDS))
        digest.update(file.read(_ENDS))
    return digest.hexdigest()[:16]


def _readable(stem: str) -> str:
    return re.sub(r"[^a-z0-9._-]+", "-", stem.lower())[:80].strip(".-") or "model"


def _ignore(done: int, total: int) -> None:
    """Nobody wants to know."""
