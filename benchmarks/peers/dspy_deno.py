"""DSPy's PythonInterpreter: Pyodide in Deno. The driver's --prepare fills its cache, while there is a network."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from importlib.metadata import version

from peers import Defaults


class DenoInterpreter(Defaults):
    @classmethod
    def setup(cls) -> str:
        import dspy  # noqa: F401

        return version("dspy")

    def start(self, functions: Mapping[str, Callable[..., str]] | None = None) -> None:
        import dspy

        self.interpreter = dspy.PythonInterpreter(tools=dict(functions or {}))
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
