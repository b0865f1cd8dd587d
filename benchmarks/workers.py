"""One worker process a contender: started in its environment, given orders as JSON lines, ended with all it started."""

from __future__ import annotations

import json
import os
import re
import select
import signal
import subprocess
import tempfile
from pathlib import Path
from typing import Any

import processes

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent
LIMIT_S = 60.0


class Stopped(Exception):
    """A worker ended, or had to be ended."""


class Worker:
    """The process of one contender, and the orders that it is given."""

    def __init__(self, key: str, python: Path, deno_dir: Path, *, ours: bool, script: str = "worker.py") -> None:
        env = os.environ | {"DENO_DIR": str(deno_dir), "NO_COLOR": "1"}
        env.pop("PYTHONPATH", None)
        if ours:
            env["PYTHONPATH"] = str(ROOT)
        # Kernels and interpreters of the environment are found through PATH, as when it is activated.
        env["PATH"] = f"{python.parent}{os.pathsep}{env.get('PATH', '')}"
        self.words = tempfile.TemporaryFile()  # noqa: SIM115 - lives as long as the worker
        self.process = subprocess.Popen(
            [str(python), "-P", str(HERE / script), key],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self.words,
            env=env,
            cwd=tempfile.gettempdir(),
        )

    def ask(self, limit: float = LIMIT_S, **order: Any) -> dict[str, Any]:
        """Give one order and wait for the answer; raises Stopped when none comes in time."""
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        try:
            self.process.stdin.write(json.dumps(order).encode() + b"\n")
            self.process.stdin.flush()
        except BrokenPipeError:
            pass  # the empty answer below says so
        ready, _, _ = select.select([self.process.stdout], [], [], limit)
        if not ready:
            self.kill()
            raise Stopped(f"took more than {limit:.0f} s")
        line = self.process.stdout.readline()
        if not line:
            self.kill()
            raise Stopped(f"its process ended with {self.process.returncode}: {self._last_words()}")
        answer: dict[str, Any] = json.loads(line)
        return answer

    def _last_words(self) -> str:
        self.words.seek(0)
        return self.words.read()[-400:].decode(errors="replace")

    def kill(self) -> None:
        """End the worker and everything it started, each by its own id."""
        for pid in processes.with_descendants([self.process.pid]):
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                pass
        self.process.wait()

    def close(self) -> None:
        if self.process.poll() is None:
            try:
                self.ask(limit=10, do="teardown")
            except Stopped:
                pass
            self.kill()


def shorten(text: str, limit: int = 300) -> str:
    """An error as one line: no colours, no progress, no backtrace of native code, no repetition of spaces."""
    text = re.sub(r"\x1b\[[0-9;]*m|Download \S+\n", "", text).partition("Stack backtrace")[0]
    text = " ".join(text.split())
    return text if len(text) <= limit else text[: limit - 1] + "…"
