"""Which tier answers, how rightly and at what cost: 45 short extractions with known answers, for each model.

    .venv/bin/python benchmarks/tiers.py                                   the embedded model
    .venv/bin/python benchmarks/tiers.py --gguf a.gguf --gguf b.gguf       others
    .venv/bin/python benchmarks/tiers.py --cases 10 --only chain,tier3

The weights are in memory once, in llama.cpp's server in this process. Ours asks it directly. The peers ask it over its
OpenAI-compatible endpoint on the loopback interface, from an environment of their own: dspy's ChatAdapter and
JSONAdapter as they come, instructor with its retry loop (JSON, three attempts) and with the server's JSON schema, and
Outlines as shipped (`from_openai`). Each contender answers all cases in a row, so each has its own prompt in the cache.

`parsed`: an answer of the right type came back. `right`: every value of it is. `CPU` is processor seconds of the model
and of whoever asked; the clock says more on a busy machine.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from rich import box
from rich.console import Console
from rich.table import Table

HERE = Path(__file__).resolve().parent
MAX_TOKENS = 160

OURS: dict[str, tuple[str, dict[str, Any]]] = {
    "tier1": ("ours, tier 1 alone", {"tiers": (1,)}),
    "tier2": ("ours, tier 2 alone", {"tiers": (2,)}),
    "tier3": ("ours, tier 3 alone", {"tiers": (3,)}),
    "all": ("ours, tiers 1, 2, 3", {"tiers": (1, 2, 3)}),
    "chain": ("ours, as it comes", {}),
}
PEERS = {
    "dspy-chat": "dspy ChatAdapter",
    "dspy-json": "dspy JSONAdapter",
    "instructor-json": "instructor, JSON, 3 attempts",
    "instructor-schema": "instructor, JSON schema",
    "outlines": "Outlines as shipped, from_openai",
}


def main() -> int:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--gguf", type=Path, action="append", help="a GGUF file; the embedded model without")
    options.add_argument("--cases", type=int, default=45)
    options.add_argument("--only", default="", help="contenders, separated by commas")
    options.add_argument("--threads", type=int, help="that compute; half the processors without")
    options.add_argument("--peers", type=Path, default=HERE.parent / ".venv-bench/bin/python")
    options.add_argument("--json", type=Path, help="write every answer there, and ask nothing that is there already")
    options.add_argument("--one", type=Path, help=argparse.SUPPRESS)
    asked = options.parse_args()
    console = Console(width=120, highlight=False)
    if asked.one is not None:
        measure(None if asked.one == Path("embedded") else asked.one, asked)
        return 0
    kept = asked.json if asked.json is not None and asked.json.exists() else None
    everything: dict[str, Any] = json.loads(kept.read_text()) if kept else {}
    models = [str(one) for one in asked.gguf or ["embedded"]]
    for model in models:
        found = everything.setdefault(model, {"model": model, "load": [], "answers": {}, "failed": {}})
        for key, one in in_a_process(model, [key for key in contenders(asked) if key not in found["answers"]]):
            found["model"] = one["model"]
            found["load"] = [*found["load"][:1], one["load"]] if found["load"] else [one["load"]] * 2
            found["failed" if "why" in one else "answers"][key] = one.get("why") or one["rows"]
            if asked.json:
                asked.json.write_text(json.dumps(everything, indent=1))
    return 1 if sum(show(console, everything[model]) for model in models) else 0


def contenders(asked: Any) -> list[str]:
    return [one for one in (*OURS, *PEERS) if not asked.only or one in asked.only.split(",")]


def in_a_process(model: str, keys: list[str]) -> Iterator[tuple[str, dict[str, Any]]]:
    """Each contender's answers as it is done: llama.cpp gives its memory back only with its process."""
    if not keys:
        return
    command = [sys.executable, __file__, *sys.argv[1:], "--only", ",".join(keys), "--one", model]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        for line in process.stdout:
            one = json.loads(line)
            yield one.pop("key"), one
    if process.returncode:
        raise SystemExit(f"tiers.py: {model} ended with code {process.returncode}")


# Measuring -------------------------------------------------------------------------------------------------------


def measure(gguf: Path | None, asked: Any) -> None:
    """Every contender on one model; what came of each is a line on stdout."""
    from tiers_cases import cases, score

    from rlm.models import OutlinesLM

    lm = OutlinesLM(gguf, backend="llamacpp", context=4096, threads=asked.threads, max_tokens=MAX_TOKENS)
    for key in contenders(asked):
        told: dict[str, Any] = {"key": key, "model": str(lm.model), "load": os.getloadavg()[0]}
        ask, close = ours(lm, OURS[key][1]) if key in OURS else peer(key, lm, asked.peers)
        try:
            ask(cases()[0].kind, cases()[0].text)  # what is made once is made
        except Exception as error:
            print(
                json.dumps({**told, "why": f"{type(error).__name__}: {str(error).splitlines()[0][:150]}"}), flush=True
            )
            continue
        rows = []
        for case in cases()[: asked.cases]:
            began, cpu = time.perf_counter(), time.process_time()
            answer = ask(case.kind, case.text)
            # The model computes in this process, whoever asks; a peer adds what it used itself.
            took = {"seconds": time.perf_counter() - began, "cpu": time.process_time() - cpu + answer.pop("cpu", 0.0)}
            judged = {"parsed": answer["value"] is not None, "right": score(case.right, answer["value"])}
            rows.append({"kind": case.kind, **took, **judged, **answer})
        print(json.dumps({**told, "rows": rows}), flush=True)
        print(f"{lm.model} {key}: {sum(row['right'] for row in rows)} of {len(rows)} right", file=sys.stderr)
        close()


