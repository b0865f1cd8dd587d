"""Positions in UTF-8: which byte a character begins at, and which character begins at a byte."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator
from operator import itemgetter
from typing import Any

CODEC = ("utf-8", "surrogatepass")  # as the host encoded it
_byte, _char = itemgetter(0), itemgetter(1)


class Positions:
    """An index of a text in a buffer: one known position every `step` bytes, made as far as it is needed.

    It is only ever extended with what anyone else would write in the same place, so threads need no lock, and a cell
    that is stopped halfway leaves none behind.
    """

    __slots__ = ("_decoded", "buffer", "starts", "step")

    def __init__(self, buffer: Any, step: int, *, ascii_only: bool = False) -> None:
        self.buffer = memoryview(buffer).toreadonly().cast("B")
        self.step = max(step, 4)
        self.starts: list[tuple[int, int]] = [(0, 0)]  # (byte, character) where each piece begins
        if ascii_only:  # whoever wrote the text knows: every byte is a character
            size = len(self.buffer)
            self.starts = [(byte, byte) for byte in (*range(0, size, self.step), size)]
        self._decoded: tuple[int, str] = (-1, "")  # the piece that was read last

    def raw(self, start: int, stop: int) -> bytes:
        """Return a copy of some bytes."""
        return self.buffer[start:stop].tobytes()

    def text(self, start: int, stop: int) -> str:
        """Return the characters in some bytes."""
        return str(self.buffer[start:stop], *CODEC)

    def boundary(self, byte: int) -> int:
        """Return the nearest beginning of a character at or before a byte."""
        while 0 < byte < len(self.buffer) and self.buffer[byte] & 0xC0 == 0x80:
            byte -= 1
        return min(byte, len(self.buffer))

    def _extend(self) -> bool:
        """Add one piece to the index; false at the end of the text."""
        number = len(self.starts)
        byte, char = self.starts[number - 1]
        if byte == len(self.buffer):
            return False
        stop = self.boundary(byte + self.step)
        piece = self.raw(byte, stop)
        count = len(piece) if piece.isascii() else len(str(piece, *CODEC))
        self.starts[number : number + 1] = [(stop, char + count)]
        return True

    def piece(self, number: int) -> tuple[int, int, str | None]:
        """Return where a piece begins, and its text if it is not ASCII: then bytes and characters differ."""
        (byte, char), (stop, end) = self.starts[number : number + 2]
        if stop - byte == end - char:
            return byte, char, None
        last, text = self._decoded
        if last != number:
            text = self.text(byte, stop)
            self._decoded = (number, text)
        return byte, char, text

    def reach(self, char: int) -> int:
        """Return the character position, or the length of the text if that is less."""
        while self.starts[-1][1] < char and self._extend():
            pass
        return min(char, self.starts[-1][1])

    def byte_of(self, char: int) -> int:
        """Return the byte at which a character begins; `char` is at most the length."""
        self.reach(char)
        number = bisect_right(self.starts, char, key=_char) - 1
        if self.starts[number][1] == char:
            return self.starts[number][0]
        byte, first, text = self.piece(number)
        return byte + (char - first if text is None else len(text[: char - first].encode(*CODEC)))

    def char_of(self, byte: int) -> int:
        """Return the number of the character that begins at a byte."""
        while self.starts[-1][0] < byte:
            self._extend()
        number = bisect_right(self.starts, byte, key=_byte) - 1
        first, char = self.starts[number]
        if first == byte:
            return char
        _, _, text = self.piece(number)
        return char + (byte - first if text is None else len(self.text(first, byte)))

    def character(self, char: int) -> str:
        """Return one character; `char` is less than the length, and reached."""
        byte, first, text = self.piece(bisect_right(self.starts, char, key=_char) - 1)
        return chr(self.buffer[byte + char - first]) if text is None else text[char - first]

    def length(self) -> int:
        """Return the number of characters."""
        while self._extend():
            pass
        return self.starts[-1][1]

    def pieces(self) -> Iterator[str]:
        """Yield the whole text, a piece at a time."""
        start = 0
        while start < len(self.buffer):
            stop = self.boundary(start + self.step)
            yield self.text(start, stop)
            start = stop
