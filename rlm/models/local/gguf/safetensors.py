"""Safetensors files: reading their headers, and creating files of known shapes that are filled in place."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from .errors import WeightsError

# By the name in the file: numpy's name and the size. numpy has no BF16; its bits are whole numbers here.
_TYPES = {"F32": ("float32", 4), "BF16": ("uint16", 2), "U32": ("uint32", 4)}


@dataclass(frozen=True, slots=True)
class Slot:
    """The place of one tensor."""

    name: str
    type: str
    shape: tuple[int, ...]

    @property
    def size(self) -> int:
        """The size in bytes."""
        return math.prod(self.shape) * _TYPES[self.type][1]


def read_header(path: Path) -> dict[str, Any]:
    """Return the tensors of a file by name. Raises `WeightsError` if the header shows that the file is damaged."""
    try:
        size = path.stat().st_size
        with path.open("rb") as file:
            length = int.from_bytes(file.read(8), "little")
            if size < 8 or length > size - 8:
                raise WeightsError(f"{path} is not a safetensors file, or only the beginning of one; get it again")
            header = json.loads(file.read(length))
        tensors = {name: tensor for name, tensor in header.items() if name != "__metadata__"}
        end = max((tensor["data_offsets"][1] for tensor in tensors.values() if tensor["dtype"]), default=0)
    except OSError as error:
        raise WeightsError(f"{path} cannot be read: {error.strerror or error}") from None
    except (ValueError, TypeError, AttributeError, LookupError) as error:
        raise WeightsError(f"{path} is damaged: its header cannot be read ({error!r}); get it again") from None
    if 8 + length + end > size:
        raise WeightsError(f"{path} is cut off: it has {size} bytes of {8 + length + end}; get it again")
    return tensors


def check_weights(folder: Path) -> None:
    """Raise `WeightsError` for the first safetensors file of a folder that is damaged."""
    for file in sorted(folder.glob("*.safetensors")):
        read_header(file)


def create(path: Path, slots: Sequence[Slot]) -> dict[str, Any]:
    """Create a file for some tensors. Return the arrays to write them into, which are flushed by the caller."""
    import numpy as np  # headers are also read where it is not installed: not every backend brings it

    header: dict[str, Any] = {"__metadata__": {"format": "mlx"}}
    at = 0
    for slot in slots:
        offsets = [at, at + slot.size]
        header[slot.name] = {"dtype": slot.type, "shape": list(slot.shape), "data_offsets": offsets}
        at += slot.size
    head = json.dumps(header).encode()
    head += b" " * (-len(head) % 8)
    with path.open("wb") as file:
        file.write(len(head).to_bytes(8, "little") + head)
        file.truncate(8 + len(head) + at)
    begin = 8 + len(head)
    return {
        slot.name: np.memmap(path, _TYPES[slot.type][0], "r+", begin + header[slot.name]["data_offsets"][0], slot.shape)
        for slot in slots
    }
