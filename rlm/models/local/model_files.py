"""What a model on disk is, from the first bytes of its files."""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

from .gguf import WeightsError
from .gguf.reader import Gguf

# What GGUF files say of themselves, by number.
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
    """What is known of a model without loading it."""

    path: Path
    format: str
    """`GGUF Q4_K_M`, `MLX 4 bit`, ..."""

    architecture: str
    size: int
    """Bytes on disk."""

    context: int | None = None
    parameters: int | None = None
    """Where the file says it without much reading."""

    not_for_mlx: str | None = None
    """Why MLX cannot have it; None where it can."""

    @property
    def is_gguf(self) -> bool:
        """One file, for llama.cpp or to be converted."""
        return self.format.startswith("GGUF")


def examine(path: Path) -> Facts:
    """What a GGUF file or a model folder is. `WeightsError` if it is neither."""
    if path.is_dir():
        return _folder(path)
    if not path.exists():
        raise WeightsError(f"there is no file or folder {path}")
    with Gguf(path) as gguf:
        return _gguf(gguf)


def _gguf(gguf: Gguf) -> Facts:
    if "general.architecture" not in gguf.fields or not gguf.tensors:
        raise WeightsError(f"{gguf.path} is GGUF but no language model: it names no architecture, or has no weights")
    if "tokenizer.ggml.tokens" not in gguf.fields:
        raise WeightsError(f"{gguf.path} has no tokenizer: it is a part of a model, or none")
    kinds = Counter(one.format for one in gguf.tensors.values() if len(one.shape) > 1)
    kind = _FILE_TYPES.get(gguf.fields.get("general.file_type", -1)) or kinds.most_common(1)[0][0]
    return Facts(
        path=gguf.path,
        format=f"GGUF {kind}",
        architecture=gguf.architecture,
        size=gguf.path.stat().st_size,
        context=gguf.own("context_length"),
        parameters=gguf.parameters,
        not_for_mlx=_not_convertible(gguf),
    )


def _not_convertible(gguf: Gguf) -> str | None:
    from .gguf.mlx_folder import check_convertible

    try:
        check_convertible(gguf)
    except WeightsError as error:
        return str(error)
    return None


def _folder(path: Path) -> Facts:
    weights = sorted(path.glob("*.safetensors"))
    missing = [name for name in ("config.json", "tokenizer.json") if not (path / name).is_file()]
    if not weights or missing:
        lacks = ", ".join([*missing, *([] if weights else ["*.safetensors"])])
        raise WeightsError(f"{path} is no folder of a model: it has no {lacks}")
    try:
        config = json.loads((path / "config.json").read_text(encoding="utf-8"))
        kind = str(config["model_type"])
        bits = config.get("quantization", {}).get("bits")
    except (OSError, ValueError, KeyError, AttributeError) as error:
        raise WeightsError(f"{path / 'config.json'} cannot be read ({type(error).__name__}: {error})") from None
    form = (
        f"MLX {bits} bit" if bits else f"safetensors {config.get('torch_dtype') or config.get('dtype') or ''}".strip()
    )
    from .gguf.safetensors import check_weights

    check_weights(path)
    size = sum(file.stat().st_size for file in weights)
    return Facts(path, form, kind, size, config.get("max_position_embeddings"))
