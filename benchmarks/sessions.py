"""The sandbox against its peers, in one run: `python benchmarks/sessions.py --rounds 5 [--quick] [--json FILE]`.

One worker process a contender (`worker.py`) takes the times; this driver only says whose turn it is. Contenders take
turns within every round, so that whatever else the machine does falls on all of them. `--prepare` fills Deno's cache
and is the only step that uses the network.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import shutil
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import table
from peers import BY_KEY, CONTENDERS, Entry
from peers.dspy_deno import import_map, write_import_map
from results import Results
from workers import HERE, ROOT, Stopped, Worker, shorten


class Run:
    """The rounds: which contender measures what, and when."""

    def __init__(self, chosen: list[Entry], peer_python: Path, deno_dir: Path) -> None:
        self.results = Results()
        self.peer_python, self.deno_dir = peer_python, deno_dir
        self.workers: dict[str, Worker] = {}
        self.given_up: set[str] = set()
        for entry in chosen:
            self._start(entry)

    def _start(self, entry: Entry) -> None:
        python = Path(sys.executable) if entry.ours else self.peer_python
        if not python.exists():
            self._give_up(entry.key, "setup", f"{python} is missing; `make bench` creates it")
            return
        self.workers[entry.key] = Worker(entry.key, python, self.deno_dir, ours=entry.ours)
        answer = self._ask(entry.key, "setup", do="setup")
        if "version" in answer:
            self.results.versions[entry.key] = answer["version"]

    def _give_up(self, key: str, column: str, reason: str) -> None:
        self.results.fail(key, column, shorten(reason))
        if column in ("setup", "start"):
            self.given_up.add(key)

    def _ask(self, key: str, column: str, **order: Any) -> dict[str, Any]:
        """Ask one worker. A column that failed once is not tried again; a worker that was ended is replaced."""
        try:
            answer = self.workers[key].ask(**order)
        except Stopped as stopped:
            self._give_up(key, column, str(stopped))
            if key not in self.given_up:
                self._start(BY_KEY[key])
            return {}
        if "error" in answer:
            self._give_up(key, column, answer["error"])
            return {}
        return answer

    def turn(self, column: str, shift: int, **order: Any) -> None:
        """Let every contender measure one thing, beginning with another one each round."""
        keys = [entry.key for entry in CONTENDERS if entry.key in self.workers]
        shift %= max(1, len(keys))
        for key in keys[shift:] + keys[:shift]:
            wanted = BY_KEY[key].columns
            failed = column in self.results.failures.get(key, {})
            if key not in self.given_up and not failed and (wanted is None or column in wanted):
                self.results.add(key, self._ask(key, column, **order).get("samples", {}))

    def close(self) -> None:
        for worker in self.workers.values():
            worker.close()


def measure(run: Run, rounds: int, heavy_rounds: int, loop_seconds: float) -> None:
    count = run.workers["cpython"].ask(do="calibrate", seconds=loop_seconds)["count"]
    run.turn("start", 0, do="start")  # who can't start is asked for nothing else
    run.turn("memory", 0, do="memory", count=8)  # before the rest: some contenders use their processes again
    for number in range(rounds):
        began = time.monotonic()
        run.turn("start", number, do="start")
        run.turn("cell", number, do="cell", count=30)
        run.turn("call", number, do="call", count=100)
        run.turn("five", number, do="five")
        run.turn("text10", number, do="text", megabytes=10)
        if number < heavy_rounds:
            run.turn("text100", number, do="text", megabytes=100)
            run.turn("loop", number, do="loop", count=count)
        print(f"round {number + 1} of {rounds}: {time.monotonic() - began:.0f} s", file=sys.stderr)


def prepare(peer_python: Path, deno_dir: Path) -> None:
    """Fetch what the Deno contenders import, while there is a network; what can't be had is said and left."""
    find = "import deno, dspy.primitives as p; print(deno.find_deno_bin()); print(p.__path__[0])"
    deno, dspy = subprocess.run([peer_python, "-c", find], capture_output=True, text=True, check=True).stdout.split()
    env = os.environ | {"DENO_DIR": str(deno_dir), "DENO_NO_PACKAGE_JSON": "1", "NO_COLOR": "1"}
    if "NPM_CONFIG_REGISTRY" not in env and shutil.which("npm"):
        found = subprocess.run(["npm", "config", "get", "registry"], capture_output=True, text=True, check=False)
        if found.returncode == 0:
            env["NPM_CONFIG_REGISTRY"] = found.stdout.strip()
    deno_dir.mkdir(parents=True, exist_ok=True)
    import_map(deno_dir).unlink(missing_ok=True)
    runner = Path(dspy) / "runner.js"
    if cache(deno, HERE / "peers" / "pyodide_bare.js", env) and not cache(deno, runner, env):
        cache(deno, runner, env, f"--import-map={write_import_map(deno_dir)}")


def cache(deno: str, script: Path, env: dict[str, str], *options: str) -> bool:
    command = [deno, "cache", "--no-config", "--no-lock", *options, str(script)]
    done = subprocess.run(command, env=env, capture_output=True, text=True, check=False)
    outcome = "cached" if done.returncode == 0 else shorten(done.stderr[done.stderr.find("error:") :])
    print(" ".join([script.name, *options]) + f": {outcome}")
    return done.returncode == 0


def heading(rounds: int) -> str:
    return (
        f"{platform.platform()}, {os.cpu_count()} cores, CPython {platform.python_version()}, "
        f"{time.strftime('%Y-%m-%d')}, {rounds} rounds"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=5, help="rounds of the quick measures; the heavy ones get 3")
    parser.add_argument("--quick", action="store_true", help="at most 2 rounds, one heavy one, a short loop")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write all samples there, too")
    parser.add_argument("--venv", type=Path, default=ROOT / ".venv-bench", help="the environment of the peers")
    parser.add_argument("--only", help="contenders, by comma: " + ", ".join(BY_KEY))
    parser.add_argument("--prepare", action="store_true", help="fill Deno's cache and stop; needs a network")
    options = parser.parse_args()
    venv = options.venv.absolute()
    peer_python, deno_dir = venv / "bin" / "python", venv / "deno-cache"
    if options.prepare:
        prepare(peer_python, deno_dir)
        return

    # The yardstick is always part of a run.
    names = {"cpython", *options.only.split(",")} if options.only else set(BY_KEY)
    rounds = min(options.rounds, 2) if options.quick else options.rounds
    run = Run([entry for entry in CONTENDERS if entry.key in names], peer_python, deno_dir)
    try:
        measure(run, rounds, 1 if options.quick else min(rounds, 3), 0.2 if options.quick else 1.0)
    finally:
        run.close()
    table.print_results(run.results, heading(rounds))
    if options.json:
        options.json.write_text(json.dumps(run.results.as_json(), indent=1) + "\n")


if __name__ == "__main__":
    main()
