"""A batch, driven: items go from their source to the engine, what becomes of them into the ledger and the results."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

from ..tasks import TaskError
from .errors import BatchError, Unfit
from .executors.base import Engine
from .item import Item
from .ledger import Ledger, SameName
from .outcome import ENDINGS, Outcome
from .results_file import Results
from .source import Source, lease_of

LOSSES = 3
BAD = ("Failed", "Lost")


@dataclass(frozen=True, slots=True)
class Rules:
    """When a batch ends before all is done."""

    max_cost: float | None = None
    """In dollars, for the whole batch: when it is reached, no more items are started."""

    fail_on_error: float | None = None
    """The share of all items, from 0 to 1, that may end badly."""

    losses: int = LOSSES
    """How often an item may be lost, with its worker or its sandbox, before it is given up."""


class Batch:
    """One batch. `prepare` first, then iterate over `run`; `stop` may be called from a signal handler."""

    def __init__(
        self, source: Source, ledger: Ledger, rules: Rules | None = None, *, tell: Callable[[str], None] | None = None
    ) -> None:
        """`tell` is told of what happens that no outcome says: that an item was lost and is run again."""
        self.rules = rules or Rules()
        self.tell = tell
        self.total = 0
        self.endings: dict[str, int] = dict.fromkeys(ENDINGS, 0)
        """How many items have ended how, earlier sessions included."""

        self.cost_usd: float | None = None
        """What all attempts have cost, earlier sessions included."""

        self.unpriced = 0
        """Calls of earlier sessions that no price was known of."""

        self.why: str | None = None
        """Why no more items are started, if that is so."""

        self.running: dict[str, tuple[int, Item]] = {}
        """The items that the engine has, by key, with their numbers."""

        self._source, self._ledger = source, ledger
        self._again: deque[tuple[int, Item]] = deque()
        self._fed: Iterator[tuple[int, Item]] = iter(())

    @property
    def done(self) -> int:
        """How many items have ended, earlier sessions included."""
        return sum(self.endings.values())

    @property
    def bad(self) -> int:
        """How many items have ended badly."""
        return sum(self.endings[ending] for ending in BAD)

    @property
    def failing(self) -> bool:
        """Whether more items have ended badly than may."""
        share = self.rules.fail_on_error
        return self.bad > (share or 0.0) * self.total

    def prepare(self, *, retry_failed: bool = False, look: Callable[[Item, object], None] | None = None) -> None:
        """Read and check everything once; `look` is shown each item and its task.

        Raises `TaskError`, and `BatchError` where two items have one name.
        """

        def entries() -> Iterator[tuple[str, str, float]]:
            for item, base, digest in self._source.checked():
                if look is not None:
                    look(item, base.task)
                yield digest, item.name, lease_of(base)

        try:
            self.total = self._ledger.begin(entries())
        except SameName as error:
            raise BatchError(self._source.same_name(error.first, error.second, error.name)) from None
        if retry_failed and not self._is_spent(self._ledger.spent()):
            self._ledger.forget(BAD)
        elif retry_failed and self.tell is not None:
            self.tell(f"--max-cost ${self.rules.max_cost:g} is spent: what failed is not done again")

    def run(self, engine: Engine, results: Results) -> Iterator[Outcome]:
        """Run what is missing, and yield what becomes of each item once it is written down."""
        totals = self._ledger.totals()
        self.endings |= {ending: one.count for ending, one in totals.items()}
        self.cost_usd = self._ledger.spent()
        self.unpriced = sum(one.unpriced for one in totals.values())
        self._fed = self._missing()
        self._judge()
        return self._run(engine, results)

    def _run(self, engine: Engine, results: Results) -> Iterator[Outcome]:
        while True:
            for outcome in engine.run(self._items()):
                if outcome.key not in self.running:
                    continue  # left over from a batch that was broken off on the same engine
                number, item = self.running.pop(outcome.key)
                if outcome.stop:
                    raise Unfit(outcome.error or "a machine lacks what every item needs")
                settled = self._settled(outcome, number, item)
                if settled is not None and results.write(number, settled):
                    self._count(settled)
                    yield settled
            if not self._again or self.why is not None:
                return

    def stop(self, why: str) -> None:
        """Start no more items. What runs goes on to its end."""
        self.why = self.why or why

    def _missing(self) -> Iterator[tuple[int, Item]]:
        changed = None
        try:
            for number, item in enumerate(self._source.read(), 1):
                # What is read from now on would go under the key of what was there before.
                if (changed := self._source.changed()) is not None:
                    break
                found = self._ledger.to_do(number)
                if found is not None:
                    yield number, replace(item, key=found[0], lease=found[1])
        except TaskError:
            if (changed := self._source.changed()) is None:
                raise
        if changed is not None:
            said = "was changed meanwhile; the same command goes on with what it says now"
            self.stop(f"{changed} {said if changed.exists() else 'is gone; put it back, and the same command goes on'}")

    def _items(self) -> Iterator[Item]:
        """What the engine is given, when it has room for more."""
        while self.why is None:
            following = self._again.popleft() if self._again else next(self._fed, None)
            if following is None:
                return
            number, item = following
            self._ledger.lease(item.key, item.lease)
            self.running[item.key] = (number, item)
            yield item

    def _settled(self, outcome: Outcome, number: int, item: Item) -> Outcome | None:
        """The outcome, if that is the end of it; None where the item is tried again."""
        if outcome.ending != "Lost":
            return outcome
        losses = self._ledger.lose(item.key)
        if losses < self.rules.losses:
            cost = _cost(outcome)
            self._ledger.spend(item.key, cost)  # what the last attempt cost comes with its outcome
            self._spend(cost)
            self._again.append((number, replace(item, alone=True)))
            if self.tell is not None:
                self.tell(f"{item.name}: {outcome.error}; it is run again")
            return None
        error = f"given up after it was lost {losses} times; the last time, {outcome.error}"
        return replace(outcome, error=error)

    def _count(self, outcome: Outcome) -> None:
        self.endings[outcome.ending] += 1
        self._spend(_cost(outcome))

    def _spend(self, cost: float | None) -> None:
        if cost is not None:
            self.cost_usd = (self.cost_usd or 0.0) + cost
        self._judge()

    def _is_spent(self, cost: float | None) -> bool:
        return self.rules.max_cost is not None and (cost or 0.0) >= self.rules.max_cost

    def _judge(self) -> None:
        most, share = self.rules.max_cost, self.rules.fail_on_error
        if self._is_spent(self.cost_usd) and self.done < self.total:
            self.stop(f"--max-cost ${most:g} is spent; with a larger one, the same command does the rest")
        if share is not None and self.failing:
            self.stop(f"more than {share:.0%} of all items failed (--fail-on-error {share:g})")


def _cost(outcome: Outcome) -> float | None:
    cost: float | None = ((outcome.result or {}).get("usage") or {}).get("cost_usd")
    return cost
