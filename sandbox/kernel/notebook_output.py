"""What a notebook's cell shows beside what it prints: values, figures, errors. All of it counts as output."""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping, Sequence
from typing import Any

from .display import cut
from .publisher import Publisher
from .streams import Printed

_MIN_BYTES = 128
"""A message counts as at least so many bytes: a short one also takes time."""


class NotebookOutput:
    """Sends what cells show; at most `cap` bytes a cell, shared with what they print."""

    def __init__(self, publisher: Publisher, printed: Printed) -> None:
        self._publisher = publisher
        self._printed = printed
        self._cap = 0

    def begin(self, cap: int) -> None:
        """A cell begins."""
        self._cap = cap
        self._printed.begin(cap)

    def end(self) -> None:
        """A cell has ended: send what is held, and say if something was left out."""
        self._printed.flush()
        if self._printed.dropped:
            text = f"... {self._printed.dropped:,} bytes of output were left out: a cell may show {self._cap:,} bytes"
            advice = " (`limits` of the kernelspec: output_bytes)"
            self._publisher.stream("stderr", f"\n{text}{advice}\n")

    def show(self, kind: str, data: Mapping[str, Any], metadata: Mapping[str, Any] | None, **more: Any) -> None:
        """Send a bundle of representations; those that there is no room for are left out, and text is cut."""
        self._printed.flush()
        extra = {"metadata": _plain(dict(metadata or {})), **_plain(more)}
        if not self._printed.take(_MIN_BYTES + len(json.dumps(extra))):
            return
        bundle = {}
        for mime, value in sorted(data.items(), key=lambda entry: entry[0] != "text/plain"):
            plain = _plain(value)
            if mime == "text/plain" and isinstance(plain, str):
                plain = cut(plain, self._printed.left)
            size = len(plain) if isinstance(plain, str) and plain.isascii() else len(json.dumps(plain))
            if self._printed.take(size):
                bundle[str(mime)] = plain
        self._publisher.publish(kind, {"data": bundle, **extra}, self._publisher.request)

    def fits(self, value: Any) -> bool:
        """Return whether there is room for something that goes into the reply."""
        return self._printed.take(len(json.dumps(_plain(value))))

    def clear(self, wait: bool) -> None:
        """Have the client clear the output of the cell, now or with what comes next."""
        self._printed.flush()
        self._publisher.publish("clear_output", {"wait": bool(wait)}, self._publisher.request)

    def error(self, name: str, message: str, lines: list[str]) -> dict[str, Any]:
        """Send why a cell failed; return it as it goes into the reply."""
        self._printed.flush()
        content = {
            "ename": cut(name, 200),
            "evalue": cut(message, 20_000),
            "traceback": [cut("\n".join(lines), 60_000)],
        }
        self._publisher.publish("error", content, self._publisher.request)
        return content

    def comm(self, kind: str, content: dict[str, Any], metadata: Any, buffers: Sequence[bytes]) -> None:
        """Send a message of a comm: the state of a widget, which counts as output."""
        self._printed.flush()
        content = _plain(content)
        size = len(json.dumps([content, _plain(metadata or {})])) + sum(map(len, buffers))
        if self._printed.take(_MIN_BYTES + size):
            self._publisher.publish(kind, content, self._publisher.request, _plain(metadata or {}), buffers)


def _plain(value: Any) -> Any:
    """Values that JSON knows: bytes become base64, and what it does not know its `repr`."""
    return (
        json.loads(json.dumps(value, default=_named, skipkeys=True))
        if not isinstance(value, str | bytes)
        else (base64.b64encode(value).decode() if isinstance(value, bytes) else str.__str__(value))
    )


def _named(value: Any) -> Any:
    return base64.b64encode(value).decode() if isinstance(value, bytes) else repr(value)
