"""Jupyter messages as frames: packing, signing, checking. Used by the host and inside the kernel.

The wire format of the Jupyter messaging protocol 5.4 and nothing else. The messages are interpreted by `collector.py`
(host) and `kernel/main.py` (kernel).
"""

from __future__ import annotations

import hmac
import itertools
import json
import os
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from .json_cost import decoded_bytes

PROTOCOL_VERSION = "5.4"
COMM = "rlm.sandbox"
"""The comm of our own host, and the key of what it and its kernels add to the metadata of messages."""

DELIMITER = b"<IDS|MSG>"
MAX_FRAMES = 64

Json = dict[str, Any]

# Taken once: code that later replaces `json.dumps` does not change what this process sends.
_encode = json.JSONEncoder(separators=(",", ":")).encode
_decode = json.JSONDecoder().decode
_digest = hmac.digest
_equal = hmac.compare_digest


_EMPTY = b"{}"


class WireError(Exception):
    """The frames are not a Jupyter message, are not signed with the key, or would take too much memory."""


@dataclass(slots=True)
class Message:
    """One message of the Jupyter protocol."""

    kind: str
    header: Json
    parent: Json
    content: Json
    metadata: Json = field(default_factory=dict)
    buffers: Sequence[bytes] = ()
    identities: Sequence[bytes] = ()
    cost: int = 0
    """The memory that its parts were estimated to take."""

    @property
    def id(self) -> str:
        """The id that answers refer to."""
        value = self.header.get("msg_id")
        return value if isinstance(value, str) else ""

    @property
    def parent_id(self) -> str:
        """The id of the message that this one answers."""
        value = self.parent.get("msg_id")
        return value if isinstance(value, str) else ""


class Wire:
    """Packs and unpacks the messages of one connection."""

    def __init__(self, key: bytes, *, username: str = "rlm", max_decoded_bytes: int | None = None) -> None:
        """`max_decoded_bytes`: the memory that one decoded message may take, where its sender is not trusted."""
        self.key = key
        self._max_decoded_bytes = max_decoded_bytes
        self.session = os.urandom(8).hex()
        self._username = username
        self._numbers = itertools.count(1)
        self._parent: tuple[Json, bytes] = ({}, _EMPTY)

    def pack(
        self,
        kind: str,
        content: Json,
        *,
        parent: Json | None = None,
        metadata: Json | None = None,
        identities: Sequence[bytes] = (),
        buffers: Sequence[bytes] = (),
    ) -> tuple[str, list[bytes]]:
        """Return the id of a new message, and its frames."""
        message_id = f"{self.session}_{next(self._numbers)}"
        header = {
            "msg_id": message_id,
            "msg_type": kind,
            "username": self._username,
            "session": self.session,
            "date": datetime.now(UTC).isoformat(),
            "version": PROTOCOL_VERSION,
        }
        known, above = self._parent  # several messages have the same one; threads may pack at once
        if parent is not known:
            above = _bytes(parent)
            self._parent = (parent or {}, above)
        parts = [_bytes(header), above, _bytes(metadata), _bytes(content)]
        return message_id, [*identities, DELIMITER, self._sign(parts), *parts, *buffers]

    def unpack(self, frames: Sequence[bytes]) -> Message:
        """Return the message in these frames. Raises `WireError`, and nothing else, on anything malformed."""
        if len(frames) > MAX_FRAMES:
            raise WireError(f"{len(frames)} frames in one message")
        try:
            start = list(frames).index(DELIMITER)
        except ValueError:
            raise WireError("no delimiter") from None
        if len(frames) < start + 6:
            raise WireError("too few frames")
        parts = frames[start + 2 : start + 6]
        if self.key and not _equal(self._sign(parts), bytes(frames[start + 1])):
            raise WireError("bad signature")
        cost = 0
        if self._max_decoded_bytes is not None:
            cost = sum(map(decoded_bytes, parts))
            if cost > self._max_decoded_bytes:
                raise WireError(f"it would take {cost:,} bytes of memory, more than {self._max_decoded_bytes:,}")
        try:
            header, parent, metadata, content = (_value(part) for part in parts)
        except (ValueError, RecursionError) as error:
            raise WireError(f"not JSON: {error}") from None
        if not all(isinstance(part, dict) for part in (header, parent, metadata, content)):
            raise WireError("a part is not an object")
        kind = header.get("msg_type")
        if not isinstance(kind, str):
            raise WireError("no message type")
        return Message(kind, header, parent, content, metadata, frames[start + 6 :], frames[:start], cost)

    def _sign(self, parts: Sequence[bytes]) -> bytes:
        return _digest(self.key, b"".join(parts), "sha256").hex().encode() if self.key else b""


def _bytes(part: Json | None) -> bytes:
    return _encode(part).encode() if part else _EMPTY


def _value(part: bytes) -> Any:
    return {} if part == _EMPTY else _decode(str(part, "utf-8"))
