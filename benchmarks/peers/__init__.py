"""The contenders of the sandbox benchmark, one file each, and the few methods that they share."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import ClassVar, Protocol


class Contender(Protocol):
    """One session of one contender. Everything that is done once for the process is in `setup`."""

    in_process: ClassVar[bool]
    """The code runs in the process of the host: there is no boundary to cross."""

    call: ClassVar[str | None]
    """The expression that calls the host function `ask`; None where a cell can't call the host."""

    loop_share: ClassVar[int]
    """Run one n-th of the CPU-bound loop, and compare with one n-th of CPython's time."""

    @classmethod
    def setup(cls) -> str:
        """Import, and start what is shared by sessions. Returns the version."""

    @classmethod
    def settle(cls) -> None:
        """Wait until work in the background is done; never measured."""

    @classmethod
    def teardown(cls) -> None:
        """Stop what `setup` started."""

    def start(self, functions: Mapping[str, Callable[..., str]] | None = None) -> None:
        """Open the session."""

    def run(self, code: str) -> str:
        """Run one cell and return what it printed."""

    def before_load(self) -> None:
        """Open a session that `load` will be called on; never measured."""

    def load(self, name: str, text: str, code: str) -> str:
        """Make `text` the variable `name`, run `code` and return what it printed."""

    def pids(self) -> list[int]:
        """The processes that this session added."""

    def close(self) -> None:
        """End the session."""


class Defaults:
    """What most contenders have in common."""

    in_process: ClassVar[bool] = False
    call: ClassVar[str | None] = 'ask("x")'
    loop_share: ClassVar[int] = 1

    @classmethod
    def settle(cls) -> None:
        return

    @classmethod
    def teardown(cls) -> None:
        return

    def start(self, functions: Mapping[str, Callable[..., str]] | None = None) -> None:
        raise NotImplementedError

    def before_load(self) -> None:
        self.start()

    def pids(self) -> list[int]:
        return []


@dataclass(frozen=True)
class Entry:
    """Where a contender is found, and what a reader of the table should know about it."""

    key: str
    label: str
    where: str
    ours: bool = False
    note: str = ""
    columns: frozenset[str] | None = None
    """What is measured; None means everything."""

    def load(self) -> type[Contender]:
        module, _, name = self.where.partition(":")
        contender: type[Contender] = getattr(importlib.import_module(f"peers.{module}"), name)
        return contender


CONTENDERS = (
    Entry("cpython", "plain CPython", "cpython:CPython", ours=True, note="exec() in the host process"),
    Entry("pool", "ours, from the pool", "ours:FromPool", ours=True),
    Entry("fork", "ours, no pool", "ours:FromZygote", ours=True, note="forked from the zygote when asked for"),
    Entry(
        "lazy",
        "ours, lazy text",
        "ours:LazyText",
        ours=True,
        note="text in as a view, decoded when it is read",
        columns=frozenset({"text10", "text100"}),
    ),
    Entry(
        "ipykernel",
        "ipykernel",
        "plain_ipykernel:PlainIpykernel",
        note="no isolation; host call = input() over the stdin channel; text in by a temporary file",
    ),
    Entry("deno", "DSPy PythonInterpreter", "dspy_deno:DenoInterpreter", note="Pyodide in Deno"),
    Entry("dspy-local", "DSPy LocalInterpreter", "dspy_local:Local", note="no isolation; a child process"),
    Entry("rlms", "rlms LocalREPL", "rlms_local:LocalRepl", note="no isolation; exec() in the host"),
    Entry(
        "smolagents",
        "smolagents local",
        "smolagents_local:SmolagentsLocal",
        note="in the host; walks the syntax tree; runs a 100th of the loop (it stops at 10 million operations)",
    ),
    Entry(
        "monty",
        "pydantic-monty",
        "monty:MontyPool",
        note="its own interpreter of a part of Python; from its warm pool of two, which uses processes again",
    ),
    Entry(
        "pyodide",
        "Pyodide in Deno, bare",
        "pyodide_bare:BarePyodide",
        note="not DSPy: what DSPy's sandbox is built on, with the least around it; a floor for it",
        columns=frozenset({"start", "cell", "loop", "memory", "five"}),
    ),
)

BY_KEY = {entry.key: entry for entry in CONTENDERS}
