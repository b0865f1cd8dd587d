"""Models that err at a set rate, for `calibration.py`: one that writes code and runs out of time, one that extracts.

What can go wrong, each with a rate of its own (`Rates`), drawn for every field of every run:

- the code computes the value right, and leaves it in a variable with the field's name, under another name, in a
  mapping, or only prints it; sometimes the model types a printed value into a later cell;
- the code has a bug: a wrong value is computed, stored and printed like a right one. No evidence can tell;
- the code got through half of the rows: a partial result is in a variable, whose name may say so or not;
- the model guesses from what it has skimmed and writes the guess into its code;
- the run is stopped before the field's turn, or its cell ends in an error, which may be repaired in a later one.

The extraction model reads the prompt that it is sent (variables, then what cells printed) and nothing else. It copies
what it finds under the field's name or another one for it; sometimes it garbles a value, takes a neighbour of the same
type, or has an idea of its own. Where it finds nothing it takes the partial result, says null (if it may), or invents a
plausible value: an identifier, a day or a port from the document, a number of the usual size, true or false.

Runs differ in care: a careless one has all of these rates higher, in all of its fields.
"""

from __future__ import annotations

import ast
import json
import random
import re
from dataclasses import dataclass, field, fields, replace
from itertools import accumulate
from typing import Any

from rlm.models.profile import ModelProfile
from rlm.models.scripted import AsyncScriptedEngine, ScriptedEngine

PORTS = ("Antwerp", "Bergen", "Cadiz", "Dakar", "Esbjerg", "Faro", "Genoa", "Hull", "Izmir", "Kiel")


@dataclass(frozen=True)
class Rates:
    """How often what goes wrong, for a run of average care."""

    bug: float = 0.03
    partial: float = 0.04
    guess: float = 0.04
    stopped: float = 0.10
    failing_cell: float = 0.06
    garbled: float = 0.012
    neighbour: float = 0.012
    own_idea: float = 0.012
    invalid_json: float = 0.06

    def times(self, factor: float) -> Rates:
        return replace(self, **{one.name: min(0.9, getattr(self, one.name) * factor) for one in fields(self)})


CARE = ((0.4, 0.35), (1.0, 0.40), (2.2, 0.25))
"""By what the rates are multiplied, and how many runs are like that."""


@dataclass(frozen=True)
class Quantity:
    """A field: how it is computed, what else a model may call it, and what bugs look like."""

    type: str
    other_name: str
    like_it: str
    right: str
    bugs: tuple[str, ...]


PARTS = ("_so_far", "_partial", "1", "_a")
"""How the names of partial results end. Half of them say so."""

HALF = "rows[:len(rows) // 2]"
QUANTITIES = {
    "shipments": Quantity(
        "int",
        "n",
        "n_shipments",
        "sum(1 for r in rows if r['port'] == port)",
        (
            "sum(1 for r in rows[1:] if r['port'] >= port)",
            "sum(1 for r in rows if r['port'] == port and r['kg'] > 900)",
        ),
    ),
    "weight": Quantity(
        "int",
        "kilos",
        "weight_kg",
        "sum(r['kg'] for r in rows)",
        ("sum(r['kg'] for r in rows[1:])", "sum(r['kg'] for r in rows if r['port'] == port)"),
    ),
    "heaviest": Quantity(
        "str",
        "top",
        "heaviest_id",
        "max(rows, key=lambda r: r['kg'])['id']",
        ("max(rows, key=lambda r: str(r['kg']))['id']", "max(rows, key=lambda r: r['day'])['id']"),
    ),
    "first_late": Quantity(
        "str | None",
        "day",
        "late_day",
        "next((r['day'] for r in rows if r['state'] == 'late'), None)",
        ("next((r['day'] for r in rows[::-1] if r['state'] == 'late'), None)", "rows[0]['day']"),
    ),
    "lost": Quantity(
        "bool",
        "gone",
        "any_lost",
        "any(r['state'] == 'lost' for r in rows)",
        ("all(r['state'] == 'lost' for r in rows)", "any(r['state'] != 'on time' for r in rows)"),
    ),
    "late_ports": Quantity(
        "list[str]",
        "places",
        "ports_late",
        "sorted({r['port'] for r in rows if r['state'] == 'late'})",
        ("sorted({r['port'] for r in rows if r['state'] != 'on time'})", "sorted({r['port'] for r in rows[:9]})"),
    ),
}
READ = """rows = []
for line in doc.splitlines():
    day, name, where, kg, state = [part.strip() for part in line.split('|')]
    rows.append({'day': day, 'id': name, 'port': where, 'kg': int(kg.split()[0]), 'state': state})
print(len(rows), 'rows')"""


