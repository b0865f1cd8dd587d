"""Comparing candidate plans: near-duplicates are dropped, the others put in order by their weighted scores."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from .plan import Candidate, CandidateSet, Plan, Weights

ALIKE = 0.8
"""Two approaches that share this much of their words are one approach."""

_WORD = re.compile(r"\w+")
_EMPTY = frozenset(_WORD.findall("a an and as at by for from in into is it its of on or that the then this to with"))


def similarity(one: str, other: str) -> float:
    """How alike two approaches are: the words that both have, of all words that either has (Jaccard), from 0 to 1.

    Case, order, repetition and words like `the` do not count. This finds plans that say the same in nearly the same
    words, which is what a model does that is asked for several. It does not find a paraphrase.
    """
    first, second = _words(one), _words(other)
    if not first or not second:
        return float(one.split() == other.split())
    return len(first & second) / len(first | second)


def without_duplicates(plans: Iterable[Plan], earlier: Sequence[Plan] = ()) -> tuple[list[Plan], list[str]]:
    """The plans that differ from each other and from earlier ones; and of the others, which and why.

    The same approach on another model, or with other tools, is another plan. Another temperature alone is not.
    """
    kept: list[Plan] = []
    dropped: list[str] = []
    for plan in plans:
        twin = next((one for one in (*earlier, *kept) if _alike(plan, one)), None)
        if twin is None:
            kept.append(plan)
        else:
            when = "a plan that was rejected" if twin in earlier else "another one"
            dropped.append(f"{plan.name}: nearly the same as {when}, {twin.name}")
    return kept, dropped


def compare(
    loop_id: str, round: int, plans: Sequence[Plan], weights: Weights, dropped: Sequence[str] = ()
) -> CandidateSet:
    """The plans in order, best first. Of those with the same score, the one that was named first is better."""
    scored = sorted(((weights.score(plan.scores), plan) for plan in plans), key=lambda pair: -pair[0])
    # Four places are more than a prediction has.
    ranked = tuple(Candidate(plan, float(f"{score:.4f}"), rank) for rank, (score, plan) in enumerate(scored, 1))
    return CandidateSet(loop_id, round, weights, ranked, tuple(dropped))


def _alike(plan: Plan, other: Plan) -> bool:
    if plan.model != other.model or plan.tools != other.tools:
        return False
    return similarity(plan.approach, other.approach) >= ALIKE


def _words(text: str) -> frozenset[str]:
    return frozenset(_WORD.findall(text.casefold())) - _EMPTY
