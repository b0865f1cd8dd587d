"""What a constraint costs: free generation, Outlines' own backends and ours, on each engine that is installed.

    .venv/bin/python benchmarks/constrained.py                    the embedded model
    .venv/bin/python benchmarks/constrained.py --gguf model.gguf  another one
    .venv/bin/python benchmarks/constrained.py --engine mlx --rounds 3 --cases 6

Contenders take turns within each round, and a ratio is the median over rounds of the times of two contenders in one
round, so that a machine that does other things too slows both. Before each short extraction, those that keep prompts
are asked another one that begins the same: they have read the instructions, not the sentence. Every engine runs in a
process of its own.

`x free` is a token against a token of free generation by the same engine. `x new` and `x kept` are a whole short
extraction against free generation that reads the prompt anew, and against one that has kept its beginning.
Targets are judged by processor time (`CPU`): on an idle machine the clock says the same, on a busy one anything.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from rich import box
from rich.console import Console
from rich.table import Table

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

PER_TOKEN, WHOLE = 1.05, 0.60


def main() -> int:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--gguf", type=Path, action="append", help="a GGUF file; the embedded model without")
    options.add_argument("--engine", action="append", help="mlx, xllamacpp or llama-cpp-python; all without")
    options.add_argument("--rounds", type=int, default=5, help="of the long text")
    options.add_argument("--cases", type=int, default=12, help="short extractions")
    options.add_argument("--tokens", type=int, default=48, help="of the long text")
    options.add_argument("--json", type=Path, help="also write the samples there")
    options.add_argument("--show", type=Path, help="print the samples of an earlier run")
    options.add_argument("--one", help=argparse.SUPPRESS)
    asked = options.parse_args()
    if asked.show:
        console = Console(width=150, highlight=False)
        return 1 if sum(show(console, found) for found in json.loads(asked.show.read_text())) else 0
    if asked.one:
        print(json.dumps(measure(asked.one, asked.gguf[0] if asked.gguf else None, asked)))
        return 0
    from constrained_engines import ENGINES, has

    console = Console(width=150, highlight=False)
    everything, missed = [], 0
    for gguf in asked.gguf or [None]:
        for engine in asked.engine or ENGINES:
            if not has(ENGINES[engine][0]):
                console.print(f"{engine}: not installed here\n")
                continue
            found = in_a_process(engine, gguf, asked)
            everything.append(found)
            missed += show(console, found)
    if asked.json:
        asked.json.write_text(json.dumps(everything, indent=1))
    return 1 if missed else 0


def in_a_process(engine: str, gguf: Path | None, asked: Any) -> dict[str, Any]:
    command = [sys.executable, __file__, "--one", engine, "--rounds", str(asked.rounds), "--cases", str(asked.cases)]
    command += ["--tokens", str(asked.tokens), *(["--gguf", str(gguf)] if gguf else [])]
    done = subprocess.run(command, stdout=subprocess.PIPE, check=True, env={**os.environ, "TQDM_DISABLE": "1"})
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found


def measure(engine: str, gguf: Path | None, asked: Any) -> dict[str, Any]:
    """Every contender of one engine, in turns."""
    from constrained_cases import OTHER, PROSE, STORY, Person, cases, score
    from constrained_engines import ENGINES

    name, contenders = ENGINES[engine][1](gguf)
    failed: dict[str, str] = {}
    for one in contenders:
        try:  # once before the clock runs: what is cached is cached, and what does not work is known
            one.run(STORY, PROSE, 4)
            one.run(cases(1)[0][0], Person, 64)
        except Exception as error:
            failed[one.key] = f"{type(error).__name__}: {str(error).splitlines()[0][:100]}"
    working = [one for one in contenders if one.key not in failed]
    long: dict[str, list[tuple[float, float]]] = {one.key: [] for one in working}
    for _ in range(asked.rounds):
        for one in working:
            wall, cpu, (text, tokens) = timed(lambda one=one: one.run(STORY, PROSE, asked.tokens))
            size = tokens or asked.tokens
            long[one.key].append((wall / size, cpu / size))
    short: dict[str, list[tuple[float, float, bool, float]]] = {one.key: [] for one in working}
    for prompt, right in cases(asked.cases):
        for one in working:
            if one.keeps:
                one.run(OTHER, Person, 8)
            wall, cpu, (text, _) = timed(lambda one=one, prompt=prompt: one.run(prompt, Person, 64))
            short[one.key].append((wall, cpu, *score(text.strip(), right)))
    labels = {one.key: (one.label, one.free) for one in contenders}
    load = os.getloadavg()[0]
    return {
        "engine": engine, "model": str(name), "labels": labels, "failed": failed, "long": long, "short": short,
        "load": load, "tokens": asked.tokens,
    }  # fmt: skip


def timed(work: Any) -> tuple[float, float, Any]:
    wall, cpu = time.perf_counter(), time.process_time()
    result = work()
    return time.perf_counter() - wall, time.process_time() - cpu, result


def show(console: Console, found: dict[str, Any]) -> int:
    """Print one engine's table and how it stands to the targets. How many were missed."""
    table = Table(box=box.SIMPLE, title=f"{found['engine']}: {found['model']}", title_justify="left")
    for column in (
        "",
        "ms a token",
        "x free",
        "CPU",
        "s a short one",
        "x new",
        "CPU",
        "x kept",
        "CPU",
        "valid",
        "right",
    ):
        table.add_column(column, justify="right" if column else "left", no_wrap=True)
    ratios = {}
    for key, (label, base) in found["labels"].items():
        if key in found["failed"]:
            table.add_row(label, "[red]failed[/red]")
            continue
        long, short = found["long"][key], found["short"][key]
        per, per_cpu = (ratio(found["long"], key, base, at) for at in (0, 1))
        # A whole extraction is compared with free generation that reads the prompt anew, which is what Outlines does,
        # and with free generation that has kept the beginning of the prompt, as ours does.
        whole, whole_cpu = (ratio(found["short"], key, "stock-free", at) for at in (0, 1))
        kept, kept_cpu = (ratio(found["short"], key, "free", at) for at in (0, 1))
        ratios[key] = (per_cpu or 1.0, whole_cpu or 1.0)
        table.add_row(
            label,
            f"{1000 * statistics.median(one[0] for one in long):.1f}",
            number(per),
            number(per_cpu),
            f"{statistics.median(one[0] for one in short):.2f}",
            number(whole),
            number(whole_cpu),
            number(kept),
            number(kept_cpu),
            f"{statistics.mean(one[2] for one in short):.0%}",
            f"{statistics.mean(one[3] for one in short):.0%}",
        )
    console.print(table)
    for key, reason in found["failed"].items():
        console.print(f"{found['labels'][key][0]}: {reason}")
    console.print(f"(load average of the machine: {found['load']:.1f}; {found['tokens']} tokens)")
    return targets(console, found, ratios["ours"])


def ratio(samples: dict[str, Any], key: str, base: str | None, at: int) -> float | None:
    if base is None or base == key:
        return None
    return statistics.median(one[at] / other[at] for one, other in zip(samples[key], samples[base], strict=True))


def number(value: float | None) -> str:
    return "" if value is None else f"{value:.2f}"


def targets(console: Console, found: dict[str, Any], ours: tuple[float, float]) -> int:
    right = {key: statistics.mean(one[3] for one in short) for key, short in found["short"].items()}
    best = max(right.values())
    checks = [
        (f"a token at most {PER_TOKEN} of free", ours[0] <= PER_TOKEN, f"{ours[0]:.2f}"),
        (f"a whole extraction at most {WHOLE} of free", ours[1] <= WHOLE, f"{ours[1]:.2f}"),
        ("no fewer right values than any other", right["ours"] >= best, f"{right['ours']:.0%}, best {best:.0%}"),
    ]
    for target, passed, value in checks:
        console.print(f"{'[green]pass[/green]' if passed else '[red]FAIL[/red]'}  {target}: {value}")
    console.print()
    return sum(not passed for _, passed, _ in checks)


if __name__ == "__main__":
    sys.exit(main())
