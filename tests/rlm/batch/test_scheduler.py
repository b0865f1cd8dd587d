"""How many items a worker gets, and when their leases start and end."""

from __future__ import annotations

import pytest

from rlm.batch.executors import scheduler
from rlm.batch.executors.scheduler import QUICK_S, LeasedItems, capacity
from rlm.batch.item import Item, Outcome, lost


def _item(key: str, lease: float = 10.0, *, exclusive: bool = False) -> Item:
    return Item(key=key, name=key, text="", folder="", lease=lease, exclusive=exclusive)


def _outcome(seconds: float) -> Outcome:
    return Outcome("k", "k", "Submitted", seconds=seconds)


@pytest.mark.parametrize(
    ("at_once", "last", "wanted"),
    [
        (8, None, 8),
        (8, _outcome(QUICK_S / 2), 16),
        (1, _outcome(QUICK_S / 2), 5),
        (8, _outcome(QUICK_S), 8),
        (8, lost("k", "k", "its worker died", worker="w", seconds=0.1), 8),
    ],
)
def test_only_quick_items_are_sent_ahead(at_once: int, last: Outcome | None, wanted: int) -> None:
    assert capacity(at_once, last) == wanted


class _Clock:
    """A clock in place of the time module."""

    def __init__(self) -> None:
        self.now = 1000.0

    def monotonic(self) -> float:
        return self.now


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> _Clock:
    made = _Clock()
    monkeypatch.setattr(scheduler, "time", made)
    return made


def test_a_lease_runs_from_the_turn_of_its_item(clock: _Clock) -> None:
    items = LeasedItems(2)
    for key in "abcd":
        items.add(_item(key))
    clock.now += 9
    assert items.overdue() is None
    assert items.next_deadline() == 1010
    items.remove("b")  # and so it is the turn of c
    clock.now += 2
    late = items.overdue()
    assert late is not None
    assert late.key == "a"
    items.remove("a")
    assert items.overdue() is None
    assert items.next_deadline() == 1019
    clock.now += 10
    late = items.overdue()
    assert late is not None
    assert late.key == "c"


def test_a_lease_that_begins_anew_is_counted_from_then(clock: _Clock) -> None:
    items = LeasedItems(1)
    items.add(_item("a"))
    clock.now += 11
    items.renew("a", ago=3)
    items.renew("never given")
    assert items.overdue() is None
    assert items.next_deadline() == clock.now - 3 + 10


def test_all_that_a_worker_has_is_lost_with_it() -> None:
    items = LeasedItems(1)
    assert not items
    items.add(_item("a"))
    items.add(_item("b", exclusive=True))
    assert (len(items), items.exclusive) == (2, True)
    assert [(one.key, one.ending, one.error) for one in items.lose("w", "it went")] == [
        ("a", "Lost", "its worker w was lost: it went"),
        ("b", "Lost", "its worker w was lost: it went"),
    ]
