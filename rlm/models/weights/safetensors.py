"""Writing a safetensors file of known shapes, so that its tensors can be filled in place, in any order."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

# By the name in the file. numpy has no BF16; its bits are kept as whole numbers.
_TYPES: dict[str, Any] = {"F32": np.float32, "BF16": np.uint16, "U32": np.uint32}


@dataclass(frozen=True, slots=True)
class Slot:
    """Room for one tensor."""

    name: str
    type: str
    shape: tuple[int, ...]

    @property
    def size(self) -> int:
        """In bytes."""
        return math.prod(self.shape) * int(np.dtype(_TYPES[self.type]).itemsize)


def create(path: Path, slots: Sequence[Slot]) -> dict[str, Any]:
    """A new file with room for some tensors, and the arrays to write them into. Flush them when they are full."""
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
        slot.name: np.memmap(path, _TYPES[slot.type], "r+", begin + header[slot.name]["data_offsets"][0], slot.shape)
        for slot in slots
    }
