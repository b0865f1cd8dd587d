"""What `constrained.py` asks: short extractions with known answers, and one text of a given length."""

from __future__ import annotations

import json
from typing import Any

from outlines.types import Regex
from pydantic import BaseModel, Field

_PEOPLE = [
    ("Alice Smith", 34, "Paris"),
    ("Bob Jones", 41, "Leeds"),
    ("Carla Gomez", 27, "Madrid"),
    ("David Brown", 52, "Chicago"),
    ("Emma Wilson", 19, "Dublin"),
    ("Frank Miller", 63, "Berlin"),
    ("Grace Lee", 45, "Seoul"),
    ("Henry Adams", 38, "Boston"),
    ("Irene Novak", 29, "Prague"),
    ("Jack Turner", 57, "Sydney"),
    ("Karen White", 22, "Oslo"),
    ("Liam Murphy", 48, "Cork"),
]
_FORMS = [
    "{name} is {age} years old and lives in {city}.",
    "{name}, {age}, of {city}, was seen at the station on Monday.",
    "Our new colleague from {city} is called {name} and has just turned {age}.",
]
_INSTRUCTIONS = (
    "Read the sentence and answer with a JSON object and nothing else. It has three fields: name is the full name of "
    "the person, age is the age in years as a number, and city is the name of the city.\n"
    'Sentence: Mary Stone, 30, from Rome, came second.\nJSON: {"name": "Mary Stone", "age": 30, "city": "Rome"}\n'
)


class Person(BaseModel):
    """What is extracted. The bound on the name is what makes a regular expression of it large."""

    name: str = Field(max_length=40)
    age: int
    city: str


STORY = "Write a long story about the sea."
PROSE = Regex(r"[^\"{}\[\]]+")
"""Allows what the model would write anyway, so that every contender writes the same number of tokens."""


OTHER = f"{_INSTRUCTIONS}Sentence: Nobody came.\nJSON:"


def cases(count: int) -> list[tuple[str, Person]]:
    """Prompts that share a long beginning, as the tiers of an adapter do, and the right answers."""
    found = []
    for number in range(count):
        name, age, city = _PEOPLE[number % len(_PEOPLE)]
        sentence = _FORMS[number % len(_FORMS)].format(name=name, age=age, city=city)
        found.append((f"{_INSTRUCTIONS}Sentence: {sentence}\nJSON:", Person(name=name, age=age, city=city)))
    return found


def values(text: str) -> dict[str, Any]:
    """The object in the text, read kindly: a free answer may have words or a fence around it."""
    start, end = text.find("{"), text.rfind("}")
    try:
        found = json.loads(text[start : end + 1])
    except ValueError:
        return {}
    return found if isinstance(found, dict) else {}


def score(text: str, right: Person) -> tuple[bool, float]:
    """Whether the whole text is a valid person, and the share of values that are right."""
    try:
        Person.model_validate_json(text)
        valid = True
    except ValueError:
        valid = False
    got = values(text)
    return valid, sum(got.get(name) == value for name, value in right.model_dump().items()) / 3
