"""A copy of the stored records, as if their folder had been moved, and commands that run in it."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import sqlite3
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.support.repository import ROOT

STORED = ROOT / "tests" / "stored" / "harbour"
WRITTEN: dict[str, Any] = json.loads((STORED / "written.json").read_text())
RUNS: dict[str, str] = WRITTEN["runs"]
PLACE = "/tmp/harbour"
RLM = [sys.executable, "-m", "rlm.cli"]


@dataclass(frozen=True)
class Harbour:
    """A copy of the folder in which the records were written."""

    folder: Path

    @property
    def home(self) -> Path:
        """What was RLM_HOME."""
        return self.folder / "home"

    @property
    def environment(self) -> dict[str, str]:
        """The environment of commands."""
        hidden = ("DISPLAY", "WAYLAND_DISPLAY")
        return {name: value for name, value in os.environ.items() if name not in hidden} | {"RLM_HOME": str(self.home)}

    def rlm(self, *arguments: str, code: int = 0) -> str:
        """What a command prints on standard output; it must end with this exit code."""
        command = [*RLM, *arguments]
        done = subprocess.run(
            command, cwd=self.folder, env=self.environment, capture_output=True, text=True, timeout=100, check=False
        )
        assert done.returncode == code, f"{arguments}: {done.returncode}\n{done.stdout}\n{done.stderr}"
        assert "Traceback" not in done.stderr
        return done.stdout

    def json(self, *arguments: str, code: int = 0) -> Any:
        """The JSON object that a command prints."""
        return json.loads(self.rlm(*arguments, code=code))

    def lines(self, *arguments: str) -> list[dict[str, Any]]:
        """The lines of JSON that a command prints."""
        return [json.loads(line) for line in self.rlm(*arguments).splitlines()]

    @contextlib.contextmanager
    def page(self, *arguments: str) -> Iterator[str]:
        """The address that `rlm view` or `rlm eval view` prints, while it serves."""
        command = [*RLM, *arguments, "--no-open"]
        with subprocess.Popen(
            command, cwd=self.folder, env=self.environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        ) as process:
            try:
                assert process.stdout is not None
                yield process.stdout.readline().strip()
                process.send_signal(signal.SIGINT)
                _, errors = process.communicate(timeout=60)
            finally:
                process.kill()
        assert process.returncode == 0, errors

    def called(self) -> list[str]:
        """The calls that tools have written down since the copy was made."""
        path = self.folder / "called.txt"
        return path.read_text().splitlines() if path.exists() else []

    def open_gate(self) -> None:
        """Let the tools that wait at the gate go on."""
        (self.folder / "open").touch()


def move_to(folder: Path) -> Harbour:
    """Copy the records to another folder, and put its path in place of that in which they were written."""
    shutil.copytree(STORED, folder, ignore=shutil.ignore_patterns("__pycache__"))
    for path in (*folder.glob("evals/*/header.json"), *folder.glob("plan-logs/*.json")):
        path.write_text(path.read_text().replace(PLACE, str(folder)))
    for path in folder.glob("home/traces/*.db"):
        with contextlib.closing(sqlite3.connect(path)) as database, database:
            database.execute("UPDATE events SET meta = replace(meta, ?, ?)", (PLACE, str(folder)))
            database.execute("UPDATE runs SET task = replace(task, ?, ?)", (PLACE, str(folder)))
    return Harbour(folder)


def get(address: str) -> Any:
    """The JSON at an address."""
    with urllib.request.urlopen(address, timeout=60) as answer:
        return json.loads(answer.read())
