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
from collections.abc import Callable, Iterator, Sequence
from itertools import product
from pathlib import Path
from typing import Any

from rich import box
from rich.console import Console
from rich.table import Table
from trust_answers import OF_RUNS, Asked, Record, asked, is_decided, masked, read, single
from trust_questions import Question, load_log, questions

from rlm.agreement.settings import AgreementSettings
from rlm.agreement.vote import same_answer
from rlm.budgets import FallbackTrigger
from rlm.calibration.fit import fit
from rlm.calibration.metrics import auroc, ece, risk_at, risk_coverage
from rlm.evals.scorers import score as score_sample
from rlm.evals.simulated import Oracle, oracle_lm
from rlm.evals.suites import SUITES
from rlm.extraction.evidence.features import FEATURES, TRUST
from rlm.models.profile import profile_of
from rlm.repl.config import RunConfig
from rlm.results import ExecutionResult, Failed
from rlm.signatures import Signature

RUNS = 5
BLOCK = 25  # questions that are asked three times before the next ones are asked at all
PROVENANCE = tuple(name for name in TRUST if name not in OF_RUNS)


# Asking -------------------------------------------------------------------------------------------------------------


async def one_run(
    signature: Signature, inputs: dict[str, Any], model: Any, number: int, iterations: int
) -> ExecutionResult[Any]:
    """Make one of several runs, as `agree` does."""
    settings, script = AgreementSettings(RUNS), profile_of(model).constrains
    temperature = settings.temperature(number, script=script)
    config = RunConfig(
        signature,
        model if temperature is None else model.copy(temperature=temperature),
        trigger=FallbackTrigger(max_iterations=iterations, max_duration=600),
        guidance=settings.guidance(number, script=script),
        vote=False,  # as in the runs of `agree`
    )
    return await config.run(inputs)


