"""How far answers can be trusted: accuracy, AUROC, ECE and risk by confidence of today, provenance, agreement, and all.

    python benchmarks/trust.py ask --logs FOLDER --model MODEL.gguf --out answers.jsonl [--seconds 540]
    python benchmarks/trust.py simulate --out simulated.jsonl [--count 12]
    python benchmarks/trust.py report answers.jsonl [--fit simulated.jsonl]

`ask` runs questions about real logs (`trust_questions.py`; the folder has logpai/loghub's logs with their structured
versions) through a local model, several runs of each question that do not see each other: made as `agree` does. It
goes on where it was stopped: one line is written for each run. `simulate` does the same on generated suites with a
simulated model that errs. `report` prints the measures. Probabilities are by fits that have not seen the log (or, of
generated suites, the sample) of an answer.
"""

from __future__ import annotations

import argparse
import asyncio
import hashlib
import json
import math
import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

from rich import box
from rich.console import Console
from rich.table import Table
from trust_questions import Question, load_log, questions

from rlm.agreement.settings import AgreementSettings
from rlm.agreement.vote import Tally, same_answer, tally
from rlm.budgets import FallbackTrigger
from rlm.calibration.calibrator import clamp
from rlm.calibration.fit import fit_logistic
from rlm.calibration.metrics import auroc, ece, risk_at, risk_coverage
from rlm.evals.scorers import score as score_sample
from rlm.evals.simulated import Oracle, oracle_lm
from rlm.evals.suites import SUITES
from rlm.extraction.evidence.features import FEATURES, TRUST
from rlm.repl.config import RunConfig
from rlm.results import ExecutionResult, Failed
from rlm.signatures import Signature

Record = dict[str, Any]
RUNS = 5
BLOCK = 25  # questions that are asked three times before the next ones are asked at all
Made = dict[str, dict[int, Any]]
"""The outputs of the runs that were made, by question and number."""

OF_RUNS = ("compared", "dissent", "backers")
PROVENANCE = tuple(name for name in TRUST if name not in OF_RUNS)


# Asking -------------------------------------------------------------------------------------------------------------


async def one_run(
    signature: Signature, inputs: dict[str, Any], model: Any, number: int, iterations: int
) -> ExecutionResult[Any]:
    """Make one of several runs, as `agree` does."""
    settings = AgreementSettings(RUNS)
    temperature = settings.temperature(number)
    config = RunConfig(
        signature,
        model if temperature is None else model.copy(temperature=temperature),
        trigger=FallbackTrigger(max_iterations=iterations, max_duration=600),
        guidance=settings.guidance(number),
    )
    return await config.run(inputs)


def record_of(result: ExecutionResult[Any], about: Record, judge: Callable[[Any], bool], seconds: float) -> Record:
    """Return one run as a line of the file."""
    outputs = None if isinstance(result, Failed) else result.to_dict()["outputs"]
    return {
        **about,
        "ending": type(result).__name__,
        "outputs": outputs,
        "correct": outputs is not None and judge(outputs),
        "confidence": result.confidence,
        "fields": {} if isinstance(result, Failed) else {name: dict(row) for name, row in result.features.items()},
        "evidence": [piece.kind for piece in result.evidence if piece.is_origin],
        "cells": [[entry.code, entry.success, entry.output[:1000]] for entry in result.history],
        "iterations": result.iterations,
        "tokens": result.usage.tokens,
        "seconds": seconds,
    }


async def ask(given: argparse.Namespace) -> None:
    """Ask the questions that are missing in the file, until the time is up."""
    from rlm.models import OutlinesLM

    until = time.monotonic() + given.seconds
    made: Made = defaultdict(dict)
    for one in read(given.out):
        made[one["sample"]][one["run"]] = one["outputs"]
    print(f"{sum(map(len, made.values()))} runs of {len(made)} questions are there", flush=True)
    options = {"max_tokens": 400, "threads": given.threads, "context": given.context, "parallel": given.parallel}
    model: Any = OutlinesLM(given.model, **options)
    waiting = _order(questions(given.logs), made)

    async def work() -> None:
        for question, number in waiting:
            if time.monotonic() > until - given.margin:
                return
            made[question.id][number] = await _ask_once(given, model, question, number)

    try:
        async with asyncio.timeout(max(1.0, until - time.monotonic()) if math.isfinite(until) else None):
            await asyncio.gather(*(work() for _ in range(given.parallel)))
    except TimeoutError:
        print("the time is up: runs that had not ended are made again the next time")


async def _ask_once(given: argparse.Namespace, model: Any, question: Question, number: int) -> Any:
    signature = Signature.of(f"log: str, question: str -> answer: {question.type}")
    inputs = {"log": load_log(given.logs, question.log), "question": question.text}
    began = time.monotonic()
    result = await one_run(signature, inputs, model, number, given.iterations)
    about = {"suite": "logs", "group": question.log, "sample": question.id, "kind": question.kind, "run": number}
    about["expected"] = question.answer

    def judge(outputs: Any) -> bool:
        return same_answer(question.answer, outputs["answer"])

    record = record_of(result, about, judge, time.monotonic() - began)
    write(given.out, record)
    return record["outputs"]


