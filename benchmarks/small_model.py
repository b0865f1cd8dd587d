"""A small local model through the whole runtime, next to dspy.RLM with the same model, on tasks over long texts.

    python benchmarks/small_model.py MODEL.gguf [--tasks 10] [--chars 100000] [--threads 2] [--peer]

Ten tasks of five kinds (find a number, count lines, most frequent id, sum of two found numbers, largest reading),
generated from a seed. Printed: how each run ended, whether the answer is right, its confidence, seconds by the clock
and of the processor, tokens. On a machine that does other things too, look at the processor's.
"""

from __future__ import annotations

import argparse
import json
import random
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from typing import Any

WORDS = ("amber", "basin", "cedar", "delta", "ember", "fjord", "grove", "haven", "inlet", "jetty", "knoll", "ledge")


@dataclass(frozen=True)
class Problem:
    kind: str
    signature: str
    question: str
    doc: str
    answer: Any


def filler(rng: random.Random, chars: int) -> list[str]:
    lines, size = [], 0
    while size < chars:
        lines.append(f"{rng.choice(WORDS)} {rng.choice(WORDS)} {rng.choice(WORDS)} near the {rng.choice(WORDS)}.")
        size += len(lines[-1]) + 1
    return lines


def hide(rng: random.Random, lines: list[str], extra: list[str]) -> str:
    for line in extra:
        lines.insert(rng.randrange(len(lines)), line)
    return "\n".join(lines)


def needle(rng: random.Random, chars: int) -> Problem:
    number = rng.randrange(10_000, 99_999)
    doc = hide(rng, filler(rng, chars), [f"The access code of the vault is {number}."])
    return Problem(
        "needle", "doc: str, question: str -> answer: int", "What is the access code of the vault?", doc, number
    )


def count(rng: random.Random, chars: int) -> Problem:
    number = rng.randrange(12, 60)
    doc = hide(rng, filler(rng, chars), [f"ERROR code {rng.randrange(100, 999)} at the pier" for _ in range(number)])
    question = "How many lines of doc start with ERROR?"
    return Problem("count", "doc: str, question: str -> answer: int", question, doc, number)


def frequent(rng: random.Random, chars: int) -> Problem:
    ids = [f"user-{rng.randrange(100, 999)}" for _ in range(12)]
    logged = [rng.choice(ids) for _ in range(300)] + [ids[0]] * 40
    doc = hide(rng, filler(rng, chars), [f"login id={one}" for one in logged])
    best = Counter(logged).most_common(1)[0][0]
    question = "Lines like 'login id=user-123' are logins. Which id logs in most often?"
    return Problem("frequent", "doc: str, question: str -> answer: str", question, doc, best)


def total(rng: random.Random, chars: int) -> Problem:
    first, second = rng.randrange(100, 9_999), rng.randrange(100, 9_999)
    hidden = [f"The budget of the north team is {first} coins.", f"The budget of the south team is {second} coins."]
    doc = hide(rng, filler(rng, chars), hidden)
    question = "What is the sum of the budget of the north team and the budget of the south team?"
    return Problem("sum", "doc: str, question: str -> answer: int", question, doc, first + second)


def largest(rng: random.Random, chars: int) -> Problem:
    values = [rng.randrange(1, 100_000) for _ in range(80)]
    doc = hide(rng, filler(rng, chars), [f"reading: {value} units" for value in values])
    question = "Lines like 'reading: 17 units' hold readings. What is the largest reading?"
    return Problem("largest", "doc: str, question: str -> answer: int", question, doc, max(values))


KINDS = (needle, count, frequent, total, largest)


def problems(number: int, chars: int, seed: int = 7) -> Iterator[Problem]:
    for index in range(number):
        yield KINDS[index % len(KINDS)](random.Random(seed * 1000 + index), chars)


