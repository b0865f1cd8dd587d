"""Messages to a shop, each about one topic that no single word reveals: `order`, `card` and `parcel` are in many."""

from __future__ import annotations

from .dice import Dice
from .phrases import Phrase, phrases, sections
from .words import WORDS

TOPICS: dict[str, str] = {
    "delivery": "something ordered has not come, came late or went to the wrong place",
    "payment": "money: a charge, an invoice, a discount or a refund is not right",
    "fault": "a thing that arrived does not work or is damaged",
    "account": "signing in, a password, or the personal data that the shop keeps",
    "cancellation": "an order or a subscription is to be stopped",
    "praise": "satisfaction, and nothing is asked for",
}

_SLOTS = {**WORDS, "number": WORDS["number"][5:]}
_SECTIONS = {name: phrases(lines, _SLOTS) for name, lines in sections("messages").items()}
_OPENINGS, _CLOSINGS = _SECTIONS["opening"], _SECTIONS["closing"]

SAYINGS: dict[str, tuple[Phrase, ...]] = {topic: _SECTIONS[topic] for topic in TOPICS}
"""Phrases about each topic."""

ASIDES = (*_OPENINGS, *_CLOSINGS)
"""Phrases without a topic."""


def message(dice: Dice, topic: str) -> str:
    """Return a message about a topic, on one line."""
    sentence = dice.pick(SAYINGS[topic]).fill(dice)
    parts = [sentence[0].upper() + sentence[1:]]
    if dice.chance(0.4):
        parts.insert(0, dice.pick(_OPENINGS).fill(dice))
    if dice.chance(0.3):
        parts.append(dice.pick(_CLOSINGS).fill(dice))
    return " ".join(parts)
