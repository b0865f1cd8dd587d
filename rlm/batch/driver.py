"""The driver of a batch: passes items from their source to the executor, and outcomes to the ledger and the results."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

from ..tasks import Task, TaskError
from .errors import BatchError, MachineUnfit
from .executors.base import Executor
from .item import ENDINGS, UNSUCCESSFUL, Item, Outcome
from .ledger import DuplicateNames, Ledger
from .results_file import ResultsFile
from .source import Source, lease_of

DEFAULT_MAX_LOSSES = 3


@dataclass(frozen=True, slots=True)
class StopRules:
    """When a batch stops before all items have ended."""

    max_cost: float | None = None
    """The cost of the whole batch, in dollars, after which no more items are started."""

    fail_on_error: float | None = None
    """The share of all items, from 0 to 1, that may be failed or lost."""

    max_losses: int = DEFAULT_MAX_LOSSES
    """How often an item may be lost, with its worker or its sandbox, before it is not retried."""


class Batch:
    """One batch. Call `prepare` first, then iterate over `run`; `stop` may be called from a signal handler."""

    def __init__(
        self,
        source: Source,
        ledger: Ledger,
        rules: StopRules | None = None,
        *,
        notify: Callable[[str], None] = lambda _: None,
    ) -> None:
        """`notify` is called with a message when an item was lost and is retried."""
        self.rules = rules or StopRules()
        self.notify = notify
        self.total = 0
        self.endings: dict[str, int] = dict.fromkeys(ENDINGS, 0)
        """The number of items by ending, earlier sessions included."""

        self.cost_usd: float | None = None
        """The cost of all attempts, earlier sessions included."""

        self.unpriced_calls = 0
        """Model calls of earlier sessions whose price is unknown."""

        self.stop_reason: str | None = None
        """Why no more items are started; None while they are."""

        self.running: dict[str, tuple[int, Item]] = {}
        """The items that the executor has, by key, with their numbers."""

        self._source, self._ledger = source, ledger
        self._retries: deque[tuple[int, Item]] = deque()
        self._unfinished: Iterator[tuple[int, Item]] = iter(())

    @property
    def done(self) -> int:
        """The number of items that have ended, earlier sessions included."""
        return sum(self.endings.values())

    @property
    def unsuccessful(self) -> int:
        """The number of items that failed or were lost."""
        return sum(self.endings[ending] for ending in UNSUCCESSFUL)

    @property
    def failing(self) -> bool:
        """Whether more items failed or were lost than the rules allow."""
        return self.unsuccessful > (self.rules.fail_on_error or 0.0) * self.total

    def prepare(self, *, retry_failed: bool = False, on_task: Callable[[Task], None] = lambda _: None) -> None:
        """Read and check all items once; call `on_task` with the task of each, without its inputs.

        Raises `TaskError`, and `BatchError` if two items have the same name.
        """

        def entries() -> Iterator[tuple[str, str, float]]:
            for item, template, digest in self._source.checked():
                on_task(template.task)
                yield digest, item.name, lease_of(template)

        try:
            self.total = self._ledger.begin(entries())
        except DuplicateNames as error:
            message = self._source.duplicate_names(error.first, error.second, error.name)
            raise BatchError(message) from None
        if retry_failed and not self._is_spent(self._ledger.spent()):
            self._ledger.forget(UNSUCCESSFUL)
        elif retry_failed:
            self.notify(f"--max-cost ${self.rules.max_cost:g} is spent: failed items are not run again")

    def run(self, executor: Executor, results: ResultsFile) -> Iterator[Outcome]:
        """Run the unfinished items, and yield each outcome once it is recorded."""
        totals = self._ledger.totals()
        self.endings |= {ending: subtotal.count for ending, subtotal in totals.items()}
        self.cost_usd = self._ledger.spent()
        self.unpriced_calls = sum(subtotal.unpriced for subtotal in totals.values())
        self._unfinished = self._read_unfinished()
        self._apply_rules()
        return self._run(executor, results)

    def stop(self, reason: str) -> None:
        """Start no more items. Running items continue to their end."""
        self.stop_reason = self.stop_reason or reason

    def _run(self, executor: Executor, results: ResultsFile) -> Iterator[Outcome]:
        while True:
            for outcome in executor.run(self._items()):
                if outcome.key not in self.running:
                    continue  # left over from an abandoned batch on the same executor
                number, item = self.running.pop(outcome.key)
                if outcome.fatal:
                    raise MachineUnfit(outcome.error or "a machine lacks what every item needs")
                final = self._retry_or_end(outcome, number, item)
                if final is not None and results.write(number, final):
                    self.endings[final.ending] += 1
                    self._spend(final.usage.get("cost_usd"))
                    yield final
            if not self._retries or self.stop_reason is not None:
                return

    def _read_unfinished(self) -> Iterator[tuple[int, Item]]:
        changed = None
        try:
            for number, item in enumerate(self._source.read(), 1):
                # Whatever is read after a change would be recorded under the key of the previous content.
                if (changed := self._source.changed_file()) is not None:
                    break
                unfinished = self._ledger.unfinished(number)
                if unfinished is not None:
                    yield number, replace(item, key=unfinished[0], lease=unfinished[1])
        except TaskError:
            if (changed := self._source.changed_file()) is None:
                raise
        if changed is not None:
            present = "was changed meanwhile; the same command continues with its new content"
            missing = "is gone; restore it, and the same command continues"
            self.stop(f"{changed} {present if changed.exists() else missing}")

    def _items(self) -> Iterator[Item]:
        """Yield items as the executor asks for them."""
        while self.stop_reason is None:
            entry = self._retries.popleft() if self._retries else next(self._unfinished, None)
            if entry is None:
                return
            number, item = entry
            self._ledger.lease(item.key, item.lease)
            self.running[item.key] = (number, item)
            yield item

    def _retry_or_end(self, outcome: Outcome, number: int, item: Item) -> Outcome | None:
        """Return the outcome if it is final; None if the item is retried."""
        if outcome.ending != "Lost":
            return outcome
        losses = self._ledger.lose(item.key)
        if losses < self.rules.max_losses:
            cost = outcome.usage.get("cost_usd")
            self._ledger.spend(item.key, cost)  # the cost of the last attempt is recorded with its outcome
            self._spend(cost)
            self._retries.append((number, replace(item, exclusive=True)))
            self.notify(f"{item.name}: {outcome.error}; it is run again")
            return None
        error = f"given up after it was lost {losses} times; the last time, {outcome.error}"
        return replace(outcome, error=error)

    def _spend(self, cost: float | None) -> None:
        if cost is not None:
            self.cost_usd = (self.cost_usd or 0.0) + cost
        self._apply_rules()

    def _is_spent(self, cost: float | None) -> bool:
        return self.rules.max_cost is not None and (cost or 0.0) >= self.rules.max_cost

    def _apply_rules(self) -> None:
        limit, share = self.rules.max_cost, self.rules.fail_on_error
        if self._is_spent(self.cost_usd) and self.done < self.total:
            self.stop(f"--max-cost ${limit:g} is spent; with a larger one, the same command runs the rest")
        if share is not None and self.failing:
            self.stop(f"more than {share:.0%} of all items failed (--fail-on-error {share:g})")
