"""Sentences with slots: `"{first} {last} mended the {thing}."`, filled from lists of words, quickly.

Sentences and words are in text files beside this (`texts/`), in sections that begin with their name in brackets.
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
    """One sentence with slots, ready to be filled."""

    form: str
    slots: tuple[Sequence[str], ...]

    @classmethod
    def of(cls, text: str, words: Words) -> Phrase:
        """The sentence, with the words that each of its slots can take."""
        form = _SLOT.sub("%s", text.replace("%", "%%"))
        return cls(form, tuple(words[name] for name in _SLOT.findall(text)))

    def say(self, dice: Dice) -> str:
        """The sentence with every slot filled."""
        random = dice.random
        return self.form % tuple([words[int(random() * len(words))] for words in self.slots])

    def literals(self) -> list[str]:
        """What stays the same however it is filled."""
        return [part.replace("%%", "%") for part in self.form.split("%s")]


def phrases(lines: Iterable[str], words: Words) -> tuple[Phrase, ...]:
    """Sentences, one a line."""
    return tuple(Phrase.of(line, words) for line in lines)


def sections(name: str) -> dict[str, list[str]]:
    """The sections of a text file by their names: the lines of each."""
    found: dict[str, list[str]] = {}
    for line in files(__package__).joinpath("texts", f"{name}.txt").read_text(encoding="utf-8").splitlines():
        if line.startswith("["):
            found[line.strip("[]")] = lines = []
        elif line and not line.startswith("#"):
            lines.append(line)
    return found