@dataclass(frozen=True)
class Row:
    who: str
    kind: str
    ending: str
    right: bool
    confidence: float
    seconds: float
    cpu: float
    tokens: int
    answer: str


def ours(lm: Any, problem: Problem, seconds: float, iterations: int) -> Row:
    import dspy

    import rlm

    trigger = rlm.FallbackTrigger(max_iterations=iterations, max_duration=seconds)
    began, cpu = time.monotonic(), time.process_time()
    with dspy.context(lm=lm):
        result = rlm.Predict(problem.signature, trigger=trigger).run_with_fallback(
            doc=problem.doc, question=problem.question
        )
    answer = result.outputs.answer if result.outputs is not None else None
    return Row("rlm", problem.kind, type(result).__name__, answer == problem.answer, result.confidence,
               time.monotonic() - began, time.process_time() - cpu, result.usage.tokens,
               f"{answer} ({result.run_id})")  # fmt: skip


def peer(lm: Any, problem: Problem, seconds: float, iterations: int) -> Row:
    """dspy.RLM on its LocalInterpreter, which has no sandbox: its own one does not start everywhere."""
    import dspy

    began, cpu, answer, ending = time.monotonic(), time.process_time(), None, "answered"
    asked = len(lm.history)
    with dspy.context(lm=lm, track_usage=False):
        try:
            module = dspy.RLM(problem.signature, max_iters=iterations, interpreter_factory=dspy.LocalInterpreter)
            answer = module(doc=problem.doc, question=problem.question).answer
        except Exception as error:
            ending = type(error).__name__
    return Row("dspy.RLM", problem.kind, ending, answer == problem.answer, 1.0 if answer is not None else 0.0,
               time.monotonic() - began, time.process_time() - cpu,
               sum(one["usage"].get("total_tokens", 0) for one in lm.history[asked:]), str(answer)[:60])  # fmt: skip


def line(row: Row) -> str:
    judged = "right" if row.right else "wrong"
    used = f"{row.confidence:5.2f} {row.seconds:7.1f} s {row.cpu:7.1f} s CPU {row.tokens:7,} tokens"
    return f"{row.who:9} {row.kind:9} {row.ending:10} {judged:6} {used}  {row.answer}"


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("model")
    options.add_argument("--tasks", type=int, default=10)
    options.add_argument("--chars", type=int, default=100_000)
    options.add_argument("--seconds", type=float, default=120.0, help="time limit of one run")
    options.add_argument("--iterations", type=int, default=6)
    options.add_argument("--seed", type=int, default=7, help="of the tasks; prompts were tried out on 7")
    options.add_argument("--threads", type=int, help="that compute; half the processors without")
    options.add_argument("--kinds", default="", help="only these kinds, separated by commas")
    options.add_argument("--peer", action="store_true", help="dspy.RLM too")
    options.add_argument("--json", action="store_true")
    given = options.parse_args()
    from rlm.models import OutlinesLM

    lm = OutlinesLM(given.model, max_tokens=400, threads=given.threads)
    rows: list[Row] = []
    for problem in problems(given.tasks, given.chars, given.seed):
        if given.kinds and problem.kind not in given.kinds.split(","):
            continue
        for run in [ours, peer] if given.peer else [ours]:
            rows.append(run(lm, problem, given.seconds, given.iterations))
            print(json.dumps(asdict(rows[-1])) if given.json else line(rows[-1]), flush=True)
    for who in dict.fromkeys(row.who for row in rows):
        mine = [row for row in rows if row.who == who]
        right = sum(row.right for row in mine)
        sure = [row for row in mine if not row.right and row.confidence > 0.75]
        print(f"{who}: {right} of {len(mine)} right, {sum(r.seconds for r in mine) / len(mine):.1f} s each, "
              f"{sum(r.cpu for r in mine) / len(mine):.1f} s of the processor; "
              f"wrong with a confidence above 0.75: {len(sure)}")  # fmt: skip


if __name__ == "__main__":
    main()
