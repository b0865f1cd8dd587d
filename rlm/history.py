"""The history of a run: what the model wrote and what came of it, iteration by iteration. It lives in the host."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, overload

from .text import count, cut_middle, fence

_SHORT = 400  # an old iteration is cut down to this before a newer one is touched


@dataclass(frozen=True, slots=True)
class CallRecord:
    """One call from a cell to the host."""

    name: str
    seconds: float = 0.0
    error: str | None = None


@dataclass(frozen=True, slots=True)
class VariableChanges:
    """Names that a cell bound, changed and deleted."""

    added: tuple[str, ...] = ()
    changed: tuple[str, ...] = ()
    removed: tuple[str, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.added or self.changed or self.removed)


@dataclass(frozen=True, slots=True)
class REPLHistoryEntry:
    """One iteration."""

    iteration: int
    reasoning: str | None
    code: str
    output: str
    success: bool
    calls: tuple[CallRecord, ...] = ()
    variables_changed: VariableChanges = VariableChanges()
    printed_chars: int | None = None
    """How many of the first characters of the output its code printed; the runtime wrote the rest. None: unknown."""

    @property
    def printed(self) -> str:
        """The part of the output that the code printed."""
        return self.output if self.printed_chars is None else self.output[: self.printed_chars]

    def render(self) -> str:
        """Return the iteration as a model reads it."""
        marks = fence(self.code)
        return (
            f"### Iteration {self.iteration}\n{self.reasoning or ''}\n"
            f"{marks}python\n{self.code}\n{marks}\nOutput: {self.output}\n"
        )

    def to_dict(self) -> dict[str, Any]:
        """Return the entry as plain JSON values."""
        made = dataclasses.asdict(self)
        made["calls"] = list(made["calls"])
        made["variables_changed"] = {kind: list(names) for kind, names in made["variables_changed"].items()}
        return made

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> REPLHistoryEntry:
        """Return the entry that `to_dict` described; the seed's five fields are enough."""
        changes = {name: tuple(names) for name, names in data.get("variables_changed", {}).items()}
        return cls(
            iteration=data["iteration"],
            reasoning=data.get("reasoning"),
            code=data["code"],
            output=data["output"],
            success=data["success"],
            calls=tuple(CallRecord(**call) for call in data.get("calls", ())),
            variables_changed=VariableChanges(**changes),
            printed_chars=data.get("printed_chars"),
        )


class REPLHistory(Sequence[REPLHistoryEntry]):
    """The iterations of a run in order. They can only be added to."""

    def __init__(self, entries: Iterable[REPLHistoryEntry] = ()) -> None:
        self._entries: list[REPLHistoryEntry] = []
        for entry in entries:
            self.append(entry)

    def append(self, entry: REPLHistoryEntry) -> None:
        """Add the next iteration; its number is higher than the last one's."""
        if self._entries and entry.iteration <= self._entries[-1].iteration:
            raise ValueError(f"iteration {entry.iteration} cannot follow iteration {self._entries[-1].iteration}")
        self._entries.append(entry)

    @property
    def entries(self) -> tuple[REPLHistoryEntry, ...]:
        """All iterations so far."""
        return tuple(self._entries)

    @property
    def consecutive_errors(self) -> int:
        """How many of the last iterations failed, one after the other."""
        count = 0
        for entry in reversed(self._entries):
            if entry.success:
                break
            count += 1
        return count

    def render(self, max_chars: int | None = None) -> str:
        """Return the history as a model reads it, in at most `max_chars` characters."""
        return render(self._entries, max_chars)

    def text(self, running: str = "") -> str:
        """Return all code and output, with code that is running."""
        return "\n".join([*(f"{entry.code}\n{entry.output}" for entry in self), running])

    def to_list(self) -> list[dict[str, Any]]:
        """Return the history as plain JSON values."""
        return [entry.to_dict() for entry in self._entries]

    @classmethod
    def from_list(cls, data: Iterable[Mapping[str, Any]]) -> REPLHistory:
        """Return the history that `to_list` described."""
        return cls(REPLHistoryEntry.from_dict(entry) for entry in data)

    def __len__(self) -> int:
        return len(self._entries)

    def __iter__(self) -> Iterator[REPLHistoryEntry]:
        return iter(self._entries)

    @overload
    def __getitem__(self, index: int) -> REPLHistoryEntry: ...
    @overload
    def __getitem__(self, index: slice) -> tuple[REPLHistoryEntry, ...]: ...
    def __getitem__(self, index: int | slice) -> REPLHistoryEntry | tuple[REPLHistoryEntry, ...]:
        return tuple(self._entries[index]) if isinstance(index, slice) else self._entries[index]

    def __repr__(self) -> str:
        return f"REPLHistory({count(len(self._entries), 'iteration')})"


def render(entries: Sequence[REPLHistoryEntry], max_chars: int | None = None) -> str:
    """Iterations as a model reads them. What does not fit is cut from the oldest first, and every cut is counted."""
    parts = [entry.render() for entry in entries]
    if max_chars is None:
        return "\n".join(parts)
    excess = sum(map(len, parts)) + max(0, len(parts) - 1) - max_chars
    for index, part in enumerate(parts):
        if excess <= 0:
            break
        parts[index] = cut_middle(part, max(min(len(part), _SHORT), len(part) - excess))
        excess -= len(part) - len(parts[index])
    return "\n".join(parts) if excess <= 0 else _newest(parts, max_chars)


def _newest(parts: list[str], max_chars: int) -> str:
    """As many of the last parts as there is room for; at the least, what there is room for of the very last."""
    for start in range(1, len(parts)):
        kept = "\n".join([f"[{start} earlier iterations left out]", *parts[start:]])
        if len(kept) <= max_chars:
            return kept
    return cut_middle(parts[-1], max_chars)
