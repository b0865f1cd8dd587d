"""DSPy's PythonInterpreter: Pyodide in Deno. The driver's --prepare fills its cache, while there is a network."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Mapping
from importlib.metadata import version
from pathlib import Path

from peers import Defaults

STANDARD_LIBRARY = "https://deno.land/std@0.186.0/io/mod.ts"


def import_map(deno_dir: Path) -> Path:
    """The file that gives DSPy's runner `read_lines.js`; it is there if `--prepare` could not reach deno.land."""
    return deno_dir / "import_map.json"


def write_import_map(deno_dir: Path) -> Path:
    path = import_map(deno_dir)
    script = Path(__file__).with_name("read_lines.js").as_uri()
    path.write_text(json.dumps({"imports": {STANDARD_LIBRARY: script}}))
    return path


class DenoInterpreter(Defaults):
    @classmethod
    def setup(cls) -> str:
        import dspy  # noqa: F401

        cls.import_map = import_map(Path(os.environ["DENO_DIR"]))
        instead = ", lines read by read_lines.js in place of deno.land's" if cls.import_map.exists() else ""
        return version("dspy") + instead

    def start(self, functions: Mapping[str, Callable[..., str]] | None = None) -> None:
        import dspy

        self.interpreter = dspy.PythonInterpreter(tools=dict(functions or {}))
        if self.import_map.exists():
            self.interpreter.deno_command.insert(2, f"--import-map={self.import_map}")
        try:
            self.interpreter.start()
        except dspy.CodeInterpreterError as error:
            # DSPy reads the reply before it looks at the exit code, so its message may leave out why Deno ended.
            process = self.interpreter.deno_process
            words = process.stderr.read() if process is not None and process.stderr is not None else ""
            if words.strip() and words.strip() not in str(error):
                raise type(error)(f"{error}: {words}") from error
            raise

    def run(self, code: str) -> str:
        return str(self.interpreter.execute(code) or "")

    def load(self, name: str, text: str, code: str) -> str:
        return str(self.interpreter.execute(code, variables={name: text}))

    def pids(self) -> list[int]:
        return [self.interpreter.deno_process.pid]

    def close(self) -> None:
        self.interpreter.shutdown()
