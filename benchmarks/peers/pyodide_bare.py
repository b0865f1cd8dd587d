"""Pyodide in Deno with the least around it: a floor for sandboxes that are built on the two, DSPy's among them."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Callable, Mapping
from pathlib import Path

from peers import Defaults

SPECIFIER = "npm:pyodide@0.29.4"  # the version that DSPy 3.4.1 runs


class BarePyodide(Defaults):
    call = None

    @classmethod
    def setup(cls) -> str:
        import deno

        cls.deno = deno.find_deno_bin()
        return SPECIFIER.rpartition("@")[2]

    def start(self, functions: Mapping[str, Callable[..., str]] | None = None) -> None:
        script = Path(__file__).with_name("pyodide_bare.js")
        command = [self.deno, "run", "--no-config", "--no-lock", "--cached-only", "--allow-read", str(script)]
        self.process = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            encoding="utf-8",
            env=os.environ | {"DENO_NO_PACKAGE_JSON": "1"},
        )
        self.run("")  # Pyodide is loaded when it answers

    def run(self, code: str) -> str:
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        assert self.process.stderr is not None
        try:
            self.process.stdin.write(json.dumps({"code": code}) + "\n")
            self.process.stdin.flush()
        except BrokenPipeError:
            pass  # the reason is on stderr, read below
        line = self.process.stdout.readline()
        if not line:
            raise RuntimeError(f"Deno ended: {self.process.stderr.read()}")
        reply = json.loads(line)
        if "error" in reply:
            raise RuntimeError(reply["error"])
        return str(reply["out"])

    def load(self, name: str, text: str, code: str) -> str:
        raise NotImplementedError

    def pids(self) -> list[int]:
        return [self.process.pid]

    def close(self) -> None:
        self.process.kill()
        self.process.communicate()
