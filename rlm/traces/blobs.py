"""Bodies: texts and bytes that are kept once, by their hash. Large ones are kept in pieces and never copied whole."""

from __future__ import annotations

import hashlib
import sqlite3
import zlib
from collections.abc import Iterator
from typing import Literal

Kind = Literal["text", "bytes"]
PIECE = 1 << 20
"""Characters or bytes in one piece of a large body."""

_PACK_FROM = 200
_LEVEL = 3
_HASH_BYTES = 20


class Missing(KeyError):
    """There is no body with this hash."""

    def __str__(self) -> str:
        return f"no body has the hash {self.args[0]}"


def store(connection: sqlite3.Connection, value: str | bytes) -> str:
    """Keep a text or bytes, unless they are there already; their hash."""
    kind: Kind = "text" if isinstance(value, str) else "bytes"
    digest = _digest(kind, value)
    if connection.execute("SELECT 1 FROM bodies WHERE hash = ?", (digest,)).fetchone() is None:
        if len(value) <= PIECE:
            packed, data = _packed(next(_encoded(value), b""))
            connection.execute(
                "INSERT INTO bodies (hash, kind, size, packed, bytes) VALUES (?, ?, ?, ?, ?)",
                (digest, kind, len(value), packed, data),
            )
        else:
            _store_pieces(connection, digest, kind, value)
    return digest.hex()


def fetch(connection: sqlite3.Connection, digest: str, limit: int | None = None) -> str | bytes:
    """The body with this hash; with a limit, about as many of its first characters as that, or more."""
    try:
        key = bytes.fromhex(digest)
    except ValueError:
        raise Missing(digest) from None
    row = connection.execute("SELECT number, kind, packed, bytes FROM bodies WHERE hash = ?", (key,)).fetchone()
    if row is None:
        raise Missing(digest)
    number, kind, packed, data = row
    if data is not None:
        found = [_unpacked(packed, data)]
    else:
        pieces = connection.execute(
            "SELECT packed, bytes FROM pieces WHERE body = ? ORDER BY number LIMIT ?",
            (number, -1 if limit is None else -(-limit // PIECE)),
        )
        found = [_unpacked(*piece) for piece in pieces]
    if kind == "bytes":
        return b"".join(found)
    return "".join(piece.decode("utf-8", "surrogatepass") for piece in found)


def _store_pieces(connection: sqlite3.Connection, digest: bytes, kind: Kind, value: str | bytes) -> None:
    row = (digest, kind, len(value))
    made = connection.execute("INSERT INTO bodies (hash, kind, size) VALUES (?, ?, ?)", row)
    for number, piece in enumerate(_encoded(value)):
        connection.execute(
            "INSERT INTO pieces (body, number, packed, bytes) VALUES (?, ?, ?, ?)",
            (made.lastrowid, number, *_packed(piece)),
        )


def _digest(kind: Kind, value: str | bytes) -> bytes:
    # The kind is part of the hash: the text "a" and the byte "a" are two bodies.
    hashed = hashlib.sha256(kind.encode() + b"\0")
    for piece in _encoded(value):
        hashed.update(piece)
    return hashed.digest()[:_HASH_BYTES]


def _encoded(value: str | bytes) -> Iterator[bytes]:
    """The bytes of a value, piece by piece. A text is cut between characters."""
    for at in range(0, len(value), PIECE):
        piece = value if len(value) <= PIECE else value[at : at + PIECE]
        yield piece.encode("utf-8", "surrogatepass") if isinstance(piece, str) else piece


def _packed(data: bytes) -> tuple[int, bytes]:
    """The bytes as they are kept: compressed, where that saves at least a tenth."""
    if len(data) >= _PACK_FROM:
        packed = zlib.compress(data, _LEVEL)
        if len(packed) < len(data) * 0.9:
            return 1, packed
    return 0, data


def _unpacked(packed: int, data: bytes) -> bytes:
    return zlib.decompress(data) if packed else data
