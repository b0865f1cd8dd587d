"""Running the cell of one request, and putting together what is said about it."""

from __future__ import annotations

import ast
import builtins
import contextlib
import functools
import mmap
import os
import time
import types
from dataclasses import dataclass
from typing import Any

from .. import policy, policy_words
from ..wire import COMM, Message
from . import display, snapshot
from .cell_threads import CellThreads
from .cells import Cells, Failure, Refused, failure, interrupted
from .interrupts import Interrupts
from .outputs import OutFolder
from .publisher import Publisher
from .streams import Printed

_RESERVE_BYTES = 4 << 20
_VALUE_BYTES = 100_000
"""How long the JSON of a cell's value may be."""


@dataclass(slots=True)
class Outcome:
    """What the reply to a request will say."""

    content: dict[str, Any]
    facts: dict[str, Any]
    """What our own host wants to know beside it."""


class Execution:
    """The cells of one kernel, with what they may use and what they print."""

    def __init__(
        self,
        publisher: Publisher,
        interrupts: Interrupts,
        threads: CellThreads,
        *,
        output_bytes: int,
        out: OutFolder,
        mode: policy.Mode,
    ) -> None:
        self._publisher = publisher
        self._interrupts = interrupts
        self._threads = threads
        self._pid = os.getpid()
        self._warnings: list[str] = []
        self._exited = False
        self._value: dict[str, Any] = {}
        self._reserve: mmap.mmap | None = mmap.mmap(-1, _RESERVE_BYTES)
        self.printed = Printed(publisher.stream, interrupts, threads)
        self.cells = Cells()
        self._out = out
        self.output_bytes = output_bytes
        self.mode = mode
        self.keep_builtins()
        self.reserved: dict[str, Any] = {}
        """Names that belong to the session, with their values: put back after every cell."""

    def keep_builtins(self) -> None:
        """Put the builtins back after each cell as they are now: `builtins.len = None` would end the kernel."""
        self.restore_builtins = functools.partial(vars(builtins).update, vars(builtins).copy())

    def apply_policy(self) -> None:
        """Review cells from now on, if the mode says so."""
        self.cells.review = None if self.mode == "off" else self.review

    def run(self, message: Message) -> Outcome:
        """Run the cell of a request to its end."""
        code = message.content.get("code", "")
        silent = bool(message.content.get("silent"))
        self.printed.begin(self.output_bytes)
        self._warnings.clear()
        self._exited = False
        self._value = {}
        began = time.perf_counter()
        failed: Failure | None = None
        self._interrupts.begin()
        try:
            try:
                value = self.cells.run(code)
            finally:
                self.restore_builtins()
            if value is not None and not silent:
                self._publish_value(value, message)
                del value
            for name in self._out.keep_figures(self.cells.count):
                self.printed.write("stdout", f"[figure kept as {name}]\n")
        except SystemExit as error:
            self._exited = True
            if isinstance(error.code, str):
                self.printed.write("stderr", error.code + "\n")
        except BaseException as error:
            self.restore_builtins()  # a `__repr__` is code of the cell's, too
            self._make_room()
            failed = failure(error)
            del error
        self._interrupts.end()
        if os.getpid() != self._pid:
            os._exit(0)  # a child that the cell forked has come to the end of the cell
        return self._outcome(message, failed, began)

    def abandoned(self, message: Message, frame: types.FrameType | None) -> Outcome:
        """The cell of that request was stopped in this frame."""
        self.restore_builtins()
        self.cells.forget_loop()
        stopped_by_host = self._interrupts.by_host
        why = None if stopped_by_host else interrupted(frame, "CellStopped", "the cell was stopped from outside")
        return self._outcome(message, why, None)

    def take_warnings(self) -> list[str]:
        """Return what the policy had to say about the cell."""
        warnings, self._warnings = self._warnings, []
        return warnings

    def _outcome(self, message: Message, failed: Failure | None, began: float | None) -> Outcome:
        self.restore_builtins()
        self.cells.namespace.update(self.reserved)
        self.printed.flush()
        if self._reserve is None:
            with contextlib.suppress(OSError):
                self._reserve = mmap.mmap(-1, _RESERVE_BYTES)
        content: dict[str, Any] = {
            "status": "ok",
            "execution_count": self.cells.count,
            "user_expressions": {},
            "payload": [],
        }
        facts: dict[str, Any] = {
            "dropped": self.printed.dropped,
            "warnings": self._warnings[:],
            "stopped": self._interrupts.by_host,
            "stops": self._threads.stops,
            "exited": self._exited,
            "wrote": not self._out.is_empty(),
            **self._value,
        }
        if failed is not None:
            error = {"ename": failed.name, "evalue": failed.message, "traceback": failed.traceback.splitlines()}
            content |= {"status": "error", **error}
            facts |= {"line": failed.line, "limit": failed.limit}
        if began is not None:
            facts["seconds"] = time.perf_counter() - began
        return Outcome(content, facts)

    def _make_room(self) -> None:
        """Room to speak, should memory be what is missing."""
        if self._reserve is not None:
            self._reserve.close()
            self._reserve = None

    def _publish_value(self, value: Any, message: Message) -> None:
        data = {"text/plain": display.as_text(value, self.output_bytes)}
        wanted = message.metadata.get(COMM)
        if isinstance(wanted, dict) and wanted.get("json") and (text := display.as_json(value, self.output_bytes)):
            data["application/json"] = text
        self.printed.flush()
        content = {"data": data, "metadata": {}, "execution_count": self.cells.count}
        self._publisher.publish("execute_result", content, message)
        with contextlib.suppress(Exception):  # not plain, or too large: its `repr` has to do
            self._value = {"value": snapshot.plain_value(value, value_bytes=_VALUE_BYTES)}

    def review(self, tree: ast.Module, source: str, *, in_notebook: bool = False) -> None:
        """Have the policy read a cell. Raises `Refused` if it may not run."""
        if self.mode == "off":
            return
        bound = policy_words.BUILTINS.keys() & self.cells.namespace.keys()
        refusals = policy.review(tree, frozenset(self.reserved), bound, in_notebook=in_notebook)
        if not refusals:
            return
        if self.mode == "warn":
            self._warnings.extend(str(refusal) for refusal in refusals)
        else:
            raise Refused(policy.explain(refusals, source))
