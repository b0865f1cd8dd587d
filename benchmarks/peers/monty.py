"""pydantic-monty: an interpreter of its own for a part of Python, in worker processes that a pool keeps."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from importlib.metadata import version
from pathlib import Path
from typing import Any, ClassVar

from peers import Defaults


class MontyPool(Defaults):
    pool: ClassVar[Any] = None

    @classmethod
    def setup(cls) -> str:
        import pydantic_monty

        cls.pool = pydantic_monty.Monty(min_processes=2, max_processes=16)
        cls.pool.__enter__()
        return version("pydantic-monty")

    @classmethod
    def teardown(cls) -> None:
        cls.pool.__exit__(None, None, None)

    def start(self, functions: Mapping[str, Callable[..., str]] | None = None) -> None:
        self.functions = dict(functions or {})
        # The limit on host calls (1,000 a session) stays in force unless it is raised.
        self.session = self.pool.checkout(limits={"max_suspensions": 1_000_000})
        self.session.__enter__()

    def run(self, code: str) -> str:
        return self._feed(code, {})

    def _feed(self, code: str, inputs: dict[str, Any]) -> str:
        from pydantic_monty import CollectString

        out = CollectString()
        self.session.feed_run(code, inputs=inputs, external_lookup=self.functions, print_callback=out)
        return str(out.output)

    def load(self, name: str, text: str, code: str) -> str:
        return self._feed(code, {name: text})

    def pids(self) -> list[int]:
        """All workers of the pool: it does not say which of them serves which session."""
        return [int(pid) for pid in Path(f"/proc/self/task/{os.getpid()}/children").read_text().split()]

    def close(self) -> None:
        self.session.__exit__(None, None, None)
