"""What the scripted model of these tests reads and says."""

from __future__ import annotations

DOC = "".join(f"line {number}: the value is {number * 7 % 13}\n" for number in range(3_000))
SHORT = "a short text"
