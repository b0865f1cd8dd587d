"""Filler: paragraphs of a local chronicle in which hardly a sentence comes twice, and texts of an exact length."""

from __future__ import annotations

from collections.abc import Sequence

from .dice import Dice
from .phrases import phrases, sections
from .words import WORDS

_SENTENCES = phrases(sections("prose")["sentences"], WORDS)


def sentence(dice: Dice) -> str:
    """One sentence that means nothing to any question."""
    said = dice.pick(_SENTENCES).say(dice)
    return said[0].upper() + said[1:]


def paragraphs(dice: Dice, chars: int) -> list[str]:
    """Paragraphs of together about so many characters: no more, and less by at most one sentence."""
    made: list[str] = []
    size = 0
    while size < chars:
        lines: list[str] = []
        for _ in range(dice.between(2, 6)):
            said = sentence(dice)
            if size + len(said) + 1 > chars:
                size = chars
                break
            lines.append(said)
            size += len(said) + 1
        if lines:
            made.append(" ".join(lines))
            size += 1
    return made


def exactly(dice: Dice, chars: int) -> str:
    """Prose of almost exactly that many characters: the last sentence is cut at a word."""
    if chars < 2:
        return ""
    text = " ".join(paragraphs(dice, chars))
    while len(text) < chars:
        text = f"{text} {sentence(dice)}" if text else sentence(dice)
    return text[: chars - 1].rpartition(" ")[0].rstrip(",;") + "."


def hide(dice: Dice, lines: Sequence[str], chars: int, *, apart: bool = False) -> str:
    """A text of so many characters in which the lines stand at random places, in their order.

    They are sentences inside of paragraphs, or, if `apart`, lines of their own.
    """
    room = chars - sum(len(line) + 1 for line in lines)
    filler = paragraphs(dice, max(0, room))
    slots = sorted(dice.below(len(filler) + 1) for _ in lines)
    made: list[str] = []
    taken = 0
    for index, paragraph in enumerate([*filler, ""]):
        here = []
        while taken < len(lines) and slots[taken] == index:
            here.append(lines[taken])
            taken += 1
        if apart or not paragraph:
            made += here
        elif here:
            first, stop, rest = paragraph.partition(". ")
            paragraph = " ".join([first + stop.strip(), *here, rest]) if rest else " ".join([paragraph, *here])
        if paragraph:
            made.append(paragraph)
    text = "\n".join(made)
    return f"{text}\n{exactly(dice, chars - len(text) - 1)}" if len(text) + 2 < chars else text
