"""Filler text: paragraphs of a chronicle, hardly ever with the same sentence twice, and texts of an exact length."""

from __future__ import annotations

from collections.abc import Sequence

from .dice import Dice
from .phrases import phrases, sections
from .words import WORDS

_SENTENCES = phrases(sections("prose")["sentences"], WORDS)


def sentence(dice: Dice) -> str:
    """Return a sentence that is irrelevant to every question."""
    text = dice.pick(_SENTENCES).fill(dice)
    return text[0].upper() + text[1:]


def paragraphs(dice: Dice, chars: int) -> list[str]:
    """Return paragraphs of together so many characters at most, and fewer by at most one sentence."""
    result: list[str] = []
    size = 0
    while size < chars:
        lines: list[str] = []
        for _ in range(dice.between(2, 6)):
            text = sentence(dice)
            if size + len(text) + 1 > chars:
                size = chars
                break
            lines.append(text)
            size += len(text) + 1
        if lines:
            result.append(" ".join(lines))
            size += 1
    return result


def exactly(dice: Dice, chars: int) -> str:
    """Return prose of almost exactly so many characters; the last sentence is cut at a word."""
    if chars < 2:
        return ""
    text = " ".join(paragraphs(dice, chars))
    while len(text) < chars:
        text = f"{text} {sentence(dice)}" if text else sentence(dice)
    return text[: chars - 1].rpartition(" ")[0].rstrip(",;") + "."


def hide(dice: Dice, lines: Sequence[str], chars: int, *, apart: bool = False) -> str:
    """Return a text of so many characters that contains the lines at random positions, in order.

    They are sentences within paragraphs or, if `apart`, lines of their own.
    """
    room = chars - sum(len(line) + 1 for line in lines)
    filler = paragraphs(dice, max(0, room))
    slots = sorted(dice.below(len(filler) + 1) for _ in lines)
    result: list[str] = []
    used = 0
    for index, paragraph in enumerate([*filler, ""]):
        here = []
        while used < len(lines) and slots[used] == index:
            here.append(lines[used])
            used += 1
        if apart or not paragraph:
            result += here
        elif here:
            first, stop, rest = paragraph.partition(". ")
            paragraph = " ".join([first + stop.strip(), *here, rest]) if rest else " ".join([paragraph, *here])
        if paragraph:
            result.append(paragraph)
    text = "\n".join(result)
    return f"{text}\n{exactly(dice, chars - len(text) - 1)}" if len(text) + 2 < chars else text
