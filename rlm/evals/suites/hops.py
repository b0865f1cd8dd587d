"""Suite `hops`: multi-hop questions over documents about people, firms and towns that refer to each other."""

from __future__ import annotations

from collections.abc import Sequence

from .dice import Dice
from .prose import exactly, paragraphs
from .suite import GeneratedTask, Suite
from .words import FIRST, LAST, PLACE, THING

_WORKS = ("{a} works for {b}.", "For some years now, {a} has been employed by {b}.", "{b} is where {a} works.")
_HEAD = ("{a} is led by {b}.", "The head of {a} is {b}.", "Since last spring, {b} has been at the head of {a}.")
_BORN = ("{a} was born in {b}.", "The birthplace of {a} is {b}.", "{b} is the town in which {a} was born.")
_RIVER = ("{a} lies on the river {b}.", "The river {b} flows through {a}.", "At {a}, a bridge crosses the river {b}.")
_ASIDE = (
    "{a} once applied to {firm} and was turned down.",
    "A cousin of {a} lives in {town}.",
    "{a} likes to visit {town} in summer.",
    "There was a rumour that {a} would buy {firm}.",
)
_FORM = (
    "doc is a collection of short articles about people, firms and towns; each begins with a title line that starts "
    "with '# '. What an article says about its subject can be looked up in it, and the rest in other articles. "
)
_QUESTION = (
    "Who leads the firm that {a} works for?",
    "In which town was the head of the firm that {a} works for born?",
    "On which river lies the town in which the head of the firm that {a} works for was born?",
)
_ARTICLE = 700
_INITIALS = [f"{chr(65 + number)}. " for number in range(26)]
_SIDES = [f"{side} " for side in ("New", "Old", "Upper", "Lower", "Great", "Little", "East", "West", "North", "South")]


def _make(dice: Dice, length: int) -> GeneratedTask:
    articles = max(6, length // _ARTICLE)
    towns = _names(dice, max(2, min(1_000, articles // 4)), PLACE, ("Hill", "Bay", "Cross", "End"), " ", _SIDES)
    firms = _names(dice, max(2, min(2_000, articles // 4)), LAST, LAST, " & ")
    people = _names(dice, max(3, articles - len(towns) - len(firms)), FIRST, LAST, " ")
    rivers = _names(dice, len(towns), PLACE, ("Water", "Brook", "Stream"), " ", _SIDES)
    works = {person: dice.pick(firms) for person in people}
    head = dict(zip(firms, dice.shuffled(people), strict=False))
    born = {person: dice.pick(towns) for person in people}
    river = dict(zip(towns, rivers, strict=True))

    def article(subject: str, forms: dict[tuple[str, ...], str], room: int) -> str:
        facts = [dice.pick(phrasings).format(a=subject, b=value) for phrasings, value in forms.items()]
        facts.append(dice.pick(_ASIDE).format(a=dice.pick(people), firm=dice.pick(firms), town=dice.pick(towns)))
        room -= len(subject) + 3 + sum(len(fact) + 1 for fact in facts)
        filler = paragraphs(dice, max(0, room))
        body = dice.shuffled([*filler, " ".join(dice.shuffled(facts))])
        return "\n".join([f"# {subject}", *body])

    subjects = dice.shuffled([*people, *firms, *towns])
    room = (length - 120) // len(subjects) - 2
    articles_text = []
    for subject in subjects:
        if subject in works:
            articles_text.append(article(subject, {_WORKS: works[subject], _BORN: born[subject]}, room))
        elif subject in head:
            articles_text.append(article(subject, {_HEAD: head[subject]}, room))
        else:
            articles_text.append(article(subject, {_RIVER: river[subject]}, room))
    text = "\n\n".join(articles_text)
    if len(text) + 20 < length:
        text = f"{text}\n\n# {dice.pick(THING).title()}\n"
        text += exactly(dice, length - len(text))
    hops = dice.between(2, 4)
    start = dice.pick(people)
    leader = head[works[start]]
    answer = (leader, born[leader], river[born[leader]])[hops - 2]
    return GeneratedTask(_FORM + _QUESTION[hops - 2].format(a=start), {"doc": text}, {"answer": answer}, {"hops": hops})


def _names(
    dice: Dice,
    count: int,
    first: Sequence[str],
    second: Sequence[str],
    between: str,
    prefixes: Sequence[str] = _INITIALS,
) -> list[str]:
    """Return distinct names, with a prefix if there are too few combinations."""
    needs_prefix = count > len(first) * len(second) // 3
    names: dict[str, None] = {}
    while len(names) < count:
        names[f"{dice.pick(prefixes) if needs_prefix else ''}{dice.pick(first)}{between}{dice.pick(second)}"] = None
    return list(names)


HOPS = Suite(
    "hops",
    "Follow two to four references from one document to the next.",
    "doc: str -> answer: str",
    {"answer": "exact"},
    _make,
)
