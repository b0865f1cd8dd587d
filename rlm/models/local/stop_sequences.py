"""Stop sequences in a growing text: they are cut off, and a possible beginning of one is withheld."""

from __future__ import annotations


class StopSequences:
    """A text as it grows, up to the first stop sequence."""

    def __init__(self, stop: tuple[str, ...]) -> None:
        self._stop = stop
        self._withheld = ""
        self._released: list[str] = []
        self.found = False

    @property
    def text(self) -> str:
        """The released text."""
        return "".join(self._released)

    def add(self, piece: str) -> str:
        """Add a piece. Return the text that can be released now, from this piece and from withheld ones."""
        if self.found:
            return ""
        pending = self._withheld + piece
        hits = [at for at in (pending.find(stop) for stop in self._stop) if at >= 0]
        if hits:
            self.found, self._withheld = True, ""
            return self._release(pending[: min(hits)])
        keep = max((_overlap(pending, stop) for stop in self._stop), default=0)
        self._withheld = pending[len(pending) - keep :]
        return self._release(pending[: len(pending) - keep])

    def end(self) -> str:
        """Return the withheld text at the end: it was not the beginning of a stop sequence."""
        pending, self._withheld = self._withheld, ""
        return self._release(pending)

    def _release(self, text: str) -> str:
        self._released.append(text)
        return text


def _overlap(text: str, stop: str) -> int:
    """Return how many characters at the end of `text` are the beginning of `stop`."""
    return next((size for size in range(min(len(stop) - 1, len(text)), 0, -1) if text.endswith(stop[:size])), 0)
