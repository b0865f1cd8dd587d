"""The words of generated texts, from `texts/words.txt`, and numbers."""

from __future__ import annotations

from .phrases import sections

WORDS: dict[str, list[str]] = {name: " ".join(lines).split(", ") for name, lines in sections("words").items()}
"""Words by the slot that they fill."""

FIRST, LAST, PLACE, THING, MONTH = (WORDS[name] for name in ("first", "last", "place", "thing", "month"))
WORDS["number"] = [str(number) for number in range(3, 1000)]
WORDS["year"] = [str(year) for year in range(1850, 2030)]