@dataclass(frozen=True)
class Case:
    """A document, what is asked about it (one to four of the quantities) and the right answer."""

    doc: str
    port: str
    rows: list[dict[str, Any]] = field(repr=False)
    expected: dict[str, Any]

    @classmethod
    def make(cls, dice: random.Random) -> Case:
        late, lost = dice.choice((0.0, 0.03, 0.1)), dice.choice((0.0, 0.02))
        rows = [
            {
                "day": f"2026-{1 + at // 28:02d}-{1 + at % 28:02d}",
                "id": f"SH-{dice.randrange(1000, 9999)}",
                "port": dice.choice(PORTS),
                "kg": dice.randrange(80, 2400),
                "state": dice.choices(("late", "lost", "on time"), (late, lost, 1 - late - lost))[0],
            }
            for at in range(dice.randrange(40, 90))
        ]
        port = dice.choice(rows)["port"]
        doc = "\n".join(f"{r['day']} | {r['id']} | {r['port']} | {r['kg']} kg | {r['state']}" for r in rows)
        scope = {"rows": rows, "port": port}
        asked = dice.sample(list(QUANTITIES), dice.choice((1, 1, 2, 2, 3, 4)))
        expected = {name: eval(QUANTITIES[name].right, scope) for name in asked}
        return cls(doc, port, rows, expected)

    @property
    def signature(self) -> str:
        return f"doc: str, port: str -> {', '.join(f'{name}: {QUANTITIES[name].type}' for name in self.expected)}"

    def plausible(self, name: str, dice: random.Random) -> Any:
        """What somebody would answer who has skimmed the document."""
        row = dice.choice(self.rows[:12])
        return {
            "shipments": lambda: dice.randrange(1, 12),
            "weight": lambda: dice.randrange(30, 110) * 1000 + dice.randrange(1000),
            "heaviest": lambda: row["id"],
            "first_late": lambda: row["day"],
            "lost": lambda: dice.random() < 0.3,
            "late_ports": lambda: sorted({one["port"] for one in dice.sample(self.rows, 3)}),
        }[name]()


def is_right(name: str, case: Case, value: Any) -> bool:
    wanted = case.expected[name]
    return sorted(value) == wanted if isinstance(wanted, list) and isinstance(value, list) else value == wanted


def write_code(case: Case, rates: Rates, dice: random.Random) -> list[str]:
    """The cells of a run that never submits."""
    cells = [f"print(doc[:{dice.choice((120, 300, 600))}])\n{READ}"]
    names = list(case.expected)
    if dice.random() < 0.3:
        cells[0] += "\nresult = {}"
    later: list[str] = []
    while names:
        group, names = names[: (size := dice.randrange(1, 4))], names[size:]
        lines = [line for name in group for line in _lines(name, case, rates, dice, "result = {}" in cells[0], later)]
        if dice.random() < rates.failing_cell:
            cells.append("\n".join([f"total = sum(r['{dice.choice(('harbour', 'tons'))}'] for r in rows)", *lines]))
            if dice.random() < 0.4:
                cells.append("\n".join(lines))
        elif lines:
            cells.append("\n".join(lines))
    return [*cells, *later]


def _lines(name: str, case: Case, rates: Rates, dice: random.Random, mapping: bool, later: list[str]) -> list[str]:
    """What the code does about one field."""
    quantity, luck = QUANTITIES[name], dice.random()
    chances = {"stopped": rates.stopped, "guess": rates.guess, "partial": rates.partial, "bug": rates.bug}
    what = next((one for one, edge in zip(chances, accumulate(chances.values()), strict=True) if luck < edge), "right")
    if what == "stopped":
        return []
    code = {
        "right": quantity.right,
        "bug": dice.choice(quantity.bugs),
        "partial": quantity.right.replace("rows", HALF),
        "guess": repr(case.plausible(name, dice)),
    }[what]
    if what == "partial":
        part = dice.choice(PARTS)
        return [f"{quantity.other_name}{part} = {code}", f"print({part!r}, {quantity.other_name}{part})"]
    place = dice.choices(("name", "other", "mapping", "printed"), (0.45, 0.2, 0.15 if mapping else 0.0, 0.2))[0]
    other = dice.choice((quantity.other_name, quantity.like_it))
    label = name if dice.random() < 0.5 else other
    if place == "printed":
        if dice.random() < 0.4:  # it reads the value off and types it in
            value = eval(code, {"rows": case.rows, "port": case.port})
            later.append(f"{name} = {value!r}")
        return [f"print('{label}:', {code})"]
    target = {"name": name, "other": other, "mapping": f"result[{name!r}]"}[place]
    lines = [f"{target} = {code}"]
    if dice.random() < 0.6:
        lines.append(f"print('{label}:', {target})")
    return lines