def _order(asked: Sequence[Question], made: Made) -> Iterator[tuple[Question, int]]:
    """Yield questions with the number of a run that is missing: first what agreement of three needs, then of five.

    Questions about one log, and runs of one question, follow each other, so that their prompts share a beginning.
    """
    for runs in (3, RUNS):
        for start in range(0, len(asked), BLOCK):
            for question in sorted(asked[start : start + BLOCK], key=lambda one: one.log):
                for number in range(runs):
                    if number not in made[question.id] and not _is_decided(made[question.id], runs):
                        yield question, number


def _is_decided(answers: dict[int, Any], runs: int) -> bool:
    """Return whether `agree` would make no more of so many runs."""
    first = AgreementSettings(runs).first_round
    given = {run: answers[run] for run in range(runs) if answers.get(run) is not None}
    return all(run in answers for run in range(first)) and tally(given).is_decided(
        runs - sum(run in answers for run in range(runs))
    )


async def simulate(given: argparse.Namespace) -> None:
    """Run the generated suites with a simulated model that errs, some samples more than others."""
    done = {(one["sample"], one["run"]) for one in read(given.out)}
    for name in given.suites:
        for sample in SUITES[name].generate(given.seed, given.length, given.count):
            care = (0.3, 1.0, 3.0)[int(hashlib.sha256(sample.id.encode()).hexdigest(), 16) % 3]
            for number in range(RUNS):
                if (sample.id, number) in done:
                    continue
                seed = int.from_bytes(hashlib.sha256(f"{sample.id}:{number}".encode()).digest()[:6])
                model = oracle_lm(Oracle(error=0.02 * care, bad_code=0.12 * care, wrong_code=0.08 * care, seed=seed))
                signature = Signature.of(sample.signature, instructions=sample.instructions)
                began = time.monotonic()
                result = await one_run(signature, dict(sample.inputs), model, number, given.iterations)
                about = {"suite": name, "group": sample.id, "sample": sample.id, "kind": name, "run": number}

                def judge(outputs: Any, sample: Any = sample) -> bool:
                    return score_sample(sample, outputs).total >= 1 - 1e-9

                about["expected"] = sample.expected
                write(given.out, record_of(result, about, judge, time.monotonic() - began))


def read(path: Path) -> list[Record]:
    """Return the lines of a file, without one that was cut off."""
    if not path.exists():
        return []
    lines = path.read_text(encoding="utf-8").splitlines()
    return [json.loads(line) for line in lines if line.endswith("}")]


def write(path: Path, record: Record) -> None:
    """Append a line."""
    with path.open("a", encoding="utf-8") as file:
        file.write(json.dumps(record, ensure_ascii=False) + "\n")


# Reporting ----------------------------------------------------------------------------------------------------------


class Answers:
    """The answers of some number of runs to each question: the one that most gave, with its features."""

    def __init__(self, records: Iterable[Record], runs: int) -> None:
        """Questions with fewer runs than `runs` are left out."""
        by_sample: dict[str, list[Record]] = defaultdict(list)
        for record in records:
            by_sample[record["sample"]].append(record)
        self.runs = runs
        self.rows: list[dict[str, float]] = []
        self.groups: list[str] = []
        self.correct: list[bool] = []
        self.baseline: list[float] = []
        self.tokens = self.seconds = 0.0
        for made in by_sample.values():
            made.sort(key=lambda one: one["run"])
            first = [one for one in made if one["run"] < runs]
            outputs = {one["run"]: one["outputs"] for one in first}
            if len(first) == runs or (runs > 1 and _is_decided(outputs, runs)):
                self._add(first)

    def _add(self, made: list[Record]) -> None:
        made = self._needed(made)
        self.tokens += sum(one["tokens"] for one in made)
        self.seconds += sum(one["seconds"] for one in made)
        answers = {one["run"]: one["outputs"] for one in made if one["outputs"] is not None}
        self.groups.append(made[0]["group"])
        if not answers:
            self.rows.append({"none": 1.0})
            self.correct.append(False)
            self.baseline.append(0.0)
            return
        votes = tally(answers)
        best = max(answers, key=lambda run: (votes.support(run), -run))
        record = next(one for one in made if one["run"] == best)
        row = _mean(list(record["fields"].values()))
        if len(made) > 1:
            agree = min((_backing(votes, answers[best])), default=1)
            row |= {"compared": float(len(answers) > 1), "backers": math.log1p(agree - 1)}
            row["dissent"] = (len(made) - agree) / (len(made) - 1)
        self.rows.append(row)
        self.correct.append(bool(record["correct"]))
        self.baseline.append(1.0 if record["ending"] == "Submitted" else float(record["confidence"]))

    def _needed(self, made: list[Record]) -> list[Record]:
        """Return the runs that `agree` would have made: none once the rest cannot change the answer."""
        for count in range(1, len(made)) if self.runs > 1 else ():
            if _is_decided({one["run"]: one["outputs"] for one in made[:count]}, self.runs):
                return made[:count]
        return made

    def probabilities(self, names: Sequence[str], other: Answers | None = None) -> list[float]:
        """Return the probability of each answer by a fit without its group; with `other`, by a fit to those alone."""
        if other is not None:
            curve = fit_logistic(other.rows, other.correct, names)
            return [clamp(curve(row)) for row in self.rows]
        found = [0.0] * len(self.rows)
        for part in _parts(self.groups):
            rest = [at for at in range(len(self.rows)) if self.groups[at] not in part]
            curve = fit_logistic([self.rows[at] for at in rest], [self.correct[at] for at in rest], names)
            for at, group in enumerate(self.groups):
                if group in part:
                    found[at] = clamp(curve(self.rows[at]))
        return found


