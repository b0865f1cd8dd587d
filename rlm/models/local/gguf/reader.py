"""A reader of GGUF files: the metadata of the model, and the places of its tensors."""

from __future__ import annotations

import math
import mmap
import struct
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from .errors import WeightsError

_MAGIC = b"GGUF"
_STRING, _ARRAY = 8, 9
_SCALARS = {0: "B", 1: "b", 2: "H", 3: "h", 4: "I", 5: "i", 6: "f", 7: "?", 10: "Q", 11: "q", 12: "d"}

# By type number: the name of a format, the weights in a block and the bytes of a block.
FORMATS = {
    0: ("F32", 1, 4),
    1: ("F16", 1, 2),
    2: ("Q4_0", 32, 18),
    3: ("Q4_1", 32, 20),
    6: ("Q5_0", 32, 22),
    7: ("Q5_1", 32, 24),
    8: ("Q8_0", 32, 34),
    12: ("Q4_K", 256, 144),
    13: ("Q5_K", 256, 176),
    14: ("Q6_K", 256, 210),
    30: ("BF16", 1, 2),
}


@dataclass(frozen=True, slots=True)
class Tensor:
    """A tensor, stored row by row in blocks of a format."""

    name: str
    shape: tuple[int, ...]
    """The outermost dimension first."""

    format: str
    """A name of `FORMATS`, or `type N` for an unknown format."""

    offset: int
    size: int
    """Bytes; 0 where the format is unknown."""


class Gguf:
    """A GGUF file: its fields, and its tensors by name. Close it, or use it in a `with`."""

    def __init__(self, path: Path) -> None:
        self.path = path
        try:
            with path.open("rb") as file:
                self._map = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
        except OSError as error:
            raise WeightsError(f"{path} cannot be read ({error.strerror or error})") from None
        except ValueError:
            raise WeightsError(f"{path} is empty") from None
        try:
            self._read()
        except (struct.error, UnicodeDecodeError, IndexError, KeyError, RecursionError, MemoryError) as error:
            self.close()
            raise WeightsError(f"{path} is cut off or damaged ({type(error).__name__}); fetch it again") from None
        except WeightsError:
            self.close()
            raise

    def __enter__(self) -> Gguf:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the file."""
        self._map.close()

    @property
    def architecture(self) -> str:
        """`llama`, `qwen2`, ..."""
        return str(self.fields.get("general.architecture", "unknown"))

    @property
    def parameters(self) -> int:
        """The number of weights."""
        return sum(math.prod(tensor.shape) for tensor in self.tensors.values())

    def architecture_field(self, name: str, default: Any = None) -> Any:
        """Return a field of the architecture: `context_length` is `llama.context_length`, say."""
        return self.fields.get(f"{self.architecture}.{name}", default)

    def raw(self, tensor: Tensor, begin: int, end: int) -> bytes:
        """Return bytes of a tensor."""
        return self._map[tensor.offset + begin : tensor.offset + end]

    def _read(self) -> None:
        if self._map[:4] != _MAGIC:
            raise WeightsError(f"{self.path} is not a GGUF file")
        self._at = 4
        version = self._scalar("I")
        if version not in (2, 3):
            raise WeightsError(f"{self.path} is a GGUF file of version {version}; versions 2 and 3 are supported")
        tensors, fields = self._scalar("Q"), self._scalar("Q")
        self.fields: dict[str, Any] = {}
        for _ in range(fields):
            name = self._text()
            self.fields[name] = self._value(self._scalar("I"))
        descriptions = [self._description() for _ in range(tensors)]
        step = int(self.fields.get("general.alignment", 32))
        begin = -(-self._at // step) * step
        self.tensors = {description[0]: _tensor(*description, begin) for description in descriptions}
        end = max((tensor.offset + tensor.size for tensor in self.tensors.values()), default=begin)
        if end > len(self._map):
            raise WeightsError(f"{self.path} is cut off: {len(self._map):,} of {end:,} bytes are there; fetch it again")

    def _description(self) -> tuple[str, tuple[int, ...], int, int]:
        name = self._text()
        shape = tuple(self._scalar("Q") for _ in range(self._scalar("I")))
        return name, shape[::-1], self._scalar("I"), self._scalar("Q")

    def _scalar(self, kind: str) -> Any:
        (value,) = struct.unpack_from("<" + kind, self._map, self._at)
        self._at += struct.calcsize("<" + kind)
        return value

    def _text(self) -> str:
        length = self._scalar("Q")
        begin, self._at = self._at, self._at + length
        if self._at > len(self._map):
            raise IndexError(length)
        return self._map[begin : self._at].decode("utf-8")

    def _value(self, kind: int) -> Any:
        if kind == _STRING:
            return self._text()
        if kind != _ARRAY:
            return self._scalar(_SCALARS[kind])
        inner, count = self._scalar("I"), self._scalar("Q")
        if count > len(self._map):
            raise IndexError(count)
        if inner in (_STRING, _ARRAY):
            return [self._value(inner) for _ in range(count)]
        values = struct.unpack_from(f"<{count}{_SCALARS[inner]}", self._map, self._at)
        self._at += struct.calcsize(f"<{count}{_SCALARS[inner]}")
        return list(values)


def _tensor(name: str, shape: tuple[int, ...], number: int, offset: int, begin: int) -> Tensor:
    if number not in FORMATS:
        return Tensor(name, shape, f"type {number}", begin + offset, 0)
    kind, weights, size = FORMATS[number]
    return Tensor(name, shape, kind, begin + offset, math.prod(shape) // weights * size)