class Extractor(ScriptedEngine):
    """Reads variables and printed lines in the prompt, and answers from them."""

    def __init__(self, case: Case, rates: Rates, dice: random.Random) -> None:
        super().__init__([])
        self.case, self.rates, self.dice = case, rates, dice
        self.refused = dice.random() < rates.invalid_json

    def _answer(self, asked: str) -> str:
        if self.refused:
            self.refused = False
            return "The values are as computed above; see the variables."
        variables = _variables(asked)
        answer = {name: self._field(name, variables, asked) for name in self.case.expected}
        return json.dumps(answer)

    def _field(self, name: str, variables: dict[str, Any], asked: str) -> Any:
        dice, case = self.dice, self.case
        found, value = _look(name, variables, asked)
        if found and _fits(name, value):
            luck = dice.random()
            if luck < self.rates.garbled:
                return _garbled(value, dice)
            if luck < self.rates.garbled + self.rates.neighbour:
                near = [one for one in variables.values() if type(one) is type(value) and one != value]
                return dice.choice(near) if near else value
            if luck < self.rates.garbled + self.rates.neighbour + self.rates.own_idea:
                return case.plausible(name, dice)
            return value
        parts = [variables.get(f"{QUANTITIES[name].other_name}{ending}") for ending in PARTS]
        part = next((one for one in parts if one is not None), None)
        if part is not None and _fits(name, part) and dice.random() < 0.7:
            return part
        if name == "first_late" and dice.random() < 0.6:
            return None
        return case.plausible(name, dice)


def _variables(asked: str) -> dict[str, Any]:
    part = asked.partition("## Current Variables")[2].partition("## Required Outputs")[0]
    found: dict[str, Any] = {}
    for name, text in re.findall(r"^- (\w+) \([^)]*\) = (.*)$", part, re.MULTILINE):
        try:
            found[name] = json.loads(text)
        except ValueError:
            continue
    return found


def _look(name: str, variables: dict[str, Any], asked: str) -> tuple[bool, Any]:
    other, like_it = QUANTITIES[name].other_name, QUANTITIES[name].like_it
    mapping = variables.get("result")
    for place, key in ((variables, name), (mapping, name), (variables, like_it), (variables, other)):
        if isinstance(place, dict) and key in place:
            return True, place[key]
    history = asked.partition("## REPL History")[2].partition("## Current Variables")[0]
    printed = re.findall(rf"^(?:Output: )?(?:{name}|{other}|{like_it}): (.*)$", history, re.MULTILINE)
    if not printed:
        return False, None
    try:
        return True, ast.literal_eval(printed[-1])
    except (ValueError, SyntaxError):
        return True, printed[-1]


def _fits(name: str, value: Any) -> bool:
    kinds: dict[str, Any] = {"shipments": int, "weight": int, "heaviest": str, "lost": bool, "late_ports": list}
    return value is None or isinstance(value, str) if name == "first_late" else isinstance(value, kinds[name])


def _garbled(value: Any, dice: random.Random) -> Any:
    if isinstance(value, bool) or value is None:
        return not value if isinstance(value, bool) else value
    if isinstance(value, int):
        return value + dice.choice((-10, -1, 1, 10, 100))
    if isinstance(value, list):
        return value[:-1]
    digits = [at for at, sign in enumerate(value) if sign.isdigit()]
    at = dice.choice(digits) if digits else 0
    return value[:at] + str(dice.randrange(10)) + value[at + 1 :]


def model(engine: ScriptedEngine, name: str) -> Any:
    import dspy

    own = AsyncScriptedEngine(engine)
    lm = dspy.LM(name, engine=engine, async_engine=own, cache=False, num_retries=0)
    lm.profile = ModelProfile(engine=own)
    return lm
