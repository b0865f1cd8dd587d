"""smolagents' LocalPythonExecutor: an interpreter of the syntax tree in the host process."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from importlib.metadata import version

from peers import Defaults


class SmolagentsLocal(Defaults):
    in_process = True
    loop_share = 100

    @classmethod
    def setup(cls) -> str:
        import smolagents  # noqa: F401

        return version("smolagents")

    def start(self, functions: Mapping[str, Callable[..., str]] | None = None) -> None:
        from smolagents import LocalPythonExecutor

        self.executor = LocalPythonExecutor([], additional_functions=dict(functions or {}))
        self.executor.send_tools({})

    def run(self, code: str) -> str:
        return str(self.executor(code).logs)

    def load(self, name: str, text: str, code: str) -> str:
        self.executor.send_variables({name: text})
        return self.run(code)

    def close(self) -> None:
        self.executor.state.clear()
