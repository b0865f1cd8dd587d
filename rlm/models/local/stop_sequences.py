"""Text as it grows: stop sequences are cut off, and what may be the start of one is held back."""

from __future__ import annotations


class Stops:
    """Watches a growing text for stop sequences."""

    def __init__(self, stop: tuple[str, ...]) -> None:
        self._stop = stop
        self._held = ""
        self._passed: list[str] = []
        self.found = False

    @property
    def text(self) -> str:
        """Everything that has passed."""
        return "".join(self._passed)

    def add(self, piece: str) -> str:
        """The part of what was held back and of `piece` that can be passed on now."""
        if self.found:
            return ""
        held = self._held + piece
        hits = [at for at in (held.find(stop) for stop in self._stop) if at >= 0]
        if hits:
            self.found, self._held = True, ""
            return self._pass(held[: min(hits)])
        keep = max((_overlap(held, stop) for stop in self._stop), default=0)
        self._held = held[len(held) - keep :]
        return self._pass(held[: len(held) - keep])

    def end(self) -> str:
        """What was held back: no stop sequence came of it."""
        held, self._held = self._held, ""
        return self._pass(held)

    def _pass(self, text: str) -> str:
        self._passed.append(text)
        return text


def _overlap(text: str, stop: str) -> int:
    """How many characters at the end of `text` begin `stop`."""
    return next((size for size in range(min(len(stop) - 1, len(text)), 0, -1) if text.endswith(stop[:size])), 0)