Ask = Callable[[str, str], dict[str, Any]]


def ours(lm: Any, settings: dict[str, Any]) -> tuple[Ask, Callable[[], None]]:
    """Our adapter over the model in this process."""
    import dspy
    from tiers_cases import KINDS

    from rlm import OutlinesAdapter

    adapter = OutlinesAdapter(**settings)
    predictors = {name: dspy.Predict(signature_of(kind)) for name, kind in KINDS.items()}

    def ask(kind: str, text: str) -> dict[str, Any]:
        adapter.metrics.reset()
        value = None
        try:
            with dspy.context(lm=lm, adapter=adapter, track_usage=False):
                made = predictors[kind](text=text)
            value = json.loads(KINDS[kind](**{name: made[name] for name in KINDS[kind].model_fields}).model_dump_json())
        except Exception as error:
            if type(error).__name__ not in ("AdapterParseError", "ValidationError"):
                raise
        counted = adapter.metrics
        used = {f"tokens_{way}": sum(counted[f"tier{n}_tokens_{way}"] for n in (1, 2, 3)) for way in ("in", "out")}
        tier = next((n for n in (1, 2, 3) if counted[f"tier{n}_success"]), None)
        return {"value": value, "tier": tier, **used}

    return ask, lambda: None


def signature_of(kind: Any) -> Any:
    """The same question for dspy: a signature with the fields of the model, and its docstring."""
    import dspy

    fields: dict[str, Any] = {"text": (str, dspy.InputField())}
    fields |= {name: (field.annotation, dspy.OutputField()) for name, field in kind.model_fields.items()}
    return dspy.make_signature(fields, f"Extract from the text: {kind.__doc__}", kind.__name__)


def peer(key: str, lm: Any, python: Path) -> tuple[Ask, Callable[[], None]]:
    """A peer in its own environment. Outlines is here: it is no rival, and what ours is built on."""
    where = sys.executable if key == "outlines" else str(python)
    environment = {**os.environ, "PEER_URL": lm.local._server.listening_address, "PEER_KEY": lm.local._key}
    environment.pop("PYTHONPATH", None)
    command = [where, "-P", str(HERE / "tiers_peers.py"), key, str(MAX_TOKENS)]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
    process = subprocess.Popen(command, **pipes, env=environment, text=True)
    assert process.stdin is not None
    assert process.stdout is not None

    def ask(kind: str, text: str) -> dict[str, Any]:
        process.stdin.write(json.dumps({"kind": kind, "text": text}) + "\n")
        process.stdin.flush()
        line = process.stdout.readline()
        if not line:
            raise RuntimeError(f"{key} ended with code {process.wait()}")
        answer: dict[str, Any] = json.loads(line)
        return answer

    def close() -> None:
        process.stdin.close()
        process.wait(30)

    return ask, close


# Showing ---------------------------------------------------------------------------------------------------------


def show(console: Console, found: dict[str, Any]) -> int:
    """One model's table, and how it stands to the targets. How many were missed."""
    answers = found["answers"]
    table = Table(box=box.SIMPLE, title=f"{found['model']}", title_justify="left")
    for column in ("", "parsed", "right", "s each", "CPU s", "tokens in", "out", "answered by tier 1, 2, 3"):
        table.add_column(column, justify="right" if column else "left", no_wrap=True)
    for key, rows in ((key, answers[key]) for key in (*OURS, *PEERS) if key in answers):
        tiers = [sum(row.get("tier") == tier for row in rows) for tier in (1, 2, 3)]
        table.add_row(
            OURS[key][0] if key in OURS else PEERS[key],
            f"{sum(row['parsed'] for row in rows)} of {len(rows)}",
            str(right(rows)),
            f"{each(rows, 'seconds'):.2f}",
            f"{each(rows, 'cpu'):.2f}",
            f"{each(rows, 'tokens_in'):.0f}",
            f"{each(rows, 'tokens_out'):.0f}",
            ", ".join(map(str, tiers)) if key in OURS else "",
        )
    console.print(table)
    for key, reason in found["failed"].items():
        console.print(f"{PEERS.get(key, key)}: {reason}")
    console.print(f"(load average of the machine: {found['load'][0]:.1f} to {found['load'][1]:.1f})")
    missed = 0
    for target, passed, value in targets(answers):
        console.print(f"{'pass' if passed else 'FAIL'}  {target}: {value}")
        missed += not passed
    console.print()
    return missed


def targets(answers: dict[str, Any]) -> list[tuple[str, bool, str]]:
    made = []
    if "tier3" in answers:
        rows = answers["tier3"]
        parsed = sum(row["parsed"] for row in rows)
        made.append(("tier 3 is always valid", parsed == len(rows), f"{parsed} of {len(rows)}"))
    alone = {key: right(answers[key]) for key in ("tier1", "tier2", "tier3") if key in answers}
    if "chain" in answers and alone:
        best, chain = max(alone.values()), right(answers["chain"])
        made.append(("the chain is as right as its best tier", chain >= best, f"{chain}, best tier {best}"))
    if "chain" in answers and "outlines" in answers:
        ours, stock = each(answers["chain"], "cpu"), each(answers["outlines"], "cpu")
        said = f"{ours:.2f} s, {stock:.2f} s (CPU)"
        made.append(("the chain is quicker than always constraining with stock Outlines", ours < stock, said))
    return made


def right(rows: list[dict[str, Any]]) -> int:
    return sum(row["right"] for row in rows)


def each(rows: list[dict[str, Any]], what: str) -> float:
    return sum(row.get(what) or 0 for row in rows) / len(rows)


if __name__ == "__main__":
    sys.exit(main())
