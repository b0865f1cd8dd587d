"""The vote on an answer: a small model writes several scripts that do not see each other, and the answer that most of
them give is that of the run. Independent runs of a whole task are in `rlm.agreement`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from sandbox import SandboxError

from ..equality import same_meaning
from ..json_values import pointer
from ..models.client import ModelError
from .hints.code_facts import names_called
from .llm import OutOfTime

if TYPE_CHECKING:
    from pydantic import BaseModel

    from ..signatures import Signature
    from .loop import RunLoop

_QUESTIONS = frozenset(["ask_for_outputs", "llm_query", "llm_batch", "llm_map", "rlm_query"])
_LEAD = 2
"""The vote is over when an answer has so many more votes than any other; one more where it is 0, "" or []."""


@dataclass(frozen=True, slots=True)
class Answer:
    """What one script submitted."""

    iteration: int
    outputs: BaseModel
    given: tuple[str, ...] | None
    values: dict[str, Any]

    @property
    def is_empty(self) -> bool:
        """Whether nothing was found: small models often look for what is not there."""
        return not any(self.values.values())


@dataclass
class Ballot:
    """The answers so far, the same ones together, in the order in which they first came."""

    groups: list[list[Answer]] = field(default_factory=list)
    scripts: int = 0
    """How many scripts were written."""

    def add(self, answer: Answer) -> None:
        """Count an answer."""
        for group in self.groups:
            if same_meaning(group[0].values, answer.values):
                group.append(answer)
                return
        self.groups.append([answer])

    @property
    def ranked(self) -> Sequence[Sequence[Answer]]:
        """The groups, the largest first; of groups of one size, empty answers last, then the one that came first."""
        return sorted(self.groups, key=lambda group: (-len(group), group[0].is_empty))

    def agreement(self, run_id: str) -> dict[str, Any] | None:
        """Return what the scripts said, as a result has it; None if there was only one."""
        if self.scripts < 2 or not self.groups:
            return None
        first = self.ranked[0]
        answers = sorted((answer for group in self.groups for answer in group), key=lambda one: one.iteration)
        said = [_said(answer, first[0].values, run_id) for answer in answers]
        votes = {pointer((name,)): len(first) for name in first[0].values}
        about = {"agree": len(first), "answers": len(answers), "of": self.scripts, "votes": votes}
        return {**about, "run_id": run_id, "reconciled": False, "runs": said}

    @property
    def is_decided(self) -> bool:
        """Whether one answer is ahead by enough votes."""
        best, *rest = self.ranked
        return len(best) - max(map(len, rest), default=0) >= _LEAD + best[0].is_empty


async def vote(run: RunLoop) -> None:
    """Have more scripts written until one answer is ahead, and leave that one in `run.tools`.

    The script of the answer runs once more where another one ran after it: evidence is found in the last variables.
    There is no vote on an answer for which models were asked about the inputs.
    """
    tools, ballot, history = run.tools, Ballot(), run.history.entries
    signature, most = run.config.signature, run.profile.most_scripts
    if most < 2 or not run.config.vote or run.config.verify or names_called(history[-1].code) & _QUESTIONS:
        return
    ballot.scripts = 1
    run.ballot = ballot
    _count(run, ballot, signature)
    try:
        while not ballot.is_decided and ballot.scripts < most and not _ends_here(run) and run.exhausted() is None:
            tools.reopen()
            await run.iterate()
            ballot.scripts += 1
            if tools.submitted is not None:
                _count(run, ballot, signature)
        best = ballot.ranked[0][-1]
        if best.iteration != len(run.history) and not _ends_here(run) and run.exhausted() is None:
            tools.reopen()
            run.models.next_reply = f"```python\n{run.history.entries[best.iteration - 1].code}\n```"
            await run.iterate()
    except (OutOfTime, ModelError, SandboxError):  # there is an answer all the same
        pass
    best = ballot.ranked[0][-1]
    tools.submitted, tools.given = best.outputs, best.given


def _said(answer: Answer, final: dict[str, Any], run_id: str) -> dict[str, Any]:
    """Return one script as a line of the agreement."""
    differs = [name for name, value in final.items() if not same_meaning(value, answer.values.get(name))]
    about = {"run_id": run_id, "iteration": answer.iteration, "ending": "submitted", "outputs": answer.values}
    return {**about, "differs": differs} if differs else about


def _count(run: RunLoop, ballot: Ballot, signature: Signature) -> None:
    outputs = run.tools.submitted
    assert outputs is not None
    ballot.add(Answer(len(run.history), outputs, run.tools.given, signature.outputs_to_json(outputs)))


def _ends_here(run: RunLoop) -> bool:
    """Return whether the run on record ended here: a replay asks for nothing more."""
    return bool(run.recorded) and len(run.history) == len(run.recorded)
