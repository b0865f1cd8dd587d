"""What `tiers.py` asks: 45 short texts of five kinds, what is wanted of each, and the right values.

Only plain data and pydantic: peers read the same cases in an environment of their own.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

from pydantic import BaseModel


class Person(BaseModel):
    """The person that the text is about."""

    name: str
    age: int
    city: str


class Invoice(BaseModel):
    """What the invoice says."""

    vendor: str
    total: float
    currency: Literal["EUR", "USD", "GBP"]


class Ticket(BaseModel):
    """What the customer writes about."""

    topic: Literal["billing", "delivery", "login"]


class Guests(BaseModel):
    """The people in the text, in the order in which they are named."""

    guests: list[str]


class Line(BaseModel):
    """One line of an order."""

    item: str
    quantity: int


class Order(BaseModel):
    """What is ordered, and until when."""

    customer: str
    line: Line
    urgent: bool


KINDS: dict[str, type[BaseModel]] = {one.__name__: one for one in (Person, Invoice, Ticket, Guests, Order)}


@dataclass(frozen=True)
class Case:
    kind: str
    text: str
    right: dict[str, Any]


def score(right: dict[str, Any], given: Any) -> bool:
    """Whether every value is right: texts without regard to case and to what stands around them."""
    return bool(_plain(right) == _plain(given))


def _plain(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _plain(one) for name, one in value.items()}
    if isinstance(value, list):
        return [_plain(one) for one in value]
    return value.strip(" .").casefold() if isinstance(value, str) else value


def cases() -> list[Case]:
    """All of them, kinds in turn."""
    lists = [_people(), _invoices(), _tickets(), _guests(), _orders()]
    return [case for row in zip(*lists, strict=True) for case in row]


def _people() -> list[Case]:
    people = (
        ("Alice Smith", 34, "Paris", "{0} is {1} years old and lives in {2}."),
        ("Bob Jones", 41, "Leeds", "{0}, {1}, of {2}, was seen at the station on Monday."),
        ("Carla Gomez", 27, "Madrid", "Our new colleague from {2} is called {0} and has just turned {1}."),
        ("David Brown", 52, "Chicago", "At {1}, {0} has moved to {2} to open a bakery."),
        ("Emma Wilson", 19, "Dublin", "The youngest in the race was {0} ({1}), who trains in {2}."),
        ("Frank Miller", 63, "Berlin", "In {2} we met {0}, a painter of {1}."),
        ("Grace Lee", 45, "Seoul", "{2} is where {0} works; she will be 46 next year and is {1} now."),
        ("Henry Adams", 38, "Boston", "Mr {0} from {2} gave his age as {1}."),
        ("Irene Novak", 29, "Prague", "{0} was born in Vienna, is {1}, and has lived in {2} since 2019."),
    )
    return [Case("Person", form.format(*who), dict(zip(("name", "age", "city"), who, strict=True)))
            for *who, form in people]  # fmt: skip


def _invoices() -> list[Case]:
    given = (
        ("Nordwind GmbH", 118.4, "EUR", "Invoice of Nordwind GmbH. Net 99.50, tax 18.90. To pay: 118.40 EUR."),
        ("Harbor Tools", 1250.0, "USD", "Harbor Tools bills you $1,250.00 for one drill press."),
        ("Lake & Sons", 74.99, "GBP", "Receipt. Lake & Sons, London. Total 74.99 pounds sterling, paid by card."),
        ("Papier Blanc", 36.0, "EUR", "Papier Blanc: 3 boxes of paper, 12.00 each. Total: 36.00 euros."),
        ("Blue Ridge Coffee", 41.25, "USD", "Thank you for shopping at Blue Ridge Coffee! Amount due: USD 41.25."),
        ("Mersey Print", 310.5, "GBP", "Mersey Print Ltd is owed nothing by Mersey Print; invoice total GBP 310.50."),
        ("Vito Ceramics", 89.9, "EUR", "From: Vito Ceramics. Two vases. Sum payable within 14 days: EUR 89.90"),
        ("Acme Garage", 642.0, "USD", "Acme Garage, repair of brakes: parts 402, labor 240, in all 642 dollars."),
        ("Tyne Books", 15.0, "GBP", "Tyne Books. One used atlas. We received 15.00 GBP with thanks."),
    )
    return [Case("Invoice", text, {"vendor": vendor, "total": total, "currency": currency})
            for vendor, total, currency, text in given]  # fmt: skip


def _tickets() -> list[Case]:
    given = (
        ("billing", "I was charged twice for my subscription this month."),
        ("delivery", "My parcel was to arrive on Tuesday and is still not here."),
        ("login", "The site says that my password is wrong, and the reset mail never comes."),
        ("billing", "Please send me the invoice for March; the amount on my card looks too high."),
        ("delivery", "The courier left the box at the wrong house."),
        ("login", "I cannot sign in since I changed my phone: the code is refused."),
        ("billing", "Why do I pay a fee of 4.99 that nobody told me about? I want my money back."),
        ("delivery", "The tracking number has not moved for a week. Where is my order?"),
        ("login", "My account is locked after three attempts."),
    )
    return [Case("Ticket", text, {"topic": topic}) for topic, text in given]


def _guests() -> list[Case]:
    given = (
        ("Anna, Boris and Chen will come to dinner.", ["Anna", "Boris", "Chen"]),
        ("We have invited Dora. Emil cannot come, but Farid will.", ["Dora", "Emil", "Farid"]),
        ("Present: Gus; Hanna.", ["Gus", "Hanna"]),
        ("Only Ivan answered the letter.", ["Ivan"]),
        ("The table is for Jan, Kira, Leo and Mona.", ["Jan", "Kira", "Leo", "Mona"]),
        ("Nina brought Otto along.", ["Nina", "Otto"]),
        ("First came Pia, then Quentin, and last Rosa.", ["Pia", "Quentin", "Rosa"]),
        ("Sam and Tara sit next to Uwe.", ["Sam", "Tara", "Uwe"]),
        ("Vera wrote to Walter.", ["Vera", "Walter"]),
    )
    return [Case("Guests", text, {"guests": guests}) for text, guests in given]


def _orders() -> list[Case]:
    given = (
        ("Please send 12 chairs to Olsen today, it is urgent.", "Olsen", "chairs", 12, True),
        ("Ruiz orders 3 lamps. No hurry.", "Ruiz", "lamps", 3, False),
        ("Urgent! 40 bricks for Tanaka.", "Tanaka", "bricks", 40, True),
        ("Customer Weber wants 7 mirrors whenever they are ready.", "Weber", "mirrors", 7, False),
        ("Dupont needs 5 ladders at once, please hurry.", "Dupont", "ladders", 5, True),
        ("Order of Kowalski: 100 nails. Next month is fine.", "Kowalski", "nails", 100, False),
        ("For Haddad, as soon as you can: 2 doors. This is urgent.", "Haddad", "doors", 2, True),
        ("Silva would like 9 plates; there is plenty of time.", "Silva", "plates", 9, False),
        ("Rush order: 15 tents, customer Larsen.", "Larsen", "tents", 15, True),
    )
    return [
        Case("Order", text, {"customer": who, "line": {"item": item, "quantity": number}, "urgent": urgent})
        for text, who, item, number, urgent in given
    ]
