"""Score and cost by suite and length, with one and the same model: direct prompting, dspy.RLM, this runtime.

    python benchmarks/quality.py [--lengths 8000,64000,512000] [--samples 12] [--suites count,pairs] [--json FILE]
    python benchmarks/quality.py --gguf MODEL.gguf --suites needle,sums --lengths 8000 --samples 3 --iterations 6

The model is the scripted oracle, which errs at a set rate (`--error`, `--bad-code`, `--window`; see
`rlm/evals/oracle`), or a local model. Direct prompting is the baseline of `rlm eval`: everything in one prompt; what
is longer than the window is refused, and scores 0. dspy.RLM runs as its documentation says, on its LocalInterpreter
(which has no sandbox), with the same limits as this runtime has. Scores are means with their standard errors; tokens
and calls are those of all requests of a run that were answered, as the model counted them.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import logging
import math
import os
import platform
import statistics
import sys
import time
import warnings
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

CALLS = 50
"""Questions to sub models in one run: what both runtimes allow by themselves."""


@dataclass(frozen=True)
class Limits:
    """Of one run."""

    iterations: int
    seconds: float
    """dspy.RLM has no such limit."""


@dataclass(frozen=True)
class Row:
    """One sample, run by one contender."""

    who: str
    suite: str
    length: int
    score: float
    ending: str
    calls: int
    tokens: int
    usd: float | None
    seconds: float


def direct(sample: Any, lm: Any, limits: Limits) -> tuple[str, Any]:
    from rlm.evals.baseline import run_direct

    return _ending(asyncio.run(run_direct(_task(sample, limits), lambda *_: lm)))


def ours(sample: Any, lm: Any, limits: Limits) -> tuple[str, Any]:
    from rlm.runner import arun_task

    return _ending(asyncio.run(arun_task(_task(sample, limits), make=lambda *_: lm)))


def peer(sample: Any, lm: Any, limits: Limits) -> tuple[str, Any]:
    """dspy.RLM on the interpreter of its own that needs nothing installed."""
    import dspy

    from rlm.signatures import Signature

    signature = Signature.of(sample.signature, instructions=sample.instructions).to_dspy()
    with dspy.context(lm=lm):
        try:
            made = dspy.RLM(
                signature,
                max_iters=limits.iterations,
                max_llm_calls=CALLS,
                sub_lm=lm,
                interpreter_factory=dspy.LocalInterpreter,
            )(**sample.inputs)
        except Exception as error:  # dspy raises where a run ends without an answer
            return type(error).__name__, None
    forced = made.final_reasoning == "Extract forced final output"
    return "Extracted" if forced else "Submitted", {name: made[name] for name in sample.expected}


WHO: dict[str, Callable[[Any, Any, Limits], tuple[str, Any]]] = {"direct": direct, "dspy.RLM": peer, "rlm": ours}


def _task(sample: Any, limits: Limits) -> Any:
    from rlm.evals.config import EvalSettings

    budget = {"max_iterations": limits.iterations, "max_llm_calls": CALLS, "max_duration": limits.seconds}
    return EvalSettings(models={"main": "oracle"}, budget=budget).task_for(sample)


def _ending(result: Any) -> tuple[str, Any]:
    return type(result).__name__, result.to_dict().get("outputs")


def rows(options: argparse.Namespace, model: Callable[[], Any]) -> Iterator[Row]:
    from rlm.evals.scorers import score
    from rlm.evals.suites import SUITES

    for name in options.suites.split(",") if options.suites else SUITES:
        for length in map(int, options.lengths.split(",")):
            for sample in SUITES[name].generate(options.seed, length, options.samples):
                for who, run in WHO.items():
                    lm = model()
                    lm.history.clear()
                    began = time.monotonic()
                    ending, outputs = run(sample, lm, Limits(options.iterations, options.seconds))
                    seconds = time.monotonic() - began
                    used = [one.get("usage") or {} for one in lm.history]
                    tokens = sum(one.get("prompt_tokens", 0) + one.get("completion_tokens", 0) for one in used)
                    costs = [one.get("cost") for one in lm.history]
                    usd = None if None in costs else sum(costs)
                    got = score(sample, outputs).total
                    yield Row(who, name, length, got, ending, len(used), tokens, usd, seconds)


def print_table(found: list[Row]) -> None:
    from rich import box
    from rich.console import Console
    from rich.table import Table

    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    table.add_column("suite")
    table.add_column("characters", justify="right")
    for who in WHO:
        for column in (f"{who}: score", "tokens", "calls"):
            table.add_column(column, justify="right")
    for suite in [*dict.fromkeys(row.suite for row in found), None]:
        for length in dict.fromkeys(row.length for row in found):
            cells = []
            for who in WHO:
                mine = [r for r in found if r.who == who and r.length == length and suite in (None, r.suite)]
                cells += [
                    _mean([row.score for row in mine]),
                    f"{statistics.mean(row.tokens for row in mine):,.0f}",
                    f"{statistics.mean(row.calls for row in mine):.1f}",
                ]
            table.add_row(suite or "all", f"{length:,}", *cells, end_section=length == found[-1].length)
    console = Console(width=150, highlight=False)
    console.print(table)
    for who in WHO:
        mine = [row for row in found if row.who == who]
        endings = {name: sum(row.ending == name for row in mine) for name in sorted({row.ending for row in mine})}
        costs = [row.usd for row in mine if row.usd is not None]
        usd = f"{sum(costs):.4f} USD" if len(costs) == len(mine) else "cost in USD unknown"
        said = ", ".join(f"{count} {name}" for name, count in endings.items())
        console.print(f"{who}: {said}; {usd}; {sum(row.seconds for row in mine):.0f} s", markup=False)


def _mean(scores: list[float]) -> str:
    mean = f"{statistics.mean(scores):.2f}"
    return f"{mean} ± {statistics.stdev(scores) / math.sqrt(len(scores)):.2f}" if len(scores) > 1 else mean


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--suites", default="", help="some suites only, separated by commas")
    parser.add_argument("--lengths", default="8000,64000,512000", help="in characters")
    parser.add_argument("--samples", type=int, default=12, help="of each suite and length")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--error", type=float, default=0.01, help="how likely the oracle misreads a fact")
    parser.add_argument("--bad-code", type=float, default=0.05, help="how likely a cell of it does not run")
    parser.add_argument("--window", type=int, default=32_000, help="tokens that it can read at once")
    parser.add_argument("--iterations", type=int, default=20, help="of one run, at most")
    parser.add_argument("--seconds", type=float, default=300, help="of one run, at most (dspy.RLM has no such limit)")
    parser.add_argument("--gguf", metavar="PATH", help="a local model in place of the oracle")
    parser.add_argument("--max-tokens", type=int, default=1000, help="of one reply of the local model")
    parser.add_argument("--threads", type=int, help="that the local model computes with; half the processors without")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write every run there, too")
    options = parser.parse_args()
    warnings.filterwarnings("ignore", category=UserWarning, module="dspy")
    logging.getLogger("dspy").setLevel(logging.ERROR)
    os.environ.setdefault("RLM_TRACE", "off")

    from rlm.evals.simulated import Oracle, oracle_lm

    def oracle() -> Any:
        settings = Oracle(error=options.error, bad_code=options.bad_code, window=options.window, seed=options.seed)
        return oracle_lm(settings)

    model: Callable[[], Any] = oracle
    if options.gguf:
        from rlm.models import OutlinesLM

        local = OutlinesLM(options.gguf, max_tokens=options.max_tokens, threads=options.threads)
        model = lambda: local  # noqa: E731
    began = time.monotonic()
    found = []
    for row in rows(options, model):
        found.append(row)
        if options.gguf:
            print(row, file=sys.stderr, flush=True)
        elif sys.stderr.isatty():
            print(f"\r{len(found)} runs, {row.suite} {row.length:,}    ", end="", file=sys.stderr, flush=True)
    what = Path(options.gguf).name if options.gguf else f"the oracle, {oracle()._engine_spec.settings}"
    print(f"\n{platform.platform()}, {os.cpu_count()} cores, CPython {platform.python_version()}, {what}")
    print_table(found)
    print(f"{len(found)} runs in {time.monotonic() - began:.0f} s: python {' '.join(sys.argv)}")
    if options.json:
        options.json.write_text(json.dumps([asdict(row) for row in found], indent=1) + "\n")


if __name__ == "__main__":
    main()
