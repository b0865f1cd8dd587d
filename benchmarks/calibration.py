"""How far confidence can be trusted: runs through the real driver with models that err at a set rate.

    python benchmarks/calibration.py --runs 3000

Every run goes through the driver and the sandbox until its iterations are used up; then the outputs are extracted. What
the models get wrong is in `erring_models.py`. A calibrator is fitted on one half of the runs, as `rlm eval calibrate`
does; everything that is printed is measured on the other half, which it has never seen. With a thousand runs or fewer,
even exact probabilities show an ECE near the goal: the last row of each table says how large it would be by chance.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import random
import statistics
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from erring_models import CARE, Case, Extractor, Rates, is_right, model, write_code
from rich import box
from rich.console import Console
from rich.table import Table

import sandbox
from rlm.budgets import FallbackTrigger
from rlm.calibration import features_of
from rlm.calibration.dataset import Answer, answers_of
from rlm.calibration.metrics import Measures, ScoredLevel, by_calibrator, by_formula, ece, risk_at, risk_coverage
from rlm.calibration.plot import svg
from rlm.calibration.select import calibrate
from rlm.calibration.threshold import NoThreshold
from rlm.models.scripted import ScriptedEngine
from rlm.repl.config import RunConfig
from rlm.results import Extracted
from rlm.signatures import Signature

TARGET = {"ece": 0.030, "brier": 0.114, "auroc": 0.91}
SIMULATED_FORMULA = {"ece": 0.115, "brier": 0.181, "auroc": 0.80}


async def one_run(seed: int, factor: float, pool: sandbox.Pool) -> dict[str, Any]:
    """One run as a line of a log."""
    dice = random.Random(f"calibration:{seed}")
    case = Case.make(dice)
    care = dice.choices([one for one, _ in CARE], [share for _, share in CARE])[0]
    rates = Rates().times(factor * care)
    cells = [f"```python\n{cell}\n```" for cell in write_code(case, rates, dice)]
    driver = RunConfig(
        Signature.of(case.signature),
        model(ScriptedEngine(cells), "scripted/main"),
        extraction_model=model(Extractor(case, rates, dice), "scripted/extraction"),
        trigger=FallbackTrigger(max_iterations=len(cells), max_consecutive_errors=2),
        pool=pool,
    )
    result = await driver.run({"doc": case.doc, "port": case.port})
    entry: dict[str, Any] = {"sample_id": str(seed), "suite": "erring", "ending": type(result).__name__}
    if isinstance(result, Extracted):
        outputs = result.to_dict()["outputs"]
        entry["scores"] = {name: float(is_right(name, case, value)) for name, value in outputs.items()}
        entry["fields"] = features_of(result)
    else:
        entry["reason"] = str(getattr(result, "reason", ""))
    return entry


async def all_runs(count: int, factor: float, first: int, at_once: int) -> list[dict[str, Any]]:
    entries: list[dict[str, Any]] = []
    seeds = iter(range(first, first + count))

    async def worker(pool: sandbox.Pool) -> None:
        for seed in seeds:
            entries.append(await one_run(seed, factor, pool))

    with sandbox.Pool(size=at_once) as pool:
        await asyncio.gather(*(worker(pool) for _ in range(at_once)))
    return sorted(entries, key=lambda entry: int(entry["sample_id"]))


def report(console: Console, answers: list[Answer], seed: int, plot: Path | None) -> bool:
    """Fit on the first half, print what comes of the second; whether all targets are met."""
    half = len(answers) // 2
    decided = calibrate(answers[:half], seed=seed)
    fresh = answers[half:]
    ways = ", ".join(f"{way} {loss:.4f}" for way, loss in decided.ways.items())
    console.print(
        f"fitted on {half} answers: {decided.method}; from fields to the answer: {decided.way} (Brier {ways})"
    )
    if decided.calibrator is None:
        console.print("refused: no improvement beyond chance")
        return False
    if plot is not None:
        plot.write_text(svg(decided))
    before, after = by_formula(fresh), by_calibrator(decided.calibrator, fresh)
    met = [
        _table(console, "fields", before.fields, after.fields),
        _table(console, "whole answers", before.answers, after.answers),
    ]
    for error in (0.05, 0.1, 0.2):
        try:
            rule = decided.calibrator.accepting(error).rule
        except NoThreshold as problem:
            console.print(f"accept_at error {error:.0%}: {problem}")
            continue
        assert rule is not None
        taken = [
            right for p, right in zip(after.answers.scores, after.answers.correct, strict=True) if p >= rule.threshold
        ]
        wrong = taken.count(False) / len(taken) if taken else 0.0
        met.append(wrong <= error)
        console.print(
            f"accept_at error {error:.0%}: threshold {rule.threshold:.2f} accepts {len(taken) / len(fresh):.0%} of the "
            f"answers, {wrong:.1%} of them wrong: {_verdict(wrong <= error)}"
        )
    return all(met)


def _table(console: Console, title: str, before: ScoredLevel, after: ScoredLevel) -> bool:
    table = Table("", *("ECE", "Brier", "AUROC"), *(f"error at {share:.0%}" for share in (0.25, 0.5, 0.75, 1)),
                  title=f"{title}: {len(after.scores)}, {sum(after.correct) / len(after.correct):.1%} right",
                  title_justify="left", box=box.SIMPLE)  # fmt: skip
    table.add_row("simulation: formula", *(f"{one:.3f}" for one in SIMULATED_FORMULA.values()))
    table.add_row("here: formula", *_cells(before))
    table.add_row("simulation: evidence", *(f"{one:.3f}" for one in TARGET.values()))
    table.add_row("here: calibrated", *_cells(after))
    measured = after.measures()
    met = [_meets(name, measured) for name in TARGET]
    table.add_row("", *map(_verdict, met))
    table.add_row("ECE of a perfect one", f"{_by_chance(after):.3f}", style="dim")
    console.print(table)
    return all(met)


def _by_chance(level: ScoredLevel) -> float:
    """The ECE that these probabilities would show if they were exactly right: so few answers are never even."""
    dice = random.Random(1)
    return statistics.fmean(ece(level.scores, [dice.random() < p for p in level.scores]) for _ in range(100))


def _cells(level: ScoredLevel) -> list[str]:
    one, curve = level.measures(), risk_coverage(level.scores, level.correct)
    risks = [f"{risk_at(curve, share):.3f}" for share in (0.25, 0.5, 0.75, 1.0)]
    return [f"{one.ece:.3f}", f"{one.brier:.3f}", f"{one.auroc:.3f}", *risks]


def _meets(name: str, measured: Measures) -> bool:
    value = getattr(measured, name)
    return bool(value >= TARGET[name] if name == "auroc" else value <= TARGET[name])


def _verdict(met: bool) -> str:
    return "PASS" if met else "FAIL"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=3000)
    parser.add_argument("--error", type=float, default=1.0, help="by what all error rates are multiplied")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--at-once", type=int, default=2)
    parser.add_argument("--keep", type=Path, help="write the runs here, as JSON lines")
    parser.add_argument("--kept", type=Path, help="read the runs from here instead of making them")
    parser.add_argument("--plot", type=Path, help="draw the calibrator here, as SVG")
    asked = parser.parse_args()
    console = Console(width=130, highlight=False)
    if asked.kept is not None:
        entries = [json.loads(line) for line in asked.kept.read_text().splitlines()]
    else:
        began = time.perf_counter()
        with tempfile.TemporaryDirectory() as home:
            os.environ["RLM_HOME"] = home
            entries = asyncio.run(all_runs(asked.runs, asked.error, asked.seed * 1_000_000, asked.at_once))
        console.print(f"{len(entries)} runs in {time.perf_counter() - began:.0f} s")
    if asked.keep is not None:
        asked.keep.write_text("".join(json.dumps(entry) + "\n" for entry in entries))
    endings = [entry["ending"] for entry in entries]
    console.print(", ".join(f"{endings.count(one)} {one}" for one in sorted(set(endings))))
    if not report(console, answers_of(entries), asked.seed, asked.plot):
        sys.exit(1)


if __name__ == "__main__":
    main()
