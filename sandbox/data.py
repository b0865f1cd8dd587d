"""Inputs: numbers as JSON, collections pickled, text and bytes that are large as sealed memory files.

A memory file is written once, sealed, and passed to kernels by descriptor; sessions that get the same `Text` or `Blob`
share its pages. Nothing is copied per session but what a kernel decodes for itself. A large ASCII `str` goes through a
pipe, from its memory in the host straight into that of the kernel's `str`.
"""

from __future__ import annotations

import base64
import builtins
import contextlib
import ctypes
import fcntl
import functools
import io
import json
import keyword
import marshal
import os
import pickle
import sys
import tempfile
import threading
import types
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from .errors import InputError
from .mounts import File, Mount, Places

SMALL_BYTES = 256 * 1024
"""Text and bytes up to this size travel inside the message; larger ones by descriptor."""

_STREAMED_BYTES = 1 << 20
_PIPE_BYTES = 1 << 20

_CARRIED = {
    "builtins": frozenset({"bytearray", "complex", "range"}),
    "datetime": frozenset({"date", "datetime", "time", "timedelta", "timezone"}),
    "decimal": frozenset({"Decimal"}),
    "fractions": frozenset({"Fraction"}),
    "uuid": frozenset({"UUID", "SafeUUID"}),
}
"""Types of values in inputs, beside those of JSON and bytes, tuples, sets and frozensets."""

_SCALARS = frozenset({str, int, float, bool, types.NoneType})

_as_utf8 = ctypes.pythonapi.PyUnicode_AsUTF8AndSize
_as_utf8.restype = ctypes.c_void_p
_as_utf8.argtypes = [ctypes.py_object, ctypes.POINTER(ctypes.c_ssize_t)]


class _Sealed:
    """Bytes in a memory file that nobody can change any more."""

    def __init__(self, data: bytes | memoryview) -> None:
        self.size = len(data)
        self._descriptor = _sealed_file(data)

    @property
    def descriptor(self) -> int:
        """Open while this object lives."""
        return self._descriptor

    def opened(self) -> _Sealed:
        """Return what owns a descriptor to send."""
        return self

    def read(self) -> bytes:
        """Return the bytes themselves, for a kernel that cannot take a descriptor."""
        return os.pread(self._descriptor, self.size, 0)

    def __del__(self) -> None:
        descriptor = getattr(self, "_descriptor", None)
        if descriptor is not None:
            os.close(descriptor)


class Text(_Sealed):
    """A large text, written to memory once. Give the same object to several sessions and they share it.

    `lazy=True` gives the code a `TextView`: it reads like a `str` and decodes only what is looked at.
    """

    def __init__(self, text: str, *, lazy: bool = False) -> None:
        super().__init__(_utf8(text))
        self.ascii = text.isascii()
        self.lazy = lazy


class Blob(_Sealed):
    """Large bytes, written to memory once. Give the same object to several sessions and they share it."""


class _Streamed:
    """A large text of ASCII for one kernel."""

    def __init__(self, text: str) -> None:
        self._text = text  # `_data` is its memory
        self._data = _utf8(text)
        self.size = len(self._data)

    def opened(self) -> _PipeEnd:
        """Return a pipe's end to send. A thread writes the text into the pipe as fast as the kernel reads it."""
        descriptor, into = os.pipe()
        if hasattr(fcntl, "F_SETPIPE_SZ"):
            with contextlib.suppress(OSError):  # the user has many large pipes
                fcntl.fcntl(into, fcntl.F_SETPIPE_SZ, _PIPE_BYTES)
        end = _PipeEnd(descriptor)
        try:
            threading.Thread(target=self._write, args=(into,), daemon=True, name="rlm-input").start()
        except BaseException:
            os.close(into)
            raise
        return end

    def read(self) -> bytes:
        """Return the bytes themselves."""
        return bytes(self._data)

    def _write(self, into: int) -> None:
        try:
            with contextlib.suppress(OSError):  # the kernel is gone: whoever waits for its answer hears so
                _write(into, self._data)
        finally:
            os.close(into)


class _PipeEnd:
    """The end that a kernel reads. Closed with this object, so that the writer hears when the kernel is gone."""

    def __init__(self, descriptor: int) -> None:
        self.descriptor = descriptor

    def __del__(self) -> None:
        os.close(self.descriptor)


@dataclass(frozen=True, slots=True)
class Parcel:
    """Inputs ready to be sent: what they are, and the large ones beside."""

    inputs: list[dict[str, Any]]
    large: list[_Sealed | _Streamed]
    files: list[File] = field(default_factory=list)
    """The files and folders in the inputs, by their numbers."""

    mounts: tuple[Mount, ...] = ()
    """What the kernel must be able to read."""


def pack(inputs: Mapping[str, Any], *, by: Literal["descriptor", "buffer"]) -> Parcel:
    """Describe inputs for a kernel. Raises `InputError` and names the input that cannot be given."""
    packed: list[dict[str, Any]] = []
    large: list[_Sealed | _Streamed] = []
    places = Places()
    for name, value in inputs.items():
        if by == "descriptor" and isinstance(value, str) and _is_streamed(value):
            streamed = _Streamed(value)
            packed.append({"name": name, "kind": "stream", "size": streamed.size, by: len(large)})
            large.append(streamed)
            continue
        sealed = _as_sealed(value)
        if sealed is not None:
            only = isinstance(value, Text) and value.ascii
            packed.append({"name": name, "kind": _kind(value), "ascii": only, by: len(large)})
            large.append(sealed)
        elif type(value) in _SCALARS:
            packed.append({"name": name, "kind": "json", "value": value})
        elif len(pickled := _pickled(name, value, places)) <= SMALL_BYTES:
            text = base64.b64encode(pickled).decode()
            packed.append({"name": name, "kind": "pickle", "value": text})
        else:
            packed.append({"name": name, "kind": "pickle", by: len(large)})
            large.append(Blob(pickled))
    return Parcel(packed, large, places.files, tuple(places.mounts))


