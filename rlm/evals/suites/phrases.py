"""Sentences with slots, such as `"{first} {last} mended the {thing}."`, that are filled from lists of words.

Sentences and words are in text files (`texts/`), in sections that start with their name in brackets.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from importlib.resources import files

from .dice import Dice

_SLOT = re.compile(r"\{(\w+)\}")

Words = Mapping[str, Sequence[str]]


@dataclass(frozen=True, slots=True)
class Phrase:
    """A sentence with slots."""

    form: str
    slots: tuple[Sequence[str], ...]

    @classmethod
    def of(cls, text: str, words: Words) -> Phrase:
        """Return the sentence with the words for each of its slots."""
        form = _SLOT.sub("%s", text.replace("%", "%%"))
        return cls(form, tuple(words[name] for name in _SLOT.findall(text)))

    def fill(self, dice: Dice) -> str:
        """Return the sentence with every slot filled."""
        random = dice.random
        return self.form % tuple([words[int(random() * len(words))] for words in self.slots])

    def literals(self) -> list[str]:
        """Return the text between the slots."""
        return [part.replace("%%", "%") for part in self.form.split("%s")]


def phrases(lines: Iterable[str], words: Words) -> tuple[Phrase, ...]:
    """Return the sentences, one per line."""
    return tuple(Phrase.of(line, words) for line in lines)


def sections(name: str) -> dict[str, list[str]]:
    """Return the lines of each section of a text file, by its name."""
    parts: dict[str, list[str]] = {}
    for line in files(__package__).joinpath("texts", f"{name}.txt").read_text(encoding="utf-8").splitlines():
        if line.startswith("["):
            parts[line.strip("[]")] = lines = []
        elif line and not line.startswith("#"):
            lines.append(line)
    return parts
