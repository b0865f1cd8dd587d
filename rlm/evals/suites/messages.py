"""Messages to a shop, each about one topic that no single word gives away: `order`, `card` or `parcel` are in many."""

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
_SAID = {name: phrases(lines, _SLOTS) for name, lines in sections("messages").items()}
_OPENINGS, _CLOSINGS = _SAID["opening"], _SAID["closing"]

SAYINGS: dict[str, tuple[Phrase, ...]] = {topic: _SAID[topic] for topic in TOPICS}
"""How people write about each topic."""

ASIDES = (*_OPENINGS, *_CLOSINGS)
"""What they write besides, and means nothing."""


def message(dice: Dice, topic: str) -> str:
    """A message about a topic, on one line."""
    said = dice.pick(SAYINGS[topic]).say(dice)
    parts = [said[0].upper() + said[1:]]
    if dice.chance(0.4):
        parts.insert(0, dice.pick(_OPENINGS).say(dice))
    if dice.chance(0.3):
        parts.append(dice.pick(_CLOSINGS).say(dice))
    return " ".join(parts)
