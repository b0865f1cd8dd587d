"""Functions from facts to answers. An oracle calls them, or writes their source into its cells.

A fact is `(kind, subject, value)`. The functions use nothing but builtins.
"""

from __future__ import annotations

from typing import Any

Facts = list[tuple[str, str, str]]


def find_code(facts: Facts, key: str) -> dict[str, Any]:
    """Return the code of one key."""
    held = [int(value) for _, subject, value in facts if subject == key]
    return {"answer": held[0] if held else 0}


def find_codes(facts: Facts, key: str) -> dict[str, Any]:
    """Return all codes of one key."""
    return {"answer": sorted({int(value) for _, subject, value in facts if subject == key})}


def follow(facts: Facts, wanted: str) -> dict[str, Any]:
    """Return the variables that have a value in the end."""
    known: dict[str, str] = {}
    for _, name, source in facts:
        known[name] = known.get(source, source)
    return {"answer": sorted(name for name, value in known.items() if value == wanted)}


def count(facts: Facts, part: str, topic: str) -> dict[str, Any]:
    """Return how many messages are about a topic."""
    return {"answer": sum(kind == topic for kind, _, _ in facts)}


def compare(facts: Facts, part: str, first: str, second: str) -> dict[str, Any]:
    """Return which of two topics is more frequent."""
    counts = [sum(kind == topic for kind, _, _ in facts) for topic in (first, second)]
    return {"answer": "same" if counts[0] == counts[1] else first if counts[0] > counts[1] else second}


def pair_both(facts: Facts, a: str, b: str) -> dict[str, Any]:
    """Pairs of users who both wrote about both topics."""
    wrote: dict[int, set[str]] = {}
    for kind, subject, _ in facts:
        wrote.setdefault(int(subject.split()[-1]), set()).add(kind)
    fit = sorted(user for user, topics in wrote.items() if a in topics and b in topics)
    return {"answer": [[first, other] for first in fit for other in fit if first < other]}


def pair_apart(facts: Facts, a: str, b: str) -> dict[str, Any]:
    """Pairs of users of whom one wrote about one topic only, and the other about the other."""
    wrote: dict[int, set[str]] = {}
    for kind, subject, _ in facts:
        wrote.setdefault(int(subject.split()[-1]), set()).add(kind)
    with_a = [user for user, topics in wrote.items() if a in topics and b not in topics]
    with_b = [user for user, topics in wrote.items() if b in topics and a not in topics]
    return {"answer": sorted(sorted([first, other]) for first in with_a for other in with_b)}


def most_common(facts: Facts) -> dict[str, Any]:
    """Return the three most common words."""
    counts: dict[str, int] = {}
    for _, line, _ in facts:
        for word in line.split():
            counts[word] = counts.get(word, 0) + 1
    return {"answer": sorted(sorted(counts, key=lambda word: -counts[word])[:3])}


def largest_sum(facts: Facts) -> dict[str, Any]:
    """Return who paid most in all, and how much."""
    totals: dict[str, int] = {}
    for _, office, amount in facts:
        totals[office] = totals.get(office, 0) + int(amount)
    office = max(totals, key=lambda name: totals[name]) if totals else "none"
    return {"office": office, "total": totals.get(office, 0)}


def hop(facts: Facts, wanted: str, start: str) -> dict[str, Any]:
    """Return what is reached from a start, step by step."""
    known = {(kind, subject): value for kind, subject, value in facts}
    found = start
    for kind in wanted.split():
        found = known.get((kind, found), "unknown")
    return {"answer": found}


def as_read(facts: Facts, number: str) -> dict[str, Any]:
    """Return the record that was read."""
    import json

    return dict(json.loads(facts[0][2])) if facts else {}
