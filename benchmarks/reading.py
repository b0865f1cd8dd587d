"""How well a model reads, by mode: repl, direct, map and auto, beside dspy.RLM with the same model.

    python benchmarks/reading.py ask --data FOLDER --model MODEL.gguf --out answers.jsonl [--modes auto,repl]
    python benchmarks/reading.py report answers.jsonl

FOLDER has `logs` (logpai/loghub), `questions` (TREC) and `prose` (State of the Union addresses). `ask` goes on where it
was stopped: one line is written for each run. `report` prints right answers, time and tokens by mode and by kind.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from reading_questions import HELD_OUT, Question, questions
from rich.console import Console
from rich.table import Table

from rlm.agreement.vote import same_answer

Record = dict[str, Any]
MODES = ("repl", "auto", "direct", "map")
PEER = "dspy.RLM"


def ask(given: argparse.Namespace) -> None:
    """Ask what is missing in the file, until the time is up."""
    from rlm.models import OutlinesLM

    until = time.monotonic() + given.seconds
    done = {(one["id"], one["mode"]) for one in read(given.out)}
    model: Any = OutlinesLM(given.model, max_tokens=400, threads=given.threads, context=given.context, temperature=0)
    asked = [one for one in questions(given.data) if not given.kinds or one.kind in given.kinds]
    asked = [one for one in asked if not given.sources or one.source in given.sources][given.first : given.last]
    asked = sorted(asked, key=lambda one: one.source)  # a model that runs here reads what prompts share once
    for question in asked:
        for mode in given.modes:
            if (question.id, mode) in done:
                continue
            if time.monotonic() > until:
                print("the time is up; run it again to go on")
                return
            record = run_peer(model, question, given) if mode == PEER else run(model, question, mode, given)
            write(given.out, record)
            judged = "right" if record["right"] else "wrong"
            print(f"{judged} {mode:8} {record['seconds']:5.1f} s {record['tokens']:6,} {question.id[:90]}: "
                  f"{str(record['answer'])[:60]} ({str(question.answer)[:60]})", flush=True)  # fmt: skip


def run(model: Any, question: Question, mode: str, given: argparse.Namespace) -> Record:
    """Ask one question in one mode."""
    import rlm

    trigger = rlm.FallbackTrigger(max_iterations=given.iterations, max_duration=given.limit, max_llm_calls=60)
    predict = rlm.Predict(question.signature, lm=model, mode=mode, trigger=trigger)
    began, cpu = time.monotonic(), time.process_time()
    result = predict.run_with_fallback(**{question.input: question.value, "question": question.text})
    answer = None if result.outputs is None else result.to_dict()["outputs"]["answer"]
    return {
        **_about(question, mode, answer),
        "ending": type(result).__name__,
        "iterations": result.iterations,
        "confidence": result.confidence,
        "tokens": result.usage.tokens,
        "seconds": time.monotonic() - began,
        "cpu": time.process_time() - cpu,
        "code": [entry.code for entry in result.history],
        "outputs": [entry.output[:500] for entry in result.history],
    }


def run_peer(model: Any, question: Question, given: argparse.Namespace) -> Record:
    """Ask one question of dspy.RLM on its LocalInterpreter, which has no sandbox: its own does not start everywhere."""
    import dspy

    began, cpu, answer, ending = time.monotonic(), time.process_time(), None, "answered"
    before = len(model.history)
    with dspy.context(lm=model, track_usage=False):
        try:
            module = dspy.RLM(question.signature, max_iters=given.iterations, interpreter_factory=dspy.LocalInterpreter)
            answer = module(**{question.input: question.value, "question": question.text}).answer
        except Exception as error:
            ending = type(error).__name__
    tokens = sum(one["usage"].get("total_tokens", 0) for one in model.history[before:])
    spent = {"tokens": tokens, "seconds": time.monotonic() - began, "cpu": time.process_time() - cpu}
    return {**_about(question, PEER, answer), "ending": ending, **spent}


def _about(question: Question, mode: str, answer: Any) -> Record:
    right = answer is not None and same_answer(question.answer, answer)
    about = {"id": question.id, "source": question.source, "kind": question.kind, "mode": mode}
    return {**about, "answer": answer, "expected": question.answer, "right": right}


def read(path: Path) -> list[Record]:
    """Return the lines of a file, without one that was cut off."""
    if not path.exists():
        return []
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines() if line.endswith("}")]


def write(path: Path, record: Record) -> None:
    """Append a line."""
    with path.open("a", encoding="utf-8") as file:
        file.write(json.dumps(record, ensure_ascii=False, default=str) + "\n")


def report(given: argparse.Namespace) -> None:
    """Print the table by mode, and by kind; questions that every mode was asked are compared apart."""
    records = [one for path in given.files for one in read(path)]
    modes = list(dict.fromkeys(one["mode"] for one in records))
    by_mode = {mode: {one["id"]: one for one in records if one["mode"] == mode} for mode in modes}
    shared = set.intersection(*(set(rows) for rows in by_mode.values())) if by_mode else set()
    table = Table(
        "", "right", "of", "s", "s (median)", "tokens", title=f"by mode; {len(shared)} questions were asked in each"
    )
    for mode, rows in by_mode.items():
        _row(table, mode, rows.values())
        if 0 < len(shared) < len(rows):
            _row(table, f"{mode}, of the shared", [row for id_, row in rows.items() if id_ in shared])
    Console().print(table)
    for title, key in (("by kind", "kind"), ("by source", "source")):
        table = Table("", *modes, title=f"{title}: right of asked")
        names = dict.fromkeys("TREC" if str(one[key]).startswith("TREC") else one[key] for one in records)
        for name in names:
            cells = []
            for mode in modes:
                chosen = [row for row in by_mode[mode].values() if str(row[key]).startswith(name)]
                cells.append(f"{sum(row['right'] for row in chosen)} of {len(chosen)}" if chosen else "")
            table.add_row(name + (" (held out)" if name in HELD_OUT else ""), *cells)
        Console().print(table)


def _row(table: Table, name: str, rows: Iterable[Record]) -> None:
    chosen = list(rows)
    seconds = sorted(row["seconds"] for row in chosen)
    right, tokens = sum(row["right"] for row in chosen), sum(row["tokens"] for row in chosen)
    mean = sum(seconds) / len(seconds)
    cells = (right, len(chosen), f"{mean:.1f}", f"{seconds[len(seconds) // 2]:.1f}", f"{tokens / len(chosen):,.0f}")
    table.add_row(name, *map(str, cells))


def main(arguments: Sequence[str] | None = None) -> None:
    """Ask or report."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(required=True)
    asking = commands.add_parser("ask")
    asking.set_defaults(do=ask)
    asking.add_argument("--data", type=Path, required=True)
    asking.add_argument("--model", required=True)
    asking.add_argument("--out", type=Path, required=True)
    asking.add_argument("--modes", type=lambda text: text.split(","), default=["auto"])
    asking.add_argument("--kinds", type=lambda text: text.split(","), default=[])
    asking.add_argument("--sources", type=lambda text: text.split(","), default=[])
    asking.add_argument("--first", type=int, default=0)
    asking.add_argument("--last", type=int)
    asking.add_argument("--seconds", type=float, default=480)
    asking.add_argument("--limit", type=float, default=120, help="seconds for one question")
    asking.add_argument("--iterations", type=int, default=4)
    asking.add_argument("--threads", type=int, default=2)
    asking.add_argument("--context", type=int, default=8192)
    reporting = commands.add_parser("report")
    reporting.set_defaults(do=report)
    reporting.add_argument("files", nargs="+", type=Path)
    given = parser.parse_args(arguments)
    given.do(given)


if __name__ == "__main__":
    main()
