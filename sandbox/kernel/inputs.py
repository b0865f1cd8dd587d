"""Inputs as they arrive in the kernel: plain values, memory files that are read in place, and helper functions."""

from __future__ import annotations

import base64
import io
import marshal
import mmap
import os
import pickle
import types
from collections.abc import Sequence
from typing import Any

from .views import TextView


def bind(
    inputs: list[dict[str, Any]], descriptors: list[int], buffers: list[bytes], files: Sequence[Sequence[Any]] = ()
) -> dict[str, Any]:
    """The values of the inputs by name. Each takes its bytes from a descriptor, a buffer, or its own description.

    `files` are those in the inputs, by number: path, name, size, and whether it is a folder.
    """
    values: dict[str, Any] = {}
    opened = _files(files)
    for entry in inputs:
        kind = entry["kind"]
        if kind == "json":
            values[entry["name"]] = entry["value"]
            continue
        if kind == "stream":
            values[entry["name"]] = _streamed(descriptors[entry["descriptor"]], entry["size"])
            continue
        if "value" in entry:
            data: bytes | mmap.mmap = base64.b64decode(entry["value"])
        else:
            data = (
                _mapped(descriptors[entry["descriptor"]]) if "descriptor" in entry else bytes(buffers[entry["buffer"]])
            )
        values[entry["name"]] = (
            TextView(data, ascii_only=bool(entry.get("ascii"))) if kind == "view" else _value(kind, data, opened)
        )
    return values


def helpers(given: dict[str, str]) -> dict[str, Any]:
    """Return the public functions of a piece of the host's own code, which runs here in a namespace of its own.

    It comes as `source`, or as `compiled` by the same Python, which saves its time.
    """
    if "compiled" in given:
        code = marshal.loads(base64.b64decode(given["compiled"]))
    else:
        code = compile(given.get("source", ""), "<helpers>", "exec")
    module = types.ModuleType("helpers")
    exec(code, module.__dict__)
    return {
        name: value
        for name, value in vars(module).items()
        if isinstance(value, types.FunctionType) and not name.startswith("_")
    }


def _files(described: Sequence[Sequence[Any]]) -> list[Any]:
    if not described:
        return []
    from .files import File, Folder

    return [(Folder if is_folder else File)(path, name, size) for path, name, size, is_folder in described]


class _Unpickler(pickle.Unpickler):
    """Reads what the host wrote of plain values, in which a file is a number."""

    def __init__(self, data: bytes | mmap.mmap, files: list[Any]) -> None:
        super().__init__(io.BytesIO(data))
        self._files = files

    def persistent_load(self, number: Any) -> Any:
        """Return the file of a number."""
        return self._files[number]


def _value(kind: str, data: bytes | mmap.mmap, files: list[Any]) -> Any:
    if kind == "pickle":
        # Written by the host, of plain values only.
        value: Any = _Unpickler(data, files).load() if files else pickle.loads(data)
    elif kind == "bytes":
        value = bytes(data)
    else:
        value = str(data, "utf-8", "surrogatepass")
    if isinstance(data, mmap.mmap):
        data.close()
    return value


def _streamed(descriptor: int, size: int) -> str:
    """Read an ASCII text of that many bytes from a pipe, into the memory of the `str` that is returned."""
    import ctypes

    new = ctypes.pythonapi.PyUnicode_New
    new.restype, new.argtypes = ctypes.py_object, (ctypes.c_ssize_t, ctypes.c_uint32)
    address_of = ctypes.pythonapi.PyUnicode_AsUTF8  # an ASCII text is its own UTF-8
    address_of.restype, address_of.argtypes = ctypes.c_void_p, (ctypes.py_object,)
    text: str = new(size, 127)
    left = memoryview((ctypes.c_char * size).from_address(address_of(text))).cast("B")
    with open(descriptor, "rb", buffering=0) as pipe:
        while left:
            if not (count := pipe.readinto(left)):
                raise EOFError(f"{len(left):,} bytes of a text did not arrive")
            left = left[count:]
    return text


def _mapped(descriptor: int) -> bytes | mmap.mmap:
    try:
        size = os.fstat(descriptor).st_size
        # Private: older kernels refuse a shared mapping of a sealed file. The pages are shared all the same.
        return mmap.mmap(descriptor, size, flags=mmap.MAP_PRIVATE, prot=mmap.PROT_READ) if size else b""
    finally:
        os.close(descriptor)
