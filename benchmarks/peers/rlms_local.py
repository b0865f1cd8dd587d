"""The local REPL of rlms: exec() in the host process, with its own built-in functions."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from importlib.metadata import version

from peers import Defaults


class LocalRepl(Defaults):
    in_process = True

    @classmethod
    def setup(cls) -> str:
        import rlm.environments.local_repl  # noqa: F401

        return version("rlms")

    def start(self, functions: Mapping[str, Callable[..., str]] | None = None) -> None:
        from rlm.environments.local_repl import LocalREPL

        self.repl = LocalREPL(custom_tools=dict(functions or {}))

    def run(self, code: str) -> str:
        result = self.repl.execute_code(code)
        if result.stderr.strip():
            raise RuntimeError(result.stderr.strip())
        return str(result.stdout)

    def load(self, name: str, text: str, code: str) -> str:
        """Its way in for text is the context, which it writes to a file and reads again."""
        index = self.repl.add_context(text)
        return self.run(f"{name} = context_{index}\n{code}")

    def close(self) -> None:
        self.repl.cleanup()
