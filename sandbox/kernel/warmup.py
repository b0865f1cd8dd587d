"""A practice session before the first real one, so that the first cell is as fast as the second.

The fork server runs it before it forks, so that the interpreter has specialised the code. It leaves nothing behind and
starts no thread, because the fork server must have none. (Printing two lines in a row would start one.)

A kernel does not run it again: that copies the pages that its first cell writes to beforehand, which makes that cell
0.3 ms quicker, and takes 2.7 ms of processor time.
"""

from __future__ import annotations

import gc
import linecache
import socket
import sys
from collections.abc import Sequence
from typing import Any

from .. import frames
from ..wire import COMM, Wire
from .cells import PREFIX
from .channels import Channel, Channels
from .main import Kernel
from .streams import Stream

_KEY = "warmup"
_LOAD = {
    "op": "load",
    "inputs": [{"name": "text", "kind": "json", "value": "one two"}],
    "functions": [{"name": "ask", "doc": "Answer.", "signature": "(question: str) -> str"}],
    "protected": ["text"],
}
_CELL = """
import math
words = [word.upper() for word in text.split()]
def longest(words: list[str]) -> str:
    return max(words, key=len)
found = {"longest": longest(words), "root": round(math.sqrt(len(words)), 3), "answer": ask("why?")}
print(f"{len(words)} words: {found}")
found
"""


class _Stage(Channels):
    """Channels with nobody at the other end."""

    def __init__(self) -> None:
        self.parts: list[bytes] = []
        self.control = None
        self.shell, self.iopub = _Quiet(), _Quiet()

    def receive(self) -> tuple[Channel, list[bytes]]:
        return self.shell, self.parts


class _Quiet:
    def receive(self) -> list[bytes] | None:
        return None

    def send_multipart(self, parts: Sequence[bytes]) -> None:
        b"".join(parts)


def warm_up(times: int = 1) -> None:
    """Load inputs, run a cell that prints and calls the host, run one that fails; forget it all."""
    main, stdout = sys.modules["__main__"], sys.stdout
    try:
        for _ in range(times):
            _session()
    finally:
        sys.modules["__main__"], sys.stdout = main, stdout
        for name in [name for name in linecache.cache if name.startswith(PREFIX)]:
            del linecache.cache[name]
    gc.collect()


def _session() -> None:
    stage, wire = _Stage(), Wire(_KEY.encode())
    host, calls = socket.socketpair()
    with host:
        kernel = Kernel({"key": _KEY, "memory_bytes": 0}, stage, calls.detach(), None)
        sys.stdout = Stream("stdout", kernel.printed)
        frames.send(host, {"id": 1, "value": "because"})

        def ask(kind: str, content: dict[str, Any]) -> None:
            stage.parts = wire.pack(kind, content, metadata={COMM: {"variables": {}}})[1]
            kernel.serve_one()

        ask("comm_msg", {"comm_id": COMM, "data": _LOAD})
        ask("execute_request", {"code": _CELL, "stop_on_error": False})
        ask("execute_request", {"code": "1 / 0", "stop_on_error": False})
        kernel.close()