def is_small(inputs: Mapping[str, Any]) -> bool:
    """Return whether these inputs are plainly so little that packing them takes no time to speak of."""
    plain = (str, bytes, int, float, bool, types.NoneType, _Sealed)
    return all(
        isinstance(value, plain) and not (isinstance(value, str | bytes) and len(value) > SMALL_BYTES)
        for value in inputs.values()
    )


@functools.lru_cache(maxsize=32)
def pack_helpers(source: str, *, by: Literal["descriptor", "buffer"]) -> dict[str, str]:
    """Helper functions for a kernel: compiled for one of ours, which runs the same Python."""
    try:
        code = compile(source, "<helpers>", "exec", dont_inherit=True)
    except (SyntaxError, ValueError) as error:
        raise InputError(f"the helpers cannot be compiled: {error}") from None
    return {"source": source} if by == "buffer" else {"compiled": base64.b64encode(marshal.dumps(code)).decode()}


def check_name(name: str) -> None:
    """Inputs and functions become variables; their names must be able to."""
    if not isinstance(name, str) or not name.isidentifier() or keyword.iskeyword(name):
        raise InputError(f"{name!r} cannot be the name of an input or function: it must be a Python identifier")
    if name.startswith("__") and (hasattr(types, name) or hasattr(builtins, name)):
        raise InputError(f"{name!r} cannot be the name of an input or function: it means something to Python")


def _is_streamed(text: str) -> bool:
    """Return whether a kernel can take the memory of this text as it is."""
    return len(text) >= _STREAMED_BYTES and text.isascii() and sys.implementation.name == "cpython"


def _as_sealed(value: Any) -> _Sealed | None:
    if isinstance(value, _Sealed):
        return value
    if isinstance(value, str) and len(value) > SMALL_BYTES // 4:
        return Text(value)
    if isinstance(value, bytes | bytearray | memoryview):
        return Blob(bytes(value))
    return None


def _kind(value: Any) -> Literal["text", "view", "bytes"]:
    if isinstance(value, Text):
        return "view" if value.lazy else "text"
    return "text" if isinstance(value, str) else "bytes"


class _Pickler(pickle.Pickler):
    """Pickles plain values and nothing else: no class of the caller's that the kernel would have to import."""

    def __init__(self, into: io.BytesIO, name: str, places: Places) -> None:
        super().__init__(into, protocol=5)
        self._name, self._places = name, places

    def persistent_id(self, value: Any) -> int | None:
        """Return the number of a file; the kernel knows it by that."""
        return self._places.add(self._name, value) if isinstance(value, File) else None

    def reducer_override(self, value: Any) -> Any:
        kind = value if isinstance(value, type) else type(value)
        if kind.__name__ not in _CARRIED.get(kind.__module__, ()):
            raise TypeError(f"a {type(value).__name__} in it is not plain data")
        return NotImplemented


def _pickled(name: str, value: Any, places: Places) -> bytes:
    """Return a value as a kernel unpickles it: with its types, tuples and dates among them."""
    file = io.BytesIO()
    try:
        _Pickler(file, name, places).dump(value)
        return file.getvalue()
    except (TypeError, ValueError, RecursionError, pickle.PicklingError) as error:
        refusal = error
    try:  # subclasses of plain types, as JSON has them
        return pickle.dumps(json.loads(json.dumps(value)), protocol=5)
    except (TypeError, ValueError, RecursionError):
        raise InputError(
            f"input {name!r} ({type(value).__name__}) is not plain: {refusal}. Give str, bytes, numbers, bool, None, "
            "dates, and lists, tuples, sets and dicts of them, or sandbox.Text, Blob, File and Folder."
        ) from None


def _utf8(text: str) -> bytes | memoryview:
    """Return the text as UTF-8, where it is ASCII without a copy: Python keeps such text in that form already."""
    if not text.isascii() or sys.implementation.name != "cpython":
        return text.encode("utf-8", "surrogatepass")
    size = ctypes.c_ssize_t()
    address = _as_utf8(text, ctypes.byref(size))
    return memoryview((ctypes.c_char * size.value).from_address(address)).cast("B")


def _sealed_file(data: bytes | memoryview) -> int:
    if not hasattr(os, "memfd_create"):
        return _unnamed_file(data)
    descriptor = os.memfd_create("rlm-input", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
    _write(descriptor, data)
    seals = fcntl.F_SEAL_WRITE | fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_GROW | fcntl.F_SEAL_SEAL
    fcntl.fcntl(descriptor, fcntl.F_ADD_SEALS, seals)
    return descriptor


def _unnamed_file(data: bytes | memoryview) -> int:
    """Where there are no memory files: a file without a name, of which only a read-only descriptor is left."""
    with tempfile.NamedTemporaryFile(prefix="rlm-input-", delete=False) as file:
        _write(file.fileno(), data)
        descriptor = os.open(file.name, os.O_RDONLY | os.O_CLOEXEC)
        os.unlink(file.name)
    return descriptor


def _write(descriptor: int, data: bytes | memoryview) -> None:
    left = memoryview(data)
    while left:
        left = left[os.write(descriptor, left[: 1 << 30]) :]
