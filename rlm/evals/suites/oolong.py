"""Suite `oolong`: the counting, user and timeline questions of OOLONG-synth (arXiv 2511.02817) on `trec_coarse`."""

from __future__ import annotations

import datetime
from collections import Counter, defaultdict
from collections.abc import Callable, Sequence
from typing import Any

from .corpora import LABELS, Corpora
from .dice import Dice
from .labelled_lines import Line, labelled_lines
from .suite import GeneratedTask, Suite

_LABEL = f"Literal[{', '.join(repr(label) for label in LABELS.values())}]".replace("'", '"')
_COMPARISON = 'Literal["more common than", "less common than", "same frequency as"]'
_BEFORE_AFTER = 'Literal["more common", "less common", "the same frequency"]'
_LEAST_DIFFERENCE = 0.02
"""Labels whose shares are closer than that are not compared, unless they are equal."""

_TRIES = 200
_NAMES = tuple(LABELS.values())

Asked = tuple[str, str, Any]
"""A question, the type of its answer, and the answer."""


class _Unfit(Exception):
    """A question has no one answer on these lines."""


def _counting(dice: Dice, lines: Sequence[Line], about: str = "In the above data,") -> Asked:
    counts = Counter(dict.fromkeys(_NAMES, 0))
    counts.update(line.label for line in lines)
    kind = dice.below(4)
    if kind in (0, 1):
        most = kind == 0
        best = max(counts.values()) if most else min(counts.values())
        found = [label for label, number in counts.items() if number == best]
        if len(found) > 1:
            raise _Unfit
        return f"{about} which of the labels is the {'most' if most else 'least'} common?", _LABEL, found[0]
    first, second = dice.some(_NAMES, 2)
    if kind == 2:
        difference = counts[first] - counts[second]
        if 0 < abs(difference) <= _LEAST_DIFFERENCE * len(lines):
            raise _Unfit
        question = f"{about} is label '{first}' more common, less common, or the same frequency as label '{second}'?"
        answer = "same frequency as" if not difference else f"{'more' if difference > 0 else 'less'} common than"
        return question, _COMPARISON, answer
    return f"{about} how many data points should be classified as label '{first}'?", "int", counts[first]


def _user(dice: Dice, lines: Sequence[Line]) -> Asked:
    by_user = Counter(line.user for line in lines)
    users = sorted(by_user)
    label = dice.pick(_NAMES)
    of_label = Counter(line.user for line in lines if line.label == label)
    some = dice.some(users, min(len(users), dice.between(2, 20)))
    names = ", ".join(map(str, some))
    only = f"For the following question, only consider the subset of users with IDs {names}. Among these users,"
    kind = dice.below(7)
    if kind == 0:
        return "In the above data, which user is represented most often?", "int", _nth(by_user, 0)
    if kind == 1:
        return "In the above data, which user is represented the second most often?", "int", _nth(by_user, 1)
    if kind == 2:
        return f"{only} which user is represented most often?", "int", _nth(Counter({u: by_user[u] for u in some}), 0)
    if kind == 3:
        answer = _nth(Counter({user: of_label[user] for user in some}), 0)
        return f"{only} which user has the most instances with the label {label}?", "int", answer
    if kind == 4:
        question = f"In the above data, which user has the most instances with the label {label}?"
        return question, "int", _nth(of_label, 0)
    if kind == 5:
        first, second = dice.some(users, 2)
        question = (
            f"In the above data, which user has more instances with the label {label}: User {first} or User {second}?"
        )
        return question, "int", _nth(Counter({first: of_label[first], second: of_label[second]}), 0)
    about = (
        "For the following question, only consider the subset of instances that are associated with user IDs "
        f"{names}. Among instances associated with these users,"
    )
    return _counting(dice, [line for line in lines if line.user in some], about)


def _timeline(dice: Dice, lines: Sequence[Line]) -> Asked:
    dates = Counter(line.day for line in lines)
    kind = dice.below(8)
    if kind in (0, 1):
        rank = "" if kind == 0 else "the second "
        return f"In the above data, which date is represented {rank}most often?", "date", str(_nth(dates, kind))
    if kind == 2:
        number = dice.pick(sorted(set(dates.values())))
        question = f"In the above data, how many dates are represented exactly {number} times?"
        return question, "int", sum(times == number for times in dates.values())
    if kind == 3:
        return _before_and_after(dice, lines)
    if kind == 4:
        month = dice.pick(sorted({line.day.month for line in lines}))
        name = datetime.date(2022, month, 1).strftime("%B")
        about = (
            "For the following question, only consider the subset of instances that occur in "
            f"{name} of any year. Among instances occurring in {name},"
        )
        return _counting(dice, [line for line in lines if line.day.month == month], about)
    if kind == 5:
        first, last = sorted(dice.some(sorted(dates), 2))
        about = (
            "For the following question, only consider the subset of instances that occur between "
            f"{first:%b %d, %Y} and {last:%b %d, %Y}, inclusive. Among instances occurring in this date range,"
        )
        return _counting(dice, [line for line in lines if first <= line.day <= last], about)
    return _months(dice, lines, dates)


