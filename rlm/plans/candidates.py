"""The comparison of candidate plans: near-duplicates are dropped, the others are ranked by weighted score."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from .plan import Candidate, CandidateSet, Plan, Weights

DUPLICATE_SIMILARITY = 0.8
"""Two approaches with at least this similarity are duplicates."""

_WORD = re.compile(r"\w+")
_STOP_WORDS = frozenset(
    _WORD.findall("a an and as at by for from in into is it its of on or that the then this to with")
)


def similarity(one: str, other: str) -> float:
    """Return the similarity of two approaches: the Jaccard index of their words, from 0 to 1.

    Case, order, repetition and stop words do not count. This finds plans in nearly the same words, as a model proposes
    them when it is asked for several; it does not find paraphrases.
    """
    first, second = _words(one), _words(other)
    if not first or not second:
        return float(one.split() == other.split())
    return len(first & second) / len(first | second)


def without_duplicates(plans: Iterable[Plan], earlier: Sequence[Plan] = ()) -> tuple[list[Plan], list[str]]:
    """Return the plans that differ from each other and from earlier ones, and descriptions of the duplicates.

    The same approach with another model or other tools is another plan; with another temperature alone it is not.
    """
    distinct: list[Plan] = []
    dropped: list[str] = []
    for plan in plans:
        match = next((other for other in (*earlier, *distinct) if _is_duplicate(plan, other)), None)
        if match is None:
            distinct.append(plan)
        else:
            other = "a rejected plan" if match in earlier else "another plan"
            dropped.append(f"{plan.name}: nearly the same as {other}, {match.name}")
    return distinct, dropped


def compare(
    loop_id: str, round: int, plans: Sequence[Plan], weights: Weights, dropped: Sequence[str] = ()
) -> CandidateSet:
    """Return the ranked plans, best first. Plans with the same score keep their order."""
    scored = sorted(((weights.score(plan.scores), plan) for plan in plans), key=lambda pair: -pair[0])
    # Predictions do not have more than four significant decimals.
    ranked = tuple(Candidate(plan, float(f"{score:.4f}"), rank) for rank, (score, plan) in enumerate(scored, 1))
    return CandidateSet(loop_id, round, weights, ranked, tuple(dropped))


def _is_duplicate(plan: Plan, other: Plan) -> bool:
    if plan.model != other.model or plan.tools != other.tools:
        return False
    return similarity(plan.approach, other.approach) >= DUPLICATE_SIMILARITY


def _words(text: str) -> frozenset[str]:
    return frozenset(_WORD.findall(text.casefold())) - _STOP_WORDS
