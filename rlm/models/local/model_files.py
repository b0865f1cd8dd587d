"""Facts about a model on disk, from the headers of its files."""

from __future__ import annotations

import functools
import json
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

from .gguf import WeightsError
from .gguf.reader import Gguf

# `general.file_type` of GGUF files.
_FILE_TYPES = {
    0: "F32",
    1: "F16",
    2: "Q4_0",
    3: "Q4_1",
    7: "Q8_0",
    8: "Q5_0",
    9: "Q5_1",
    10: "Q2_K",
    11: "Q3_K_S",
    12: "Q3_K_M",
    13: "Q3_K_L",
    14: "Q4_K_S",
    15: "Q4_K_M",
    16: "Q5_K_S",
    17: "Q5_K_M",
    18: "Q6_K",
    32: "BF16",
}


@dataclass(frozen=True, slots=True)
class Facts:
    """A model on disk, as far as it is known without loading it."""

    path: Path
    format: str
    """`GGUF Q4_K_M`, `MLX 4 bit`, ..."""

    architecture: str
    size: int
    """Bytes on disk."""

    context: int | None = None
    parameters: int | None = None
    """None where the header does not say it."""

    not_for_mlx: str | None = None
    """Why a GGUF file cannot be converted for MLX; None where it can."""

    @property
    def is_gguf(self) -> bool:
        """Whether it is a GGUF file, for llama.cpp or to be converted for MLX."""
        return self.format.startswith("GGUF")


def examine(path: Path) -> Facts:
    """Return the facts about a GGUF file or a model folder. Raises `WeightsError` if it is neither."""
    if path.is_dir():
        return _folder(path)
    if not path.exists():
        raise WeightsError(f"there is no file or folder {path}")
    status = path.stat()
    return _file(path, status.st_size, status.st_mtime_ns)


@functools.lru_cache(maxsize=32)
def _file(path: Path, size: int, changed: int) -> Facts:
    """Read a GGUF file once for each change: a header with a large vocabulary takes part of a second."""
    with Gguf(path) as gguf:
        return _gguf(gguf)


def _gguf(gguf: Gguf) -> Facts:
    if "general.architecture" not in gguf.fields or not gguf.tensors:
        raise WeightsError(f"{gguf.path} is GGUF but not a language model: it names no architecture, or has no weights")
    if "tokenizer.ggml.tokens" not in gguf.fields:
        raise WeightsError(f"{gguf.path} has no tokenizer: it is only a part of a model")
    kinds = Counter(tensor.format for tensor in gguf.tensors.values() if len(tensor.shape) > 1)
    kind = _FILE_TYPES.get(gguf.fields.get("general.file_type", -1)) or kinds.most_common(1)[0][0]
    return Facts(
        path=gguf.path,
        format=f"GGUF {kind}",
        architecture=gguf.architecture,
        size=gguf.path.stat().st_size,
        context=gguf.architecture_field("context_length"),
        parameters=gguf.parameters,
        not_for_mlx=_not_convertible(gguf),
    )


def _not_convertible(gguf: Gguf) -> str | None:
    try:
        from .gguf.mlx_folder import check_convertible
    except ModuleNotFoundError as error:  # numpy, which the backends for GGUF files do without
        return f"{error.name} is not installed, which the conversion for MLX needs; run it with llama.cpp"
    try:
        check_convertible(gguf)
    except WeightsError as error:
        return str(error)
    return None


def _folder(path: Path) -> Facts:
    from .gguf.safetensors import check_weights

    check_weights(path)
    weights = sorted(path.glob("*.safetensors"))
    missing = [] if (path / "config.json").is_file() else ["config.json"]
    missing += [] if any(path.glob("tokenizer*")) else ["tokenizer.json"]
    missing += [] if weights else ["*.safetensors"]
    if missing:
        raise WeightsError(f"{path} is not a model folder: it has no {', '.join(missing)}")
    try:
        config = json.loads((path / "config.json").read_text(encoding="utf-8"))
        architecture = str(config["model_type"])
        bits = config.get("quantization", {}).get("bits")
    except (OSError, ValueError, KeyError, AttributeError) as error:
        raise WeightsError(f"{path / 'config.json'} cannot be read ({type(error).__name__}: {error})") from None
    dtype = config.get("torch_dtype") or config.get("dtype") or ""
    label = f"MLX {bits} bit" if bits else f"safetensors {dtype}".strip()
    return Facts(path, label, architecture, weights_size(path), config.get("max_position_embeddings"))


def weights_size(path: Path, *, as_float32: bool = False) -> int:
    """Return the bytes of the weights of a model; `as_float32` counts 16-bit weights as twice as wide."""
    files = sorted(path.glob("*.safetensors")) if path.is_dir() else [path]
    return sum(file.stat().st_size * (2 if as_float32 and _is_half(file) else 1) for file in files)


def _is_half(file: Path) -> bool:
    """Return whether all weights in a safetensors file have 16 bits. Raises `WeightsError` where it is damaged."""
    from .gguf.safetensors import read_header

    types = [tensor["dtype"] for tensor in read_header(file).values()]
    return bool(types) and all(dtype in ("BF16", "F16") for dtype in types)