def record_of(
    result: ExecutionResult[Any], about: Record, judge: Callable[[Any], dict[str, float]], seconds: float
) -> Record:
    """Return one run as a line of the file; `judge` gives each output a score."""
    outputs = None if isinstance(result, Failed) else result.to_dict()["outputs"]
    return {
        **about,
        "ending": type(result).__name__,
        "outputs": outputs,
        "scores": {} if outputs is None else judge(outputs),
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
    made: dict[str, dict[int, Any]] = defaultdict(dict)
    for one in read(given.out):
        made[one["sample"]][one["run"]] = one["outputs"]
    print(f"{sum(map(len, made.values()))} runs of {len(made)} questions are there", flush=True)
    options = {"max_tokens": 400, "threads": given.threads, "context": given.context, "parallel": given.parallel}
    model: Any = OutlinesLM(given.model, **options)
    waiting = _order(questions(given.logs), made, given.runs)

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
    about |= {"expected": question.answer, "model": Path(given.model).stem}

    def judge(outputs: Any) -> dict[str, float]:
        return {"answer": float(same_answer(question.answer, _bare(outputs["answer"])))}

    record = record_of(result, about, judge, time.monotonic() - began)
    write(given.out, record)
    return record["outputs"]


def _bare(answer: Any) -> Any:
    """Return an answer without the colons that follow names in a log: `kernel:` names what `kernel` names."""
    if isinstance(answer, dict):
        return {_bare(name): value for name, value in answer.items()}
    return [_bare(one) for one in answer] if isinstance(answer, list) else _without_colon(answer)


def _without_colon(value: Any) -> Any:
    return value.strip().removesuffix(":") if isinstance(value, str) else value


def _order(
    asked: Sequence[Question], made: dict[str, dict[int, Any]], rounds: Sequence[int]
) -> Iterator[tuple[Question, int]]:
    """Yield questions with the number of a run that is missing: first what agreement of three needs, then of five.

    Questions about one log follow each other, so that their prompts share a beginning.
    """
    for runs in rounds:
        for start in range(0, len(asked), BLOCK):
            block = asked[start : start + BLOCK]
            for log, number in product(sorted({one.log for one in block}), range(runs)):
                for question in block:
                    done = made[question.id]
                    if question.log == log and number not in done and not is_decided(done, runs):
                        yield question, number


async def simulate(given: argparse.Namespace) -> None:
    """Run the generated suites with a simulated model that errs, some samples more than others."""
    done = {(one["sample"], one["run"]) for one in read(given.out)}
    for name in given.suites:
        for sample in SUITES[name].generate(given.seed, given.length, given.count):
            care = (0.5, 2.0, 5.0)[int(hashlib.sha256(sample.id.encode()).hexdigest(), 16) % 3]
            for number in range(RUNS):
                if (sample.id, number) in done:
                    continue
                seed = int.from_bytes(hashlib.sha256(f"{sample.id}:{number}".encode()).digest()[:6])
                model = oracle_lm(Oracle(error=0.02 * care, bad_code=0.12 * care, wrong_code=0.08 * care, seed=seed))
                signature = Signature.of(sample.signature, instructions=sample.instructions)
                began = time.monotonic()
                result = await one_run(signature, dict(sample.inputs), model, number, given.iterations)
                about = {"suite": name, "group": sample.id, "sample": sample.id, "kind": name, "run": number}

                def judge(outputs: Any, sample: Any = sample) -> dict[str, float]:
                    return score_sample(sample, outputs).fields

                about |= {"expected": sample.expected, "model": "oracle"}
                write(given.out, record_of(result, about, judge, time.monotonic() - began))


def write(path: Path, record: Record) -> None:
    """Append a line."""
    with path.open("a", encoding="utf-8") as file:
        file.write(json.dumps(record, ensure_ascii=False) + "\n")


# Reporting ----------------------------------------------------------------------------------------------------------


def probabilities(given: Sequence[Asked], known: Sequence[Asked], names: Sequence[str]) -> list[float]:
    """Return the probability of each answer, by features, from a fit to what is known of other groups."""
    found = [0.0] * len(given)
    for part in _parts([one.group for one in given]):
        rest = [masked(one.answer, names) for one in known if one.group not in part and one.has_answer]
        calibrator = fit(rest, "logistic", "product")
        for at, one in enumerate(given):
            if one.group in part and one.has_answer:
                found[at] = calibrator.judge(masked(one.answer, names).fields).confidence
    return found


def _parts(groups: Sequence[str]) -> list[set[str]]:
    """Return the groups in at most ten parts."""
    names = sorted(set(groups))
    return [set(names[start::10]) for start in range(min(10, len(names)))]


def report(given: argparse.Namespace) -> None:
    """Print the measures of each way to trust answers."""
    console = Console(width=120)
    records = [record for path in given.files for record in read(path)]
    other = [record for path in given.fit or () for record in read(path)]
    table = Table(
        "", "n", "right", "AUROC", "ECE", "risk at 80%", "at 50%", "wrong above 0.9", "tokens", "seconds",
        box=box.SIMPLE,
    )  # fmt: skip
    ways: list[tuple[str, int, Sequence[str] | None]] = [
        ("confidence of today", 1, None),
        ("provenance alone", 1, PROVENANCE),
        ("all of one run", 1, tuple(name for name in FEATURES if name not in OF_RUNS)),
        *((f"agreement of {runs} alone", runs, OF_RUNS) for runs in (2, 3, 5)),
        *((f"all, with agreement of {runs}", runs, tuple(FEATURES)) for runs in (2, 3, 5)),
    ]
    for name, runs, features in ways:
        given_answers = asked(records, runs)
        if len(given_answers) < 10 or len({one.group for one in given_answers}) < 2:
            continue
        if features is None:
            scores = [one.confidence for one in given_answers]
        else:
            known = [*other, *records] if given.fit else records
            data = [*single(known), *(one for count in (2, 3, 5) if runs > 1 for one in asked(known, count))]
            scores = probabilities(given_answers, data, features)
        table.add_row(name, *_cells(given_answers, scores))
    console.print(f"{len(records)} runs of {len({record['sample'] for record in records})} questions")
    console.print(table)


def _cells(answers: Sequence[Asked], scores: Sequence[float]) -> list[str]:
    correct = [one.correct for one in answers]
    curve = risk_coverage(scores, correct)
    above = sum(value > 0.9 and not right for value, right in zip(scores, correct, strict=True))
    ranked = auroc(scores, correct)
    count = len(correct)
    return [
        str(count),
        f"{sum(correct) / count:.0%}",
        "-" if ranked is None else f"{ranked:.2f}",
        f"{ece(scores, correct):.3f}",
        f"{risk_at(curve, 0.8):.0%}",
        f"{risk_at(curve, 0.5):.0%}",
        f"{above} of {correct.count(False)}",
        f"{sum(one.tokens for one in answers) / count:,.0f}",
        f"{sum(one.seconds for one in answers) / count:.1f}",
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
    asking.add_argument("--runs", type=int, nargs="+", default=[3, RUNS], help="first so many of each, then so many")
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
    printing.add_argument("--fit", nargs="*", type=Path, help="fit on these answers, too")
    given = parser.parse_args()
    if given.command == "report":
        report(given)
    else:
        asyncio.run(ask(given) if given.command == "ask" else simulate(given))


if __name__ == "__main__":
    main()
