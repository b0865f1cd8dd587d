"""Events and inputs as they are stored: small JSON in which every long text is a reference to a blob.

A reference is `{"$body": hash, "size": characters, "head": the first characters}`. A dictionary that would read like
one is stored as `{"$json": text}`.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import sandbox

from ..errors import RlmError
from ..mounts import File, Folder, has_files
from ..redaction import MARK, Redactor

SHORT = 256
"""Texts of up to this many characters stay in the event."""

HEAD = 80

_ENCODE = json.JSONEncoder(separators=(",", ":"), allow_nan=False).encode

StoreBlob = Callable[[str | bytes], str]
FetchBlob = Callable[[str], str | bytes]


def encode(data: Mapping[str, Any], redactor: Redactor, store: StoreBlob) -> dict[str, Any]:
    """Return the data of an event with its long texts stored as blobs and its secrets replaced."""
    return {redactor.name(str(name))[:SHORT]: _encode(value, redactor, store) for name, value in data.items()}


def to_json(data: Mapping[str, Any]) -> str:
    """Return encoded data as JSON text, in ASCII so that lone surrogates survive."""
    return _ENCODE(data)


def is_reference(value: Any) -> bool:
    """Return whether an encoded value is a reference to a blob."""
    return isinstance(value, dict) and "$body" in value


def resolve(value: Any, fetch: FetchBlob) -> Any:
    """Return an encoded value with every reference replaced by its blob."""
    if isinstance(value, list):
        return [resolve(item, fetch) for item in value]
    if isinstance(value, dict):
        if "$body" in value:
            return fetch(value["$body"])
        if "$json" in value:
            return json.loads(resolve(value["$json"], fetch))
        return {name: resolve(item, fetch) for name, item in value.items()}
    return value


def encode_text(text: str, store: StoreBlob) -> Any:
    """Return a short text as it is, and a reference to a long one. Secrets must have been replaced before."""
    if len(text) <= SHORT:
        return text
    return {"$body": store(text), "size": len(text), "head": text[:HEAD]}


def encode_bytes(data: bytes, store: StoreBlob) -> dict[str, Any]:
    """Return a reference to bytes. Secrets must have been replaced before."""
    return {"$body": store(data), "size": len(data), "head": repr(data[:HEAD])}


def _encode(value: Any, redactor: Redactor, store: StoreBlob) -> Any:
    kind = type(value)
    if kind is str:
        return encode_text(redactor.text(value), store)
    if kind is int or kind is bool or value is None:
        return value
    if kind is float:
        return value if math.isfinite(value) else str(value)
    if kind is dict:
        if any(isinstance(name, str) and name.startswith("$") for name in value):
            # It would read like a reference: a dictionary that a model wrote must not be taken for one.
            text = json.dumps(_to_plain(value), ensure_ascii=False)
            return {"$json": encode_text(redactor.text(text), store)}
        return {redactor.name(str(name))[:SHORT]: _encode(item, redactor, store) for name, item in value.items()}
    if kind is list or kind is tuple:
        return [_encode(item, redactor, store) for item in value]
    if kind is bytes:
        return encode_bytes(redactor.data(value), store)
    return _encode(_to_plain(value), redactor, store)


def _to_plain(value: Any) -> Any:
    """Convert any other value to JSON values; as a last resort, to its `repr`."""
    from pydantic_core import to_jsonable_python

    return to_jsonable_python(value, fallback=repr, inf_nan_mode="strings", bytes_mode="base64")


_REPR_CHARS = 10_000


class InputNotRecorded(RlmError):
    """An input has a type that cannot be stored; the trace has only a description of it."""


def encode_inputs(inputs: Mapping[str, Any], redactor: Redactor, store: StoreBlob) -> dict[str, Any]:
    """Return type, size and value of each input by name; long values are references."""
    return {redactor.text(str(name)): _encode_input(value, redactor, store) for name, value in inputs.items()}


def restore_input(name: str, stored: Mapping[str, Any], fetch: FetchBlob) -> Any:
    """Return the value of an input. Raises `InputNotRecorded` if it was not text, bytes or JSON."""
    value = resolve(stored["value"], fetch)
    match stored["kind"]:
        case "json":
            return json.loads(value)
        case "files":
            return _with_files(name, json.loads(value))
        case "repr":
            raise InputNotRecorded(
                f"input {name!r} ({stored['type']}) was not text, bytes or JSON, and is not in the trace"
            )
        case _:
            return value


def _encode_input(value: Any, redactor: Redactor, store: StoreBlob) -> dict[str, Any]:
    about: dict[str, Any] = {"type": type(value).__name__}
    value = _unwrap(value)
    if has_files(value):
        text = json.dumps(_without_files(value))
        return {**about, "kind": "files", "value": encode_text(text, store), **_size(value)}
    if isinstance(value, str):
        clean = redactor.input(value)
        encoded = encode_text(clean, store)
        return {**about, "kind": "text", "size": len(value), "value": encoded, **_note(clean is not value)}
    if isinstance(value, bytes | bytearray | memoryview):
        original = bytes(value)
        data = redactor.data(original)
        encoded = encode_bytes(data, store)
        return {**about, "kind": "bytes", "size": len(data), "value": encoded, **_note(data is not original)}
    size = _size(value)
    try:
        text, kind = _to_json(value), "json"
    except (TypeError, ValueError, RecursionError):
        text, kind = _to_repr(value), "repr"
    clean = redactor.input(text)
    return {**about, "kind": kind, **size, "value": encode_text(clean, store), **_note(clean is not text)}


def _size(value: Any) -> dict[str, int]:
    if isinstance(value, sandbox.File):
        return {"size": value.size}
    return {"size": len(value)} if hasattr(value, "__len__") else {}


_FILE = "$file"


def _without_files(value: Any) -> Any:
    """Return a value with a description in place of each file: where it was, and what was there."""
    if isinstance(value, sandbox.File):
        about = {"path": value.path, "folder": value.is_folder, "size": value.size, "modified_ns": value.modified_ns}
        return {_FILE: about}
    if isinstance(value, Mapping):
        return {str(name): _without_files(inner) for name, inner in value.items()}
    if isinstance(value, list | tuple):
        return [_without_files(inner) for inner in value]
    return json.loads(_dumps(value))


def recorded_files(value: Any, place: str) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield the descriptions of the files in a stored value, with their places."""
    if isinstance(value, dict) and value.keys() == {_FILE}:
        if not value[_FILE]["folder"]:  # of a folder, only its hash says anything
            yield place, value[_FILE]
    elif isinstance(value, dict | list):
        for key, inner in value.items() if isinstance(value, dict) else enumerate(value):
            yield from recorded_files(inner, f"{place}/{key}")


