"""Suite `words`: aggregation over a whole text, the most common words of a long list."""

from __future__ import annotations

from collections import Counter

from .dice import Dice
from .prose import exactly
from .suite import GeneratedTask, Suite

_SYLLABLES = [a + b for a in "bdfgklmnprstvz" for b in "aeio"]
_QUESTION = (
    "After a note at the top, doc is a long list of made-up words, twelve a line. "
    "Which three words come most often in the list? List them, in any order."
)
_NOTE = 120


def _make(dice: Dice, length: int) -> GeneratedTask:
    words: dict[str, None] = {}
    while len(words) < 160:
        words["".join(dice.pick(_SYLLABLES) for _ in range(dice.between(2, 4)))] = None
    weights = [44, 40, 36, 24, 22, 20, *(dice.between(2, 14) for _ in range(len(words) - 6))]
    pool = [word for word, weight in zip(words, weights, strict=True) for _ in range(weight)]
    mean = sum(len(word) + 1 for word in pool) / len(pool)
    while True:
        random, size = dice.random, len(pool)
        listed = [pool[int(random() * size)] for _ in range(int((length - _NOTE) * 0.995 / mean))]
        while sum(map(len, listed)) + len(listed) > length - 60:
            del listed[-12:]
        ranks = Counter(listed).most_common(4)
        if ranks[2][1] > ranks[3][1]:
            break
    text = "\n".join(" ".join(listed[start : start + 12]) for start in range(0, len(listed), 12))
    note = "Note: " + exactly(dice, length - len(text) - 7)
    answer = sorted(word for word, _ in ranks[:3])
    return GeneratedTask(
        _QUESTION, {"doc": f"{note}\n{text}"}, {"answer": answer}, {"counts": [count for _, count in ranks]}
    )


WORDS = Suite(
    "words",
    "Aggregate over a whole text: the three most common words of a long list.",
    "doc: str -> answer: list[str]",
    {"answer": "set"},
    _make,
)
