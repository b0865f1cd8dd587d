"""What an oracle can do: which questions it understands, what it looks for in a text, how it comes to the answer."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Literal

from ..suites.words import MONTH
from . import solutions

_KEY = r"(?P<a>[A-Z]\w+ \w+ in [A-Z]\w+)"
_NAME = r"(?:[A-Z]\. )?[A-Z]\w+(?: &)?(?: [A-Z]\w+){1,2}"
_A, _B = f"(?P<a>{_NAME})", f"(?P<b>{_NAME})"
_BEGIN = r"(?m)(?:^|[.,] )"
"""Where a name can begin a clause: trying it everywhere would take long."""

_CODES = (
    ("code", rf"access code of the {_KEY} is (?P<b>\d+)"),
    ("code", rf"For the {_KEY}, the access code is (?P<b>\d+)"),
    ("code", rf"opens the {_KEY} needs the access code (?P<b>\d+)"),
    ("code", rf"(?P<b>\d+) is the access code of the {_KEY}"),
)
_MESSAGES = (("message", r"(?m)^(?P<a>\d{4}-\d\d-\d\d \| user \d+) \| (?P<b>.+)$"),)
_PAYMENTS = (
    ("paid", r"The (?P<a>\w+) office paid (?P<b>\d+) coins"),
    ("paid", r"received (?P<b>\d+) coins from the (?P<a>\w+) office"),
    ("paid", r"(?P<b>\d+) coins went from the (?P<a>\w+) office"),
    ("paid", r"(?P<b>\d+) coins were paid by the (?P<a>\w+) office"),
)
_RELATIONS = (
    ("works", rf"{_BEGIN}{_A} works for {_B}"),
    ("works", rf"{_BEGIN}{_A} has been employed by {_B}"),
    ("works", rf"{_BEGIN}{_B} is where {_A} works"),
    ("head", rf"{_BEGIN}{_A} is led by {_B}"),
    ("head", rf"The head of {_A} is {_B}"),
    ("head", rf"{_BEGIN}{_B} has been at the head of {_A}"),
    ("born", rf"{_BEGIN}{_A} was born in {_B}"),
    ("born", rf"The birthplace of {_A} is {_B}"),
    ("born", rf"{_BEGIN}{_B} is the town in which {_A} was born"),
    ("river", rf"{_BEGIN}{_A} lies on the river {_B}"),
    ("river", rf"The river {_B} flows through {_A}"),
    ("river", rf"At {_A}, a bridge crosses the river {_B}"),
)


@dataclass(frozen=True, slots=True)
class Skill:
    """One kind of question."""

    asked: str
    """A regular expression: the question, with what it is about as groups."""

    looks_for: tuple[tuple[str, str], ...]
    """Kinds of facts and the regular expressions that find them, with the groups `a` and `b`."""

    solve: Callable[..., dict[str, Any]]
    """From facts and the groups of the question to the outputs."""

    reads: Literal["nothing", "topics", "letter"] = "nothing"
    """What no expression can find: somebody must read it, be it a sub model."""

    given: tuple[str, ...] = field(default=())
    """What `solve` is told besides, before the groups of the question."""


_PART = r"(?: of (user \d+|\w+ 2031))?"
_HOPS = "works head born river"

SKILLS: tuple[Skill, ...] = (
    Skill(r"What is the access code of the (.+?)\?", _CODES, solutions.find_code),
    Skill(r"List all access codes of the (.+?), in any order", _CODES, solutions.find_codes),
    Skill(
        r"Which variables have the value (\d+) at the end",
        (("set", r"(?m)^VAR (?P<a>\w+) = (?:VAR )?(?P<b>\w+)$"),),
        solutions.follow,
    ),
    Skill(rf"How many of the messages{_PART} are about (\w+)\?", _MESSAGES, solutions.count, "topics"),
    Skill(
        rf"Among the messages{_PART}, are there more about (\w+) or more about (\w+)\?",
        _MESSAGES,
        solutions.compare,
        "topics",
    ),
    Skill(
        r"each of the two users has at least one message about (\w+) and at least one about (\w+)",
        _MESSAGES,
        solutions.pair_both,
        "topics",
    ),
    Skill(
        r"one of the two users has at least one message about (\w+) and none about (\w+)",
        _MESSAGES,
        solutions.pair_apart,
        "topics",
    ),
    Skill(
        r"Which three words come most often in the list\?",
        (("line", r"(?m)^(?P<a>[a-z]{4,8}(?: [a-z]{4,8})*)(?P<b>)$"),),
        solutions.most_common,
    ),
    Skill(r"Which office paid the most in all", _PAYMENTS, solutions.largest_sum),
    Skill(r"Who leads the firm that (.+?) works for\?", _RELATIONS, solutions.hop, given=(_HOPS[:10],)),
    Skill(
        r"In which town was the head of the firm that (.+?) works for born\?",
        _RELATIONS,
        solutions.hop,
        given=(_HOPS[:15],),
    ),
    Skill(
        r"On which river lies the town in which the head of the firm that (.+?) works for was born\?",
        _RELATIONS,
        solutions.hop,
        given=(_HOPS,),
    ),
    Skill(
        r"From the letter about order (\d+), take:[^\n]*",
        (("letter", r"(?m)^Letter about order (?P<a>\d+)\n(?P<b>.+\n.+)$"),),
        solutions.as_read,
        "letter",
    ),
)


@dataclass(frozen=True, slots=True)
class Question:
    """A question that was understood."""

    skill: Skill
    about: tuple[str, ...]
    """What `solve` is told besides the facts."""

    end: int
    """Where the question ends in its text. What comes later is what there is to read."""

    def concerns(self, subject: str) -> bool:
        """Whether a fact about that subject matters, as far as that can be seen without reading."""
        if self.skill.reads == "letter":
            return subject == self.about[0]
        return self.skill.reads == "nothing" or only(self) in subject


def understand(text: str) -> Question | None:
    """The question in a text, if it is one that can be answered here."""
    for skill in SKILLS:
        if (match := re.search(skill.asked, text)) is not None:
            return Question(skill, (*skill.given, *(group or "" for group in match.groups())), match.end())
    return None


def only(question: Question) -> str:
    """What the subject of a message must have in it for a question about a part of them."""
    if question.skill.solve not in (solutions.count, solutions.compare) or not question.about[0]:
        return ""
    part = question.about[0]
    return f"| {part}" if part.startswith("user") else f"2031-{MONTH.index(part.split()[0]) + 1:02d}-"


def find_facts(question: Question, text: str) -> solutions.Facts:
    """What an attentive reader would find."""
    found = [
        (kind, match["a"], match["b"])
        for kind, pattern in question.skill.looks_for
        for match in re.finditer(pattern, text)
    ]
    return [fact for fact in found if question.concerns(fact[1])]
