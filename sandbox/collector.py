"""The messages of a kernel about one request, collected. All of them are hostile: counted, capped, type-checked."""

from __future__ import annotations

import re
from typing import Any

from . import errors
from .limits import Limits
from .results import CellError, Output, Variable
from .variables import KnownVariables
from .wire import COMM, Message

_FLOOD_SLACK = 32 << 20
_MAX_TEXT = 200_000
_MAX_COUNT = 1 << 53
_MIME_TYPES = 16
_COLORS = re.compile(r"\x1b\[[0-9;]*m")
_MIN_MESSAGE = 512
"""A message counts as at least so many bytes: a short one also takes time."""


class Collector:
    """What has arrived so far."""

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self._room = limits.output_bytes
        self._received = 0
        self._dropped = 0
        self.request = ""
        self.outputs: list[Output] = []
        self.data: dict[str, str] = {}
        self.reply: Message | None = None
        self.comm: dict[str, Any] | None = None
        self.idle = False

    def iopub(self, message: Message, size: int) -> None:
        """Take a message from the iopub channel."""
        self._count(size)
        content = message.content
        if message.kind == "stream":
            self.add_output(content.get("name"), content.get("text"))
        elif message.parent_id != self.request:
            return
        elif message.kind == "execute_result":
            self.data = self._bundle(content.get("data"))
        elif message.kind == "status":
            self.idle = content.get("execution_state") == "idle"
        elif message.kind == "comm_msg":
            data = content.get("data")
            self.comm = data if isinstance(data, dict) else {"error": "no data"}

    def shell(self, message: Message, size: int) -> None:
        """Take a message from the shell channel."""
        self._count(size)
        if message.kind == "execute_reply" and message.parent_id == self.request:
            self.reply = message

    def raw(self, data: bytes) -> None:
        """Return what the process wrote past Python: a library in C, a child process, a crash."""
        self._count(len(data))
        self.add_output("stderr", data.decode("utf-8", "replace"))

    def add_output(self, stream: object, text: object) -> None:
        """Keep what was printed, as far as there is room."""
        if not isinstance(text, str) or not text:
            return
        data = text.encode("utf-8", "replace")
        kept = data[: self._room].decode("utf-8", "ignore")
        self._dropped += max(0, len(data) - self._room)
        self._room -= min(self._room, len(data))
        name = "stderr" if stream == "stderr" else "stdout"
        if self.outputs and self.outputs[-1].stream == name and len(self.outputs[-1].text) < 65_536:
            kept = self.outputs.pop().text + kept
        if kept:
            self.outputs.append(Output(name, kept))  # type: ignore[arg-type]

    # -- what the reply says

    @property
    def facts(self) -> dict[str, Any]:
        """What our own kernel adds to its reply."""
        facts = self.reply.metadata.get(COMM) if self.reply is not None else None
        return facts if isinstance(facts, dict) else {}

    @property
    def dropped(self) -> int:
        """Bytes of output that were dropped, there and here."""
        return self._dropped + _count_of(self.facts.get("dropped"))

    @property
    def warnings(self) -> tuple[str, ...]:
        """What the policy had to say."""
        warnings = self.facts.get("warnings")
        return tuple(_text(warning) for warning in warnings[:100]) if isinstance(warnings, list) else ()

    @property
    def stops(self) -> int:
        """How many cells of the session have been stopped so far: calls that say less are of threads of those."""
        return _count_of(self.facts.get("stops"))

    @property
    def error(self) -> CellError | None:
        """Why the cell failed, if it did."""
        content = self.reply.content if self.reply is not None else {}
        if content.get("status") != "error":
            return None
        lines = content.get("traceback")
        traceback = "\n".join(_text(line) for line in lines[:2000]) if isinstance(lines, list) else ""
        traceback = _COLORS.sub("", traceback[: 2 * _MAX_TEXT])  # those of IPython, from a kernel that is not ours
        line = self.facts.get("line")
        return CellError(
            _text(content.get("ename"), 200),
            _text(content.get("evalue")),
            traceback[:_MAX_TEXT],
            _count_of(line) if isinstance(line, int) else None,
        )

    def variables(self, known: KnownVariables) -> dict[str, Variable] | None:
        """Return the snapshot that came with the reply, if one did."""
        snapshot = self.facts.get("variables")
        if self.reply is None or not isinstance(snapshot, dict):
            return None
        return known.read(snapshot, self.reply.cost)

    def limit(self) -> errors.LimitExceeded | None:
        """Return the limit that the kernel ran into by its own account."""
        limits = self._limits
        match self.facts.get("limit"):
            case "memory":
                return errors.MemoryLimit(f"the session may use {limits.memory_bytes:,} bytes of memory", survived=True)
            case "files":
                message = f"the scratch directory may hold {limits.file_bytes:,} bytes in {limits.file_count:,} files"
                return errors.FileLimit(message, survived=True)
            case "processes":
                message = f"the session may have {limits.processes} processes and threads at once"
                return errors.ProcessLimit(message, survived=True)
        return None

    def output_limit(self) -> errors.OutputLimit | None:
        """Set when output was dropped."""
        if not self.dropped:
            return None
        message = f"the cell printed more than {self._limits.output_bytes:,} bytes; {self.dropped:,} were dropped"
        return errors.OutputLimit(message, survived=True)

    def _count(self, size: int) -> None:
        self._received += max(size, _MIN_MESSAGE)
        if self._received > 8 * self._limits.output_bytes + _FLOOD_SLACK:
            raise errors.ProtocolViolation(f"the kernel sent {self._received:,} bytes during one cell")

    def _bundle(self, data: object) -> dict[str, str]:
        if not isinstance(data, dict):
            return {}
        bundle: dict[str, str] = {}
        room = self._limits.output_bytes
        texts = [(mime, value) for mime, value in data.items() if isinstance(value, str)][:_MIME_TYPES]
        for mime, value in sorted(texts, key=lambda entry: entry[0] != "text/plain"):
            encoded = value[: room + 1].encode("utf-8", "replace")
            if len(encoded) <= room or mime == "text/plain":  # half a picture is none
                bundle[_text(mime, 100)] = encoded[:room].decode("utf-8", "ignore")
                room -= len(encoded[:room])
        return bundle


def _text(value: object, cap: int = _MAX_TEXT) -> str:
    """Text that can be written anywhere: lone surrogates are replaced."""
    if not isinstance(value, str):
        return ""
    return value[:cap] if value.isascii() else value[:cap].encode("utf-8", "replace").decode()


def _count_of(value: object) -> int:
    whole = isinstance(value, int) and not isinstance(value, bool) and 0 < value < _MAX_COUNT
    return int(value) if whole else 0  # type: ignore[call-overload]
