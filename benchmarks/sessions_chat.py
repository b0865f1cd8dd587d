"""Sessions of several questions: `python benchmarks/sessions_chat.py [--quick] [--json FILE]`.

What a second question over 10 MB costs next to a run of its own, how long it takes to open a session again after 5, 50
and 500 cells, and the memory of 100 idle sessions. Replies are scripted, so that times are the runtime's own; tokens
are those of the prompts, four characters each. rlms with `persistent=True` is measured beside it where
`.venv-bench` has it (`make bench` makes that).
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
PEER = ROOT / ".venv-bench" / "bin" / "python"
LINE = "2026-11-03 10:00:00 {kind} service-{service} request {number} took 12 ms\n"
BUILD = (
    "rows = [line.split() for line in log.splitlines()]\nprint(len(rows))",
    "from collections import Counter\nerrors = Counter(row[3] for row in rows if row[2] == 'ERROR')\n"
    "print(errors.most_common(3))",
    "SUBMIT(answer=sum(errors.values()))",
)
AGAIN = ("SUBMIT(answer=errors['service-3'])",)


def text_of(size: int) -> str:
    lines, number, length = [], 0, 0
    while length < size:
        kind = "ERROR" if number % 9 == 0 else "INFO"
        lines.append(LINE.format(kind=kind, service=number % 7, number=number))
        length += len(lines[-1])
        number += 1
    return "".join(lines)


def predict_of(cells: list[str], **options: Any) -> Any:
    import rlm
    from rlm.models.scripted import scripted_lm

    lm = scripted_lm([f"```python\n{cell}\n```" for cell in cells])
    sub = scripted_lm({"*": "yes"})
    signature = "log: str, question: str -> answer: int"
    return rlm.Predict(signature, lm=lm, sub_lm=sub, extraction_lm=sub, record=False, **options)


def tokens_of(predict: Any) -> float:
    """Return the tokens of all prompts so far, the system prompts among them."""
    requests = predict.act.lm._engine_spec.requests
    return sum(len(str(one.system or "")) + sum(len(part.text or "") for part in one.messages) for one in requests) / 4


def timed(work: Callable[[], Any]) -> tuple[float, Any]:
    began = time.monotonic()
    result = work()
    return time.monotonic() - began, result


def second_question(rounds: int, size: int) -> dict[str, float]:
    """A second question in a session, and the same as a run of its own, which has to do the work of the first again."""
    log, found = text_of(size), []
    for _ in range(rounds):
        asked = predict_of([*BUILD, *AGAIN])
        with asked.session(log=log) as chat:
            first_s, first = timed(lambda: chat.ask(question="How many errors?"))
            before = tokens_of(asked)
            second_s, second = timed(lambda: chat.ask(question="How many of service-3?"))
        alone = predict_of([*BUILD[:2], *AGAIN])
        fresh_s, fresh = timed(partial(alone.run_with_fallback, log=log, question="How many of service-3?"))
        assert first.outputs.answer > second.outputs.answer == fresh.outputs.answer
        found.append((first_s, second_s, fresh_s, tokens_of(asked) - before, tokens_of(alone)))
    names = ("first_s", "second_s", "fresh_s", "second_tokens", "fresh_tokens")
    return {name: statistics.median(values) for name, values in zip(names, zip(*found, strict=True), strict=True)}


def reopening(cells: int) -> dict[str, float]:
    """Open a session again, whose kernel was killed after so many cells that all left something behind."""
    from rlm.budgets import FallbackTrigger

    trigger = FallbackTrigger(max_iterations=cells + 5, max_duration=3_600)
    codes = ["kept = [llm_query('first')]", *[f"kept.append(len(kept) + {number})" for number in range(cells - 2)]]
    predict = predict_of([*codes, "SUBMIT(answer=len(log))", "SUBMIT(answer=len(kept))"], trigger=trigger)
    chat = predict.session(log="x" * 1_000)
    chat.ask(question="Begin.")
    chat.close()  # the kernel is killed, as it is with its process

    def again() -> Any:
        with predict.reopen(chat.id) as opened:
            result = opened.ask(question="How many?")
            assert result.outputs.answer == cells - 1, result
            return opened.rebuilt

    seconds, rebuilt = timed(again)
    assert not rebuilt.different
    return {
        "cells": cells,
        "ran": rebuilt.cells,
        "left_out": rebuilt.skipped,
        "rebuild_s": rebuilt.seconds,
        "all_s": seconds,
    }


def memory_of_idle(count: int) -> dict[str, float]:
    """The memory of sessions that have given their kernels back, and of one kernel that has not."""
    import psutil

    import rlm

    here = psutil.Process()

    def used() -> float:
        processes = [here, *here.children(recursive=True)]
        return sum(process.memory_full_info().pss for process in processes) / 1e6

    def session(idle: float) -> Any:
        chat = predict_of(["n = len(log)\nSUBMIT(answer=n)"]).session(
            rlm.SessionSettings(idle_seconds=idle), log="x" * 100
        )
        chat.ask(question="How long?")
        return chat

    session(0.05).close()
    time.sleep(1)
    before = used()
    idle = [session(0.05) for _ in range(count)]
    while any(chat.has_kernel for chat in idle):
        time.sleep(0.1)
    time.sleep(1)
    after = used()
    warm = [session(3_600) for _ in range(5)]
    time.sleep(1)
    with_kernels = used()
    for chat in (*idle, *warm):
        chat.close()
    return {
        "sessions": count,
        "idle_mb_each": (after - before) / count,
        "idle_mb_all": after - before,
        "with_kernel_mb_each": (with_kernels - after) / len(warm),
    }


def peer(python: Path, size: int, rounds: int) -> dict[str, Any]:
    """The same two questions to rlms with `persistent=True`, in its own environment."""
    if not python.exists():
        return {"failed": f"{python} is missing; `make bench` makes it"}
    command = [str(python), str(ROOT / "benchmarks" / "sessions_chat_peer.py"), str(size), str(rounds)]
    done = subprocess.run(command, capture_output=True, text=True, cwd=tempfile.gettempdir(), timeout=600, check=False)
    lines = done.stdout.strip().splitlines()
    if done.returncode or not lines:
        return {"failed": (done.stderr.strip().splitlines() or ["no output"])[-1]}
    answer: dict[str, Any] = json.loads(lines[-1])
    return answer


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="one round, 1 MB, 20 sessions")
    parser.add_argument("--json", type=Path, help="write the numbers to a file")
    parser.add_argument("--peer", type=Path, default=PEER, help="the Python that has rlms")
    options = parser.parse_args()
    size, rounds, idle = (1_000_000, 1, 20) if options.quick else (10_000_000, 3, 100)
    with tempfile.TemporaryDirectory() as home:
        os.environ["RLM_HOME"] = home
        predict_of(["SUBMIT(answer=len(log))"]).run_with_fallback(log="x", question="Start the fork server.")
        found: dict[str, Any] = {"second": second_question(rounds, size)}
        found["reopening"] = [reopening(cells) for cells in (5, 50, 500)]
        found["memory"] = memory_of_idle(idle)
    found["rlms"] = peer(options.peer, size, rounds)
    second, memory, other = found["second"], found["memory"], found["rlms"]
    print(f"A second question over {size / 1e6:.0f} MB, medians of {rounds}")
    print(f"  first question    {second['first_s']:8.2f} s")
    print(f"  second question   {second['second_s']:8.2f} s {second['second_tokens']:8,.0f} tokens")
    print(f"  as a run alone    {second['fresh_s']:8.2f} s {second['fresh_tokens']:8,.0f} tokens")
    if "failed" in other:
        print(f"  rlms              {other['failed']}")
    else:
        print(
            f"  rlms {other['version']}, persistent: first {other['first_s']:.2f} s, second {other['second_s']:.2f} s,"
        )
        print(
            f"    {other['second_tokens']:,.0f} tokens; alone {other['fresh_s']:.2f} s, "
            f"{other['fresh_tokens']:,.0f} tokens"
        )
    print("Opened again, and asked")
    for row in found["reopening"]:
        print(
            f"  after {row['cells']:3} cells   {row['all_s']:8.2f} s, of which {row['rebuild_s']:.2f} s run "
            f"{row['ran']} cells again ({row['left_out']} left out)"
        )
    print(f"Memory of {memory['sessions']} idle sessions")
    print(
        f"  all of them       {memory['idle_mb_all']:8.1f} MB; one with its kernel "
        f"{memory['with_kernel_mb_each']:.1f} MB"
    )
    if options.json is not None:
        options.json.write_text(json.dumps(found, indent=2) + "\n", encoding="utf-8")


if __name__ == "__main__":
    sys.path.insert(0, str(ROOT))
    main()
