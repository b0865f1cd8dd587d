"""DSPy's LocalInterpreter: a child process of CPython without isolation."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from importlib.metadata import version

from peers import Defaults


class Local(Defaults):
    @classmethod
    def setup(cls) -> str:
        import dspy  # noqa: F401

        return version("dspy")

    def start(self, functions: Mapping[str, Callable[..., str]] | None = None) -> None:
        import dspy

        self.interpreter = dspy.LocalInterpreter(tools=dict(functions or {}))
        self.interpreter.start()

    def run(self, code: str) -> str:
        return str(self.interpreter.execute(code) or "")

    def load(self, name: str, text: str, code: str) -> str:
        return str(self.interpreter.execute(code, variables={name: text}))

    def pids(self) -> list[int]:
        return [self.interpreter._process.pid]

    def close(self) -> None:
        self.interpreter.shutdown()