def _with_files(name: str, value: Any) -> Any:
    if isinstance(value, list):
        return [_with_files(name, inner) for inner in value]
    if not isinstance(value, dict):
        return value
    if value.keys() == {_FILE}:
        about = value[_FILE]
        try:
            return (Folder if about["folder"] else File)(about["path"])
        except sandbox.InputError as error:
            raise InputNotRecorded(f"input {name!r}: {error}; a trace has the names of files, not the files") from None
    return {key: _with_files(name, inner) for key, inner in value.items()}


def _note(redacted: bool) -> dict[str, Any]:
    """Return a note for an input that contained a secret: a resumed run gets the text without it."""
    return {"note": f"a secret in it was replaced by {MARK}"} if redacted else {}


def _unwrap(value: Any) -> Any:
    """Read the sandbox's own wrappers of large inputs."""
    if type(value).__module__ == "sandbox.data" and hasattr(value, "read"):
        data = value.read()
        return data.decode("utf-8", "surrogatepass") if type(value).__name__ == "Text" else data
    return value


def _to_json(value: Any) -> str:
    """Serialize long lists and dictionaries item by item: one long call would block every other thread."""
    if type(value) is list and len(value) > SHORT:
        return "[" + ",".join([_dumps(item) for item in value]) + "]"
    if type(value) is dict and len(value) > SHORT and all(type(name) is str for name in value):
        return "{" + ",".join([f"{_dumps(name)}:{_dumps(item)}" for name, item in value.items()]) + "}"
    return _dumps(value)


def _dumps(value: Any) -> str:
    """Return JSON; dates, sets and the like have the form in which the signature reads them again."""
    try:
        return json.dumps(value)
    except TypeError:
        from pydantic_core import to_jsonable_python

        return json.dumps(to_jsonable_python(value))


def _to_repr(value: Any) -> str:
    try:
        return repr(value)[:_REPR_CHARS]
    except Exception as error:
        return f"<{type(value).__name__}; its repr failed: {type(error).__name__}>"
