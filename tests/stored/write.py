"""Write the records that the tests in this folder read: `python tests/stored/write.py`.

The tasks of `harbour/` are copied to /tmp/harbour and run there. What that leaves on disk is copied back, with no path
and no host name of the machine in it. `harbour/written.json` says which version of the code wrote it, and
names the runs.

Do not run it to make a failing test pass: the records stand for those that users have. The tasks, scripts and tools
belong to them: the ledger of the batch has their hashes.
"""

from __future__ import annotations

import contextlib
import json
import os
import platform
import shutil
import signal
import socket
import sqlite3
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent / "harbour"
PLACE = Path("/tmp/harbour")
HOME = PLACE / "home"
WRITTEN = ("home", "plan-logs", "evals", "rows.results.jsonl", "calibrator.json", "written.json")
PASSING = (".lock", ".log", ".db-shm", ".db-wal")
RESULTS = PLACE / "rows.results.jsonl"
ENVIRONMENT = {
    "PATH": "/usr/bin:/bin",
    "HOME": str(PLACE),
    "USER": "harbour",
    "LANG": "C.UTF-8",
    "RLM_HOME": str(HOME),
    "PYTHONPATH": str(HERE.parents[2]),
    "PYTHONDONTWRITEBYTECODE": "1",
}
RLM = [sys.executable, "-m", "rlm.cli"]


def main() -> None:
    """Write everything."""
    if PLACE.exists():
        sys.exit(f"{PLACE} is there already; remove it first")
    shutil.copytree(HERE, PLACE, ignore=shutil.ignore_patterns(*WRITTEN, "__pycache__"))
    try:
        written = {**versions(), "runs": write_runs()}
        write_batch()
        write_evaluations()
        write_calibrator()
        (PLACE / "written.json").write_text(json.dumps(written, indent=2) + "\n")
        settle()
        check()
        copy_back()
    finally:
        shutil.rmtree(PLACE)


def write_runs() -> dict[str, str]:
    """Runs of every ending, a fork, two that were killed, and two with plans; their ids."""
    runs = {name: run(f"{name}.yaml") for name in ("submitted", "extracted", "failed", "escalated")}
    runs["fork"] = forked(runs["submitted"])
    runs["killed"] = killed("killed.yaml", "gate killed")
    runs["killed_plans"] = killed("plans.yaml", "gate plans")
    (PLACE / "open").touch()
    runs["plans"] = run("plans.yaml")
    (PLACE / "open").unlink()
    return runs


def write_batch() -> None:
    """A batch whose driver is killed while its fourth item runs: two are done, and one has failed."""
    arguments = ("batch", "batch.yaml", "--over", "rows.csv", "-o", RESULTS.name, "--workers", "1", "--at-once", "1")
    kill_at(arguments, "weigh Petrel")


def write_evaluations() -> None:
    """Two logs of the same samples; in one of them a sample was broken off by an error."""
    for name in ("baseline", "eval"):
        rlm("eval", "run", "keys.jsonl", "--task", f"{name}.yaml", "--log", f"evals/{name}", "-q", "--at-once", "1")


def write_calibrator() -> None:
    """A calibrator, from an evaluation of 440 samples that is not kept."""
    settings = ("--length", "4k", "--count", "40", "--model", "oracle", "--error-rate", "0.1", "--max-iterations", "3")
    rlm("eval", "run", "all", *settings, "--log", "answers", "-q", RLM_TRACE="off")
    rlm("eval", "calibrate", "answers", "--out", "calibrator.json")


def run(task: str) -> str:
    """Run a task; the id of its run."""
    return ended("run", task, "--json", "-q")


def ended(*arguments: str) -> str:
    """The id of the run that a command prints."""
    return str(json.loads(rlm(*arguments))["run_id"])


