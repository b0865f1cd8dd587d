"""The conversation with the main model: append-only, so that prompt caches hit from one iteration to the next.

When it grows past a size, its middle is replaced once by a summary. The kernel, and with it every variable, stays.
What is written into it is not decided here: see `profiles.py`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from ..history import REPLHistoryEntry
from ..text import cut_middle

MAX_CHARS = 150_000
_PREVIEW_CHARS = 160
_RECENT_TURNS = 5


@dataclass(frozen=True, slots=True)
class Turn:
    """One message of the conversation."""

    role: Literal["user", "assistant"]
    text: str


class Conversation:
    """The system prompt and the messages so far. Messages are only added, except by `compact`.

    With `rewrite`, there is one message only: the task, as that function writes it with the last observation.
    """

    def __init__(
        self, system: str, task: str, max_chars: int = MAX_CHARS, *, rewrite: Callable[[str], str] | None = None
    ) -> None:
        self.system = system
        self._task = task
        self.turns: list[Turn] = [Turn("user", task)]
        self.edition = 0
        """How often it was compacted: while this stays the same, messages are only added."""
        self._max_chars = max_chars
        self._rewrite = rewrite

    def add(self, reply: str, observation: str) -> None:
        """Append the reply and what the model reads next, or write the task anew."""
        if self._rewrite is not None:
            self.turns = [Turn("user", self._rewrite(observation))]
            self.edition += 1
            return
        self.turns += [Turn("assistant", reply.strip() or "(an empty reply)"), Turn("user", observation)]

    @property
    def size(self) -> int:
        """Characters of the whole conversation."""
        return len(self.system) + sum(len(turn.text) for turn in self.turns)

    def compact(
        self, history: Sequence[REPLHistoryEntry], variables: Mapping[str, Any], *, force: bool = False
    ) -> bool:
        """Replace the middle by a summary if the whole has grown too large. Return whether that was done."""
        many = len(self.turns) > _RECENT_TURNS + 2
        if not (many and self.size > self._max_chars) and not (force and len(self.turns) > 1):
            return False
        # A conversation that is too long for the model, though it is short, keeps its last message only.
        recent = self.turns[-_RECENT_TURNS:] if many else self.turns[-1:]
        replaced = history[: max(0, len(history) - len(recent) // 2)]
        previews = [
            f"- {var.name}: {var.type} = {cut_middle(var.preview, _PREVIEW_CHARS)}" for var in variables.values()
        ]
        summary = "\n".join(
            [
                "[The conversation was shortened here. All variables are still in the REPL.]",
                *(f"Iteration {entry.iteration}: {_gist(entry)}" for entry in replaced),
                "Variables:",
                *previews,
            ]
        )
        summary = cut_middle(summary, min(self.size, self._max_chars) // 4)
        # The summary joins the task: some models refuse two messages of one role in a row.
        self.turns = [Turn("user", f"{self._task}\n\n{summary}\n\n{recent[0].text}"), *recent[1:]]
        self.edition += 1
        return True


def _gist(entry: REPLHistoryEntry) -> str:
    outcome = "printed" if entry.success else "failed with"
    return f"{entry.code.count(chr(10)) + 1} lines of code, {outcome}: {cut_middle(entry.output.strip(), 200)!r}"
