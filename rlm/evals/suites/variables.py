"""Suite `variables`: chains of assignments, scattered over a text and mixed with others."""

from __future__ import annotations

from .dice import Dice
from .prose import hide
from .suite import GeneratedTask, Suite

_LETTERS = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
_HOPS = 5
_QUESTION = (
    "doc is a chronicle of many pages in which there are assignments, each on a line of its own: 'VAR ABCDE = 12345' "
    "gives a variable a value, 'VAR FGHIJ = VAR ABCDE' gives it the value that the other variable has at that point. "
    "A later assignment to the same variable replaces the earlier one. "
    "Which variables have the value {value} at the end of doc? List their names, in any order."
)


def _make(dice: Dice, length: int) -> GeneratedTask:
    others = max(2, min(400, length // 6_000))
    names: dict[str, None] = {}
    while len(names) < (others + 1) * (_HOPS + 1):
        names["".join(dice.pick(_LETTERS) for _ in range(5))] = None
    free = iter(names)
    values = dice.some(range(10_000, 99_999), others + 1)
    chains = [_chain(dice, [next(free) for _ in range(_HOPS)], value) for value in values]
    # One variable has the wanted value for a time.
    wanted, stray, first = chains[0], next(free), chains[0][0].split()[1]
    wanted.insert(dice.between(1, _HOPS - 1), f"VAR {stray} = VAR {first}")
    wanted.append(f"VAR {stray} = {values[1]}")
    lines = _interleave(dice, chains)
    doc = hide(dice, lines, length, apart=True)
    answer = sorted(name for name, value in _final_values(lines).items() if value == str(values[0]))
    return GeneratedTask(
        _QUESTION.format(value=values[0]), {"doc": doc}, {"answer": answer}, {"assignments": len(lines)}
    )


def _chain(dice: Dice, names: list[str], value: int) -> list[str]:
    sources = [str(value), *(f"VAR {dice.pick(names[:end])}" for end in range(1, len(names)))]
    return [f"VAR {name} = {source}" for name, source in zip(names, sources, strict=True)]


def _interleave(dice: Dice, chains: list[list[str]]) -> list[str]:
    """Return the lines of all chains in random order; those of one chain keep their order."""
    turns = dice.shuffled([index for index, chain in enumerate(chains) for _ in chain])
    lines = [iter(chain) for chain in chains]
    return [next(lines[index]) for index in turns]


def _final_values(lines: list[str]) -> dict[str, str]:
    known: dict[str, str] = {}
    for line in lines:
        _, name, _, *source = line.split()
        known[name] = known[source[1]] if source[0] == "VAR" else source[0]
    return known


VARIABLES = Suite(
    "variables",
    "Follow values through assignments that are scattered over a text.",
    "doc: str -> answer: list[str]",
    {"answer": "set"},
    _make,
)
