"""Code run by exec() in the host process: no boundary at all."""

from __future__ import annotations

import contextlib
import io
import platform
from collections.abc import Callable, Mapping
from typing import Any

from peers import Defaults


class CPython(Defaults):
    in_process = True

    @classmethod
    def setup(cls) -> str:
        return platform.python_version()

    def start(self, functions: Mapping[str, Callable[..., str]] | None = None) -> None:
        self.namespace: dict[str, Any] = dict(functions or {})

    def run(self, code: str) -> str:
        with contextlib.redirect_stdout(io.StringIO()) as out:
            exec(compile(code, "<cell>", "exec"), self.namespace)
        return out.getvalue()

    def load(self, name: str, text: str, code: str) -> str:
        self.namespace[name] = text
        return self.run(code)

    def close(self) -> None:
        self.namespace.clear()
