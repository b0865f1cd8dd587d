"""stdout and stderr of a cell: in order, in few messages, capped."""

from __future__ import annotations

import io
import threading
import time
from collections.abc import Callable

from .cell_threads import CellThreads
from .interrupts import Interrupts

_CHUNK = 16_384
_LARGEST = 1 << 18
_HOLD_SECONDS = 0.05


class Printed:
    """Collects what both streams print and hands it on in order, at most `cap` bytes a cell."""

    def __init__(self, send: Callable[[str, str], None], interrupts: Interrupts, threads: CellThreads) -> None:
        self._send = send
        self._shield = interrupts.shield
        self._threads = threads
        self._lock = threading.RLock()
        self._pieces: list[str] = []
        self._stream = "stdout"
        self._held = 0
        self._sent_at = 0.0
        self._waker: threading.Event | None = None
        self.left = 1 << 20
        self.dropped = 0

    def begin(self, cap: int) -> None:
        """A new cell begins: its output counts from zero."""
        with self._shield, self._lock:
            self.flush()
            self._sent_at = 0.0  # its first line goes at once
            self.left = cap
            self.dropped = 0

    def write(self, stream: str, text: str) -> None:
        """Take one piece; it is sent soon."""
        stops = self._threads.check()
        with self._shield, self._lock:
            if stops == self._threads.stops:
                self._take(stream, text)
                return
        self._threads.check()  # its cell was stopped while it waited for its turn

    def flush(self) -> None:
        """Send what is held."""
        with self._shield, self._lock:
            if self._pieces:
                text = "".join(self._pieces)
                self._pieces.clear()
                self._held = 0
                self._sent_at = time.monotonic()
                for start in range(0, len(text), _LARGEST):
                    self._send(self._stream, text[start : start + _LARGEST])

    def take(self, size: int) -> bool:
        """Count output that is sent in another way; False if there is no room for it, and it counts as dropped."""
        self._threads.check()
        with self._shield, self._lock:
            if size > self.left:
                self.dropped += size
                return False
            self.left -= size
            return True

    def _take(self, stream: str, text: str) -> None:
        text = self._cap(text)
        if not text:
            return
        if stream != self._stream:
            self.flush()
            self._stream = stream
        self._pieces.append(text)
        self._held += len(text)
        # Half a line waits for its end, as at a terminal: `print` writes its line and then the newline.
        whole = text.endswith("\n")
        if self._held >= _CHUNK or (whole and time.monotonic() - self._sent_at > _HOLD_SECONDS):
            self.flush()
        elif whole:
            self._wake_flusher()

    def _cap(self, text: str) -> str:
        size = len(text) if text.isascii() else len(text.encode("utf-8", "surrogatepass"))
        if size <= self.left:
            self.left -= size
            return text
        kept = text.encode("utf-8", "surrogatepass")[: self.left].decode("utf-8", "ignore")
        self.dropped += size - self.left
        self.left = 0
        return kept

    def _wake_flusher(self) -> None:
        # A cell that prints and then sleeps should be seen; the thread exists only once something was held back.
        if self._waker is None:
            waker = threading.Event()
            try:
                threading.Thread(target=self._flush_later, args=(waker,), daemon=True, name="flush").start()
            except RuntimeError:  # no thread to be had: the end of the cell flushes
                return
            self._waker = waker
        self._waker.set()

    def _flush_later(self, waker: threading.Event) -> None:
        while True:
            waker.wait()
            waker.clear()
            time.sleep(_HOLD_SECONDS)
            self.flush()


class Stream(io.TextIOBase):
    """`sys.stdout` or `sys.stderr` of a cell."""

    def __init__(self, name: str, printed: Printed) -> None:
        super().__init__()
        self._name = name
        self._printed = printed

    @property
    def name(self) -> str:
        """As a file object has it."""
        return f"<{self._name}>"

    @property
    def encoding(self) -> str:  # type: ignore[override]
        """As a file object has it."""
        return "utf-8"

    def writable(self) -> bool:
        """It is."""
        return True

    def write(self, text: str) -> int:
        """Print."""
        if not isinstance(text, str):
            raise TypeError(f"write() argument must be str, not {type(text).__name__}")
        self._printed.write(self._name, text if type(text) is str else str.__str__(text))
        return len(text)

    def flush(self) -> None:
        """Send what is held."""
        self._printed.flush()
