"""The check of submitted outputs by a second program, which the model writes in the same session (`verify: true`).

The outputs of the first program stay the answer. What the second one computes is recorded beside them, as evidence:
whether it agrees, and whether it is independent, which the graph of the code tells (`provenance/origins.py`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from importlib.resources import files
from typing import TYPE_CHECKING, Any

from sandbox import SandboxError

from ..equality import same_meaning
from ..json_values import pointer, preview
from ..models.client import ModelError
from ..provenance.evidence import RunEvidence
from ..results import Evidence, Verdict
from .llm import OutOfTime

if TYPE_CHECKING:
    from pydantic import BaseModel

    from ..signatures import Signature
    from .loop import RunLoop

MAX_ITERATIONS = 3
"""How many iterations the second program may take."""


@dataclass(slots=True)
class FirstAnswer:
    """The outputs that were submitted first, and what is known of the second program."""

    outputs: BaseModel
    given: tuple[str, ...] | None
    iterations: int
    second: BaseModel | None = None
    second_given: tuple[str, ...] | None = None
    problem: str = ""
    """Why there is no second value."""


async def verify(outputs: BaseModel, run: RunLoop) -> None:
    """Have the model write a second program. What it submits is kept in `run.first`, beside the first outputs."""
    tools, first = run.tools, FirstAnswer(outputs, run.tools.given, len(run.history))
    run.first = first
    tools.reopen()
    try:
        for _ in range(MAX_ITERATIONS):
            if (reason := run.exhausted()) is not None:
                first.problem = f"there was no second program: {reason}"
                break
            await run.iterate()
            if tools.submitted is not None:
                break
        else:
            first.problem = "the second program submitted nothing"
    except (OutOfTime, ModelError, SandboxError) as error:  # the answer is there all the same
        first.problem = f"there was no second program: {error or 'no time was left'}"
    finally:
        first.second, first.second_given = tools.submitted, tools.given
        tools.submitted, tools.given = first.outputs, first.given


def request() -> str:
    """Return what the model is asked for when it has submitted."""
    return files(__package__).joinpath("prompts", "verify.md").read_text(encoding="utf-8").strip()


def evidence_of_second(
    answer: FirstAnswer,
    first: dict[str, Any],
    second: dict[str, Any] | None,
    run: RunEvidence,
    signature: Signature,
) -> Sequence[Evidence]:
    """Return a piece of evidence for each field: whether the second program agrees. The outputs are plain JSON."""
    if second is None:
        return [Evidence(pointer((name,)), "program", note=answer.problem) for name in first]
    pieces: list[Evidence] = []
    origins = {name: run.independence(name, value, answer.iterations) for name, value in second.items()}
    verdict: Verdict
    values, others = signature.without_quotes(first), signature.without_quotes(second)
    for name, value in values.items():
        other = others.get(name)
        why_not, origin = origins.get(name, ("it gave none", None))
        if not same_meaning(value, other):
            verdict, note = "differs", None
        else:
            verdict, note = ("agrees", None) if why_not is None else ("not independent", why_not)
        about: dict[str, Any] = {}
        if origin is not None:
            about = {"chain": origin.chain, "inputs": origin.inputs, "iteration": origin.iteration}
        pieces.append(Evidence(pointer((name,)), "program", preview(other), verdict=verdict, note=note, **about))
    return pieces
