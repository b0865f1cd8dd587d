"""Content-addressed storage of texts and bytes in a trace database. Large blobs are stored in pieces."""

from __future__ import annotations

import hashlib
import sqlite3
import zlib
from collections.abc import Iterator
from typing import Literal

Kind = Literal["text", "bytes"]
PIECE = 1 << 20
"""Characters or bytes in one piece of a large blob."""

_COMPRESS_FROM = 200
_LEVEL = 3
_HASH_BYTES = 20


class BlobNotFound(KeyError):
    """No blob has this hash."""

    def __str__(self) -> str:
        return f"no blob has the hash {self.args[0]}"


def store(connection: sqlite3.Connection, value: str | bytes) -> str:
    """Store a text or bytes unless they are stored already; return their hash."""
    kind: Kind = "text" if isinstance(value, str) else "bytes"
    digest = _digest(kind, value)
    if connection.execute("SELECT 1 FROM bodies WHERE hash = ?", (digest,)).fetchone() is None:
        if len(value) <= PIECE:
            compressed, data = _compress(next(_encode(value), b""))
            connection.execute(
                "INSERT INTO bodies (hash, kind, size, packed, bytes) VALUES (?, ?, ?, ?, ?)",
                (digest, kind, len(value), compressed, data),
            )
        else:
            _store_pieces(connection, digest, kind, value)
    return digest.hex()


def fetch(connection: sqlite3.Connection, digest: str, limit: int | None = None) -> str | bytes:
    """Return the blob with this hash; with a limit, only the pieces that contain its first `limit` characters."""
    try:
        key = bytes.fromhex(digest)
    except ValueError:
        raise BlobNotFound(digest) from None
    row = connection.execute("SELECT number, kind, packed, bytes FROM bodies WHERE hash = ?", (key,)).fetchone()
    if row is None:
        raise BlobNotFound(digest)
    number, kind, compressed, data = row
    if data is not None:
        pieces = [_decompress(compressed, data)]
    else:
        rows = connection.execute(
            "SELECT packed, bytes FROM pieces WHERE body = ? ORDER BY number LIMIT ?",
            (number, -1 if limit is None else -(-limit // PIECE)),
        )
        pieces = [_decompress(*row) for row in rows]
    if kind == "bytes":
        return b"".join(pieces)
    return "".join(piece.decode("utf-8", "surrogatepass") for piece in pieces)


def _store_pieces(connection: sqlite3.Connection, digest: bytes, kind: Kind, value: str | bytes) -> None:
    row = (digest, kind, len(value))
    cursor = connection.execute("INSERT INTO bodies (hash, kind, size) VALUES (?, ?, ?)", row)
    for number, piece in enumerate(_encode(value)):
        connection.execute(
            "INSERT INTO pieces (body, number, packed, bytes) VALUES (?, ?, ?, ?)",
            (cursor.lastrowid, number, *_compress(piece)),
        )


def _digest(kind: Kind, value: str | bytes) -> bytes:
    # The kind is part of the hash: the text "a" and the byte "a" are two blobs.
    digest = hashlib.sha256(kind.encode() + b"\0")
    for piece in _encode(value):
        digest.update(piece)
    return digest.digest()[:_HASH_BYTES]


def _encode(value: str | bytes) -> Iterator[bytes]:
    """Yield the bytes of a value in pieces. A text is cut between characters."""
    for start in range(0, len(value), PIECE):
        piece = value if len(value) <= PIECE else value[start : start + PIECE]
        yield piece.encode("utf-8", "surrogatepass") if isinstance(piece, str) else piece


def _compress(data: bytes) -> tuple[int, bytes]:
    """Compress bytes if that saves at least a tenth; return whether it did, and the result."""
    if len(data) >= _COMPRESS_FROM:
        compressed = zlib.compress(data, _LEVEL)
        if len(compressed) < len(data) * 0.9:
            return 1, compressed
    return 0, data


def _decompress(compressed: int, data: bytes) -> bytes:
    return zlib.decompress(data) if compressed else data
