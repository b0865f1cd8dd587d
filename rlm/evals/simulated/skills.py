"""The skills of an oracle: the questions it recognizes, the facts it searches for, and how it derives the answer."""

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
_CLAUSE_START = r"(?m)(?:^|[.,] )"
"""The start of a clause: matching a name anywhere would be slow."""

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
    ("works", rf"{_CLAUSE_START}{_A} works for {_B}"),
    ("works", rf"{_CLAUSE_START}{_A} has been employed by {_B}"),
    ("works", rf"{_CLAUSE_START}{_B} is where {_A} works"),
    ("head", rf"{_CLAUSE_START}{_A} is led by {_B}"),
    ("head", rf"The head of {_A} is {_B}"),
    ("head", rf"{_CLAUSE_START}{_B} has been at the head of {_A}"),
    ("born", rf"{_CLAUSE_START}{_A} was born in {_B}"),
    ("born", rf"The birthplace of {_A} is {_B}"),
    ("born", rf"{_CLAUSE_START}{_B} is the town in which {_A} was born"),
    ("river", rf"{_CLAUSE_START}{_A} lies on the river {_B}"),
    ("river", rf"The river {_B} flows through {_A}"),
    ("river", rf"At {_A}, a bridge crosses the river {_B}"),
)


@dataclass(frozen=True, slots=True)
class Skill:
    """One kind of question."""

    asked: str
    """A regular expression for the question, with its parameters as groups."""

    looks_for: tuple[tuple[str, str], ...]
    """Kinds of facts with their regular expressions, which have the groups `a` and `b`."""

    solve: Callable[..., dict[str, Any]]
    """The function from facts and the parameters of the question to the outputs."""

    reads: Literal["nothing", "topics", "letter"] = "nothing"
    """What no expression finds, so that a model must read it."""

    given: tuple[str, ...] = field(default=())
    """Parameters of `solve` before those of the question."""


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
    """A recognized question."""

    skill: Skill
    about: tuple[str, ...]
    """Parameters of `solve` after the facts."""

    end: int
    """The end of the question in its text; what follows is the text to read."""

    def concerns(self, subject: str) -> bool:
        """Return whether a fact about a subject may matter, judged without reading it."""
        if self.skill.reads == "letter":
            return subject == self.about[0]
        return self.skill.reads == "nothing" or only(self) in subject


def understand(text: str) -> Question | None:
    """Return the question in a text, if there is a skill for it."""
    for skill in SKILLS:
        if (match := re.search(skill.asked, text)) is not None:
            return Question(skill, (*skill.given, *(group or "" for group in match.groups())), match.end())
    return None


def only(question: Question) -> str:
    """Return the text that the subject of a message must contain for a question about a part of the messages."""
    if question.skill.solve not in (solutions.count, solutions.compare) or not question.about[0]:
        return ""
    part = question.about[0]
    return f"| {part}" if part.startswith("user") else f"2031-{MONTH.index(part.split()[0]) + 1:02d}-"


def find_facts(question: Question, text: str) -> solutions.Facts:
    """Return the facts in a text that concern the question."""
    facts = [
        (kind, match["a"], match["b"])
        for kind, pattern in question.skill.looks_for
        for match in re.finditer(pattern, text)
    ]
    return [fact for fact in facts if question.concerns(fact[1])]
