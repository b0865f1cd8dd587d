"""The cache of converted models on disk. Each GGUF file is converted once, and a folder appears only when complete."""

from __future__ import annotations

import hashlib
import os
import re
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from ....files import FileLock, home
from .errors import WeightsError
from .reader import Gguf

if TYPE_CHECKING:
    from .mlx_folder import Form

_VERSION = 1
"""Raise this when the conversion changes, so that models are converted again."""

_LARGE = 600_000_000
"""Bytes of a file whose weights would take several gigabytes as plain floats."""

_ENDS, _SAMPLE, _SAMPLES = 1 << 20, 1 << 16, 32


def as_mlx(gguf: Path, *, progress: Callable[[int, int], None] | None = None) -> Path:
    """Return the MLX folder of a GGUF file: from the cache, or converted now, without network.

    `progress` is called with the converted bytes and the total. Of two processes that need the same model, one converts
    it. A conversion that is killed leaves nothing that looks like a model.
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
                _convert(gguf, target, form, progress or (lambda done, total: None))
    except OSError as error:
        raise WeightsError(
            f"{gguf.name} could not be converted into {target.parent} ({error.strerror or error})"
        ) from None
    return target


def _form(size: int) -> Form:
    """Return the form that runs fastest with this machine's MLX.

    A GPU computes with quantised groups. A CPU is fastest with plain floats of 32 bits, as long as they fit in memory.
    Scales of 16 bits (BF16) are not precise enough: with them the embedded model writes nonsense.
    """
    import mlx.core as mx

    from .mlx_folder import Form

    return Form(quantised=mx.metal.is_available() or size > _LARGE, floats="F32")


def _convert(gguf: Path, target: Path, form: Form, progress: Callable[[int, int], None]) -> None:
    from .mlx_folder import write_folder

    partial = target.parent / f".{target.name}.partial"
    shutil.rmtree(partial, ignore_errors=True)  # left by a process that was killed: the lock is ours
    partial.mkdir()
    try:
        with Gguf(gguf) as file:
            write_folder(file, partial, form, progress)
        os.rename(partial, target)
    except BaseException:
        shutil.rmtree(partial, ignore_errors=True)
        raise


def _fingerprint(path: Path) -> str:
    """Return a fingerprint of a large file: of its size, both ends, and samples of the rest."""
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