def _before_and_after(dice: Dice, lines: Sequence[Line]) -> Asked:
    ordered = sorted(line.day for line in lines)
    day = ordered[dice.between(int(len(ordered) * 0.15), int(len(ordered) * 0.75))]
    label = dice.pick(_NAMES)
    parts = [line for line in lines if line.day < day], [line for line in lines if line.day > day]
    if not all(parts):
        raise _Unfit
    before, after = (sum(line.label == label for line in part) / len(part) for part in parts)
    if 0 < abs(before - after) <= _LEAST_DIFFERENCE:
        raise _Unfit
    question = (
        f"In the above data, was label '{label}' more common, less common, or the same frequency before {day}, as "
        f"compared to after {day}? (Frequencies are shares of the lines before, and after, that date.)"
    )
    answer = "the same frequency" if before == after else f"{'more' if before > after else 'less'} common"
    return question, _BEFORE_AFTER, answer


def _months(dice: Dice, lines: Sequence[Line], dates: Counter[datetime.date]) -> Asked:
    by_month: dict[tuple[int, int], Counter[str]] = defaultdict(Counter)
    for line in lines:
        by_month[line.day.year, line.day.month][line.label] += 1
    first, second = dice.some(_NAMES, 2)
    more = sorted(month for month, counts in by_month.items() if counts[first] > counts[second])
    kind = dice.below(3)
    if kind == 0:
        if not more:
            raise _Unfit
        question = f"In which month did the label '{first}' first occur more often than the label '{second}'?"
        form = "Answer with the name of the month and the year, as in March 2023."
        return f"{question} {form}", "str", datetime.date(*more[0], 1).strftime("%B %Y")
    if kind == 1:
        question = f"For how many months does the label '{first}' occur more frequently than the label '{second}'?"
        return f"{question} Disregard months where there is a tie.", "int", len(more)
    single = sum(_is_single(counts, first) for counts in by_month.values())
    question = f"For how many months is the label '{first}' the single most frequently occurring label?"
    return f"{question} Disregard months where there is a tie for the most common label.", "int", single


def _is_single(counts: Counter[str], label: str) -> bool:
    return all(counts[label] > number for other, number in counts.items() if other != label) and counts[label] > 0


def _nth(counts: Counter[Any], place: int) -> Any:
    """Return the item in a place by its count. Raise `_Unfit` if another has the same count."""
    ranked = counts.most_common()
    if len(ranked) <= place or not ranked[place][1]:
        raise _Unfit
    if sum(number == ranked[place][1] for _, number in ranked) > 1:
        raise _Unfit
    return ranked[place][0]


_KINDS: tuple[tuple[str, Callable[..., Asked]], ...] = (
    ("counting", _counting),
    ("user", _user),
    ("timeline", _timeline),
)


def _make(dice: Dice, length: int, corpora: Corpora, index: int) -> GeneratedTask:
    context, lines = labelled_lines(dice, length, corpora)
    kind, ask = _KINDS[index % len(_KINDS)]
    for _ in range(_TRIES):
        try:
            question, type, answer = ask(dice, lines)
            break
        except _Unfit:
            continue
    else:
        raise ValueError(f"no question of the kind {kind} has one answer on these {len(lines)} lines")
    return GeneratedTask(
        question,
        {"context": context},
        {"answer": answer},
        {"kind": kind, "lines": len(lines), "users": len({line.user for line in lines})},
        f"context: str -> answer: {type}",
        {"answer": "number" if _is_count(question) else "exact"},
    )


def _is_count(question: str) -> bool:
    return "how many" in question.lower()


OOLONG = Suite(
    "oolong",
    "OOLONG trec_coarse: counting, user and timeline questions over labels that must be inferred (real questions).",
    "context: str -> answer: str",
    {"answer": "exact"},
    _make,
    "questions",
)