def forked(original: str) -> str:
    """Fork the run before its last iteration, in which the model submits something else; the id of the fork."""
    replies = PLACE / "submitted.replies.yaml"
    before = replies.read_text()
    replies.write_text(before.replace("accidents=accidents", "accidents=[]"))
    fork = ended("fork", original, "--at", "3", "--max-iterations", "7", "--json", "-q")
    replies.write_text(before)
    return fork


def killed(task: str, call: str) -> str:
    """Run a task and kill it in that call; the id of its run."""
    kill_at(("run", task, "-q"), call)
    return str(json.loads(rlm("runs", "list", "--json", "-n", "1"))["id"])


def kill_at(arguments: tuple[str, ...], call: str) -> None:
    """Run a command and kill it, with all its processes, once a tool has written down that call."""
    called = PLACE / "called.txt"
    called.unlink(missing_ok=True)
    with subprocess.Popen([*RLM, *arguments], cwd=PLACE, env=ENVIRONMENT, start_new_session=True) as process:
        while not (called.exists() and call in called.read_text().splitlines()):
            if process.poll() is not None:
                sys.exit(f"{arguments} ended before it called {call!r}")
            time.sleep(0.05)
        time.sleep(1)  # the trace is written within 50 ms
        os.killpg(process.pid, signal.SIGKILL)


def rlm(*arguments: str, **environment: str) -> str:
    """What a command prints."""
    done = subprocess.run(
        [*RLM, *arguments], cwd=PLACE, env={**ENVIRONMENT, **environment}, capture_output=True, text=True, check=False
    )
    if done.returncode not in (0, 1):  # 1: no acceptable answer
        sys.exit(f"rlm {' '.join(arguments)}: exit code {done.returncode}\n{done.stderr}")
    return done.stdout


def versions() -> dict[str, Any]:
    """The code that writes."""
    import dspy

    import rlm

    commit = subprocess.run(
        ["git", "rev-parse", "HEAD"], cwd=HERE, capture_output=True, text=True, check=True
    ).stdout.strip()
    return {"rlm": rlm.__version__, "commit": commit, "dspy": dspy.__version__, "python": platform.python_version()}


def settle() -> None:
    """Move everything from the write-ahead logs into the databases, and take the host's name out of the batch."""
    host = socket.gethostname()
    RESULTS.write_text(RESULTS.read_text().replace(f'"{host}:', '"harbour:'))
    for path in HOME.rglob("*.db"):
        with contextlib.closing(sqlite3.connect(path)) as database, database:
            if path.parent.name == "batches":
                database.execute("UPDATE outcomes SET line = replace(line, ?, ?)", (f'"{host}:', '"harbour:'))
        with contextlib.closing(sqlite3.connect(path)) as database:
            database.execute("PRAGMA wal_checkpoint(TRUNCATE)")


def check() -> None:
    """Stop if anything of the machine is in what was written."""
    import rlm.traces

    texts = {
        run.id: json.dumps([run.resolve(event.data) for event in run.events()], default=str)
        for run in rlm.traces.load(HOME)
    }
    texts |= {name: (PLACE / name).read_bytes().decode("latin-1") for name in written_files()}
    for foreign in (socket.gethostname(), str(HERE.parents[2]), str(Path.home()), sys.prefix):
        for name, text in texts.items():
            if foreign in text:
                at = text.index(foreign)
                sys.exit(f"{name} has {foreign!r} in it: {text[max(0, at - 80) : at + 80]!r}")


def written_files() -> list[str]:
    """What is kept, as paths below the folder."""
    paths = [path for name in WRITTEN for path in (PLACE / name, *(PLACE / name).rglob("*")) if path.is_file()]
    return sorted(
        str(path.relative_to(PLACE)) for path in paths if path.suffix not in (".lock", ".log", ".db-shm", ".db-wal")
    )


def copy_back() -> None:
    """Put what was written beside the tasks."""
    for name in WRITTEN:
        shutil.rmtree(HERE / name, ignore_errors=True)
    for name in written_files():
        (HERE / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(PLACE / name, HERE / name)


if __name__ == "__main__":
    main()
