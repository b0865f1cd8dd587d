"""Sessions whose process is killed at a random moment, opened again and gone on with. As a module: so many of them.

python -m tests.support.killed_sessions 50          prints how many went on with the same answers
"""

from __future__ import annotations

import multiprocessing
import os
import random
import signal
import sys
import tempfile
import time
from dataclasses import replace
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

from tests.support.task_server import write_task

CELLS = (
    "values = [llm_query(f'{n}') for n in range(3)]\nprint(values)",
    "total = sum(map(len, values)) + len(log)\nSUBMIT(answer=total)",
    "import time\nsteps = []\nfor n in range(5):\n    steps.append(llm_query(f's{n}'))\n    time.sleep(0.05)",
    "SUBMIT(answer=total + len(steps))",
    "steps.append(len(log))\nprint(steps)",
    "SUBMIT(answer=total * 2 + len(steps))",
)
ANSWERS = [19, 24, 44]
LOG = "0123456789"
_CONTEXT = multiprocessing.get_context("forkserver")
_CONTEXT.set_forkserver_preload(["rlm.task_session", "rlm.tasks", "rlm.repl.loop", "dspy"])


def ask_all(home: str, path: str, told: Connection) -> None:
    """Ask every question of a new session; say its id first, and when all is done."""
    os.environ["RLM_HOME"] = home
    from rlm.task_session import new_session
    from rlm.tasks import load

    session = new_session(replace(load(path, partial=True), inputs={"log": LOG}))
    told.send(session.chat.id)
    for number in range(len(ANSWERS)):
        session.start(f"Question {number}?").result()
    told.send("done")
    signal.pause()


def kill_one(folder: Path, seconds: float) -> tuple[str, int]:
    """Kill a session so many seconds after it was opened. Return its id, and how the process ended."""
    path = write_task(folder, *CELLS)
    ours, theirs = _CONTEXT.Pipe()
    process = _CONTEXT.Process(target=ask_all, args=(str(folder / "home"), str(path), theirs))
    process.start()
    try:
        assert ours.poll(120), "the process did not begin"
        session_id = ours.recv()
        time.sleep(seconds)
    finally:
        process.kill()
        process.join(60)
    return session_id, process.exitcode or 0


def go_on(folder: Path, session_id: str) -> list[Any]:
    """Open a session again, go on with the question that was cut off, and ask those that are left."""
    from rlm.task_session import reopen_session

    session = reopen_session(session_id, root=folder / "home")
    try:
        if session.chat.unfinished is not None:
            session.chat.resume()
        for number in range(len(session.chat.questions), len(ANSWERS)):
            session.start(f"Question {number}?").result()
        return [(question.outputs or {}).get("answer") for question in session.chat.questions]
    finally:
        session.chat.close()


def main(count: int, seed: int = 0) -> None:
    """Kill so many sessions, and print how many went on with the same answers."""
    moments, same = random.Random(seed), 0
    for number in range(count):
        with tempfile.TemporaryDirectory() as place:
            os.environ["RLM_HOME"] = str(Path(place) / "home")
            seconds = moments.uniform(0, 3)
            answers = go_on(Path(place), kill_one(Path(place), seconds)[0])
            same += answers == ANSWERS
            print(f"{number + 1}: killed after {seconds:.2f} s: {answers}", flush=True)
    print(f"{same} of {count} sessions went on with the same answers")


if __name__ == "__main__":
    main(int(sys.argv[1]))