def _parts(groups: Sequence[str]) -> list[set[str]]:
    """Return the groups in at most ten parts."""
    names = sorted(set(groups))
    return [set(names[start::10]) for start in range(min(10, len(names)))]


def _backing(votes: Tally, answer: Any) -> list[int]:
    """Return for each part of an answer how many runs gave it."""
    counts = []
    for vote in votes.votes:
        value: Any = answer
        for step in vote.path:
            value = value.get(step) if isinstance(value, dict) else None
        counts.append(next((len(runs) for other, runs in vote.groups if same_answer(other, value)), 1))
    return counts


def _mean(rows: Sequence[dict[str, float]]) -> dict[str, float]:
    names = {name for row in rows for name in row}
    return {name: sum(row.get(name, 0.0) for row in rows) / len(rows) for name in names}


def report(given: argparse.Namespace) -> None:
    """Print the measures of each way to trust answers."""
    console = Console(width=120)
    records = [record for path in given.files for record in read(path)]
    other = [record for path in given.fit or () for record in read(path)]
    table = Table(
        "", "n", "right", "AUROC", "ECE", "risk at 80%", "at 50%", "wrong above 0.9", "tokens", "seconds",
        box=box.SIMPLE,
    )  # fmt: skip
    plans: list[tuple[str, int, Sequence[str] | None]] = [
        ("confidence of today", 1, None),
        ("provenance alone", 1, PROVENANCE),
        ("all of one run", 1, tuple(name for name in FEATURES if name not in OF_RUNS)),
        *((f"agreement of {runs} alone", runs, OF_RUNS) for runs in (2, 3, 5)),
        *((f"all, with agreement of {runs}", runs, tuple(FEATURES)) for runs in (2, 3, 5)),
    ]
    for name, runs, features in plans:
        answers = Answers(records, runs)
        if len(answers.rows) < 10 or len(set(answers.groups)) < 2:
            continue
        fitted = Answers(other, runs) if other else None
        scores = answers.baseline if features is None else answers.probabilities(features, fitted)
        table.add_row(name, *_cells(answers, scores))
    console.print(f"{len(records)} runs of {len({record['sample'] for record in records})} questions")
    console.print(table)


def _cells(answers: Answers, scores: Sequence[float]) -> list[str]:
    correct = answers.correct
    curve = risk_coverage(scores, correct)
    above = [right for value, right in zip(scores, correct, strict=True) if value > 0.9]
    ranked = auroc(scores, correct)
    count = len(correct)
    return [
        str(count),
        f"{sum(correct) / count:.0%}",
        "-" if ranked is None else f"{ranked:.2f}",
        f"{ece(scores, correct):.3f}",
        f"{risk_at(curve, 0.8):.0%}",
        f"{risk_at(curve, 0.5):.0%}",
        f"{above.count(False)} of {len(above)}",
        f"{answers.tokens / count:,.0f}",
        f"{answers.seconds / count:.1f}",
    ]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(dest="command", required=True)
    asking = commands.add_parser("ask")
    asking.add_argument("--logs", type=Path, required=True)
    asking.add_argument("--model", required=True)
    asking.add_argument("--out", type=Path, required=True)
    asking.add_argument("--seconds", type=float, default=math.inf, help="stop after so long")
    asking.add_argument("--margin", type=float, default=30, help="begin no run in the last seconds")
    asking.add_argument("--iterations", type=int, default=4)
    asking.add_argument("--threads", type=int, default=1)
    asking.add_argument("--parallel", type=int, default=1, help="runs at once, whose questions are one batch")
    asking.add_argument("--context", type=int, default=6144, help="tokens of one run")
    simulating = commands.add_parser("simulate")
    simulating.add_argument("--out", type=Path, required=True)
    simulating.add_argument("--suites", nargs="*", default=sorted(SUITES))
    simulating.add_argument("--count", type=int, default=12)
    simulating.add_argument("--length", type=int, default=16_000)
    simulating.add_argument("--iterations", type=int, default=4)
    simulating.add_argument("--seed", type=int, default=7)
    printing = commands.add_parser("report")
    printing.add_argument("files", nargs="+", type=Path)
    printing.add_argument("--fit", nargs="*", type=Path, help="fit on these answers alone")
    given = parser.parse_args()
    if given.command == "report":
        report(given)
    else:
        asyncio.run(ask(given) if given.command == "ask" else simulate(given))


if __name__ == "__main__":
    main()
