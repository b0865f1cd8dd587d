"""The kernel's loop: receive a Jupyter message, answer it. One thread, no code of its own after a cell is stopped."""

from __future__ import annotations

import builtins
import contextlib
import faulthandler
import os
import socket
import sys
import types
from collections.abc import Callable
from typing import Any, NoReturn

from .. import policy_words
from ..isolation import rlimits
from ..wire import COMM, Message, Wire, WireError
from ..zmtp import HungUp
from . import snapshot
from .call_client import CallClient, stub
from .cell_threads import CellThreads
from .channels import Channel, Channels
from .execution import Execution, Outcome
from .held_locks import release_locks
from .inputs import bind, helpers
from .interrupts import Interrupts
from .kernel_info import kernel_info
from .outputs import OutFolder
from .publisher import Publisher
from .snapshot_delta import LastSnapshot
from .streams import Printed, Stream


class Kernel:
    """The kernel of one session. `notebook.py` has that of a notebook."""

    def __init__(
        self, config: dict[str, Any], channels: Channels, calls: int | None, address_space: int | None
    ) -> None:
        """`calls` is the descriptor of the call socket; `address_space` one that tells how much the process uses."""
        self._memory_bytes = config["memory_bytes"]
        self._address_space = address_space
        self._inputs: frozenset[str] = frozenset()
        self._functions: dict[str, Callable[..., Any]] = {}
        self._request: Message | None = None
        self._out = OutFolder(config.get("out", ""))
        self._last_snapshot = LastSnapshot()
        self._wire = Wire(config["key"].encode(), username="kernel")
        self._channels = channels
        self._shell, self._iopub = channels.shell, channels.iopub
        self._interrupts = Interrupts(self._abandon)
        self._publisher = Publisher(self._wire, self._iopub, self._interrupts)
        self._threads = CellThreads()
        self._execution = Execution(
            self._publisher,
            self._interrupts,
            self._threads,
            output_bytes=config.get("output_bytes", 1 << 20),
            out=self._out,
            mode=config.get("policy", "enforce"),
        )
        self._calls: CallClient | None = None
        if calls is not None:
            self._calls = CallClient(socket.socket(fileno=calls), self._interrupts, self._threads)
        self._handlers: dict[str, Callable[[Message, Channel], None]] = {
            "execute_request": self._execute,
            "comm_msg": self._comm,
            "kernel_info_request": self._tell,
        }

    @property
    def printed(self) -> Printed:
        """What cells print goes here."""
        return self._execution.printed

    def start(self) -> NoReturn:
        """Take over the process: streams, signals, then serve until told to shut down."""
        sys.stdout, sys.stderr = Stream("stdout", self.printed), Stream("stderr", self.printed)
        builtins.input = _no_input
        faulthandler.enable(2)
        self._interrupts.listen()
        self._threads.watch_bare_starts()
        self._execution.keep_builtins()
        if self._calls is not None:
            self._channels.watch(self._calls.socket.fileno(), self._pump)
        else:  # nobody will load inputs
            self._tighten_memory()
            self._execution.apply_policy()
        self._serve()

    def _serve(self) -> NoReturn:
        while True:
            try:
                self.serve_one()
            except HungUp:
                os._exit(0)  # the host is gone

    def serve_one(self) -> None:
        """Wait for a message, and do what it asks for."""
        channel, parts = self._channels.receive()
        if channel is self._iopub:
            self._welcome(parts[0])
            return
        if (message := self._unpacked(parts)) is not None:
            self._handle(message, channel)

    def _unpacked(self, parts: list[bytes]) -> Message | None:
        try:
            return self._wire.unpack(parts)
        except WireError:
            return None  # not from our host

    def close(self) -> None:
        """Let go of the call socket."""
        if self._calls is not None:
            self._calls.socket.close()

    def _handle(self, message: Message, channel: Channel) -> None:
        if channel is self._shell:
            self._request = message
        self._publisher.request = message
        handler = self._handlers.get(message.kind)
        if handler is not None:  # what we do not know is not answered
            handler(message, channel)

    def _welcome(self, event: bytes) -> None:
        if event[:1] == b"\x01":
            subscription = event[1:].decode("utf-8", "replace")
            self._publisher.publish("iopub_welcome", {"subscription": subscription}, None)

    def _pump(self) -> None:
        if self._calls is not None and not self._calls.pump():
            os._exit(0)  # the host is gone

    # -- cells

    def _execute(self, message: Message, channel: Channel) -> None:
        self._finish(message, self._execution.run(message))

    def _abandon(self, frame: types.FrameType | None) -> NoReturn:
        """Answer the request from here, and serve from here: the frames below never run again."""
        message = self._request
        assert message is not None
        self._threads.stop()
        with contextlib.suppress(BaseException):  # an error would go to the cell, which would go on
            release_locks(frame or sys._getframe(1), __file__)
        self._finish(message, self._execution.abandoned(message, frame))
        self._serve()

    def _finish(self, message: Message, outcome: Outcome) -> None:
        facts = outcome.facts
        wanted = message.metadata.get(COMM)
        if isinstance(wanted, dict) and "variables" in wanted:
            with contextlib.suppress(Exception):
                facts["variables"] = self._changed_variables(wanted["variables"])
        try:
            self._publisher.reply(self._shell, "execute_reply", outcome.content, message, {COMM: facts})
        except MemoryError:
            for name in ("variables", "value"):
                facts.pop(name, None)
            self._publisher.reply(self._shell, "execute_reply", outcome.content, message, {COMM: facts})

    # -- what our own host asks for

    def _comm(self, message: Message, channel: Channel) -> None:
        data = message.content.get("data", {})
        answer: dict[str, Any]
        try:
            if data.get("op") == "load":
                answer = self._load(data, list(message.buffers))
            elif data.get("op") == "out":
                answer = self._written(data)
            elif data.get("op") == "variables":
                answer = self._variables(data.get("options", {}))
            else:
                answer = {"error": f"unknown operation {data.get('op')!r}"}
        except Exception as error:
            answer = {"error": f"{type(error).__name__}: {error}"}
        self._publisher.publish("comm_msg", {"comm_id": COMM, "data": answer}, message)

    def _written(self, data: dict[str, Any]) -> dict[str, Any]:
        """Return the names of what was written for the caller, or a piece of it."""
        if "name" in data:
            return {"data": self._out.read(data["name"], data["offset"], data["size"])}
        return {"files": self._out.listing()}

    def _changed_variables(self, options: dict[str, Any]) -> dict[str, Any]:
        """Return a snapshot; variables unchanged since the last one that the host has read are named only."""
        previous = self._last_snapshot if options.pop("known", None) == self._last_snapshot.number else LastSnapshot()
        current = LastSnapshot(self._last_snapshot.number + 1)
        described = self._variables({**options, "previous": previous, "current": current})
        self._last_snapshot = current
        return {**described, "number": current.number}

    def _variables(self, options: dict[str, Any]) -> dict[str, Any]:
        cells = self._execution.cells
        functions = self._execution.reserved.keys() - self._inputs
        return snapshot.snapshot(cells.namespace, skip=cells.own_names | functions, **options)

    def _load(self, data: dict[str, Any], buffers: list[bytes]) -> dict[str, Any]:
        execution = self._execution
        if self._calls is not None:
            self._calls.max_bytes = data.get("call_bytes", self._calls.max_bytes)
            self._calls.max_memory = data.get("call_memory", self._calls.max_memory)
            if "functions" in data:
                self._offer(self._calls, data["functions"])
        execution.reserved.update(helpers(data.get("helpers", {})))
        execution.mode = data.get("policy", execution.mode)
        execution.output_bytes = data.get("output_bytes", execution.output_bytes)
        execution.apply_policy()
        count = data.get("descriptors", 0)
        descriptors = self._calls.take_descriptors(count) if count and self._calls is not None else []
        values = bind(data.get("inputs", []), descriptors, buffers, data.get("files", []))
        execution.cells.namespace.update(values)
        self._inputs |= values.keys()
        # An input may be called `input` or `vars`; the policy lets code read such a name only if it is reserved.
        names = frozenset(data.get("protected", [])) | (values.keys() & policy_words.BUILTINS.keys())
        execution.reserved.update((name, values[name]) for name in names)
        if isinstance(name := data.get("out"), str):
            execution.reserved[name] = self._out.path
        execution.cells.namespace.update(execution.reserved)
        self._tighten_memory()
        return {"loaded": sorted(values)}

    def _offer(self, calls: CallClient, functions: list[dict[str, Any]]) -> None:
        """Offer these functions of the host, and no others."""
        execution = self._execution
        for name, function in self._functions.items():
            if execution.reserved.get(name) is function:
                del execution.reserved[name]
                execution.cells.namespace.pop(name, None)
        described = ((known["name"], known.get("doc"), known.get("signature")) for known in functions)
        self._functions = {name: stub(calls, name, doc, signature) for name, doc, signature in described}
        execution.reserved.update(self._functions)

    def _tighten_memory(self) -> None:
        if self._address_space is not None:
            rlimits.tighten_memory(self._address_space, self._memory_bytes)
            os.close(self._address_space)
            self._address_space = None

    def _tell(self, message: Message, channel: Channel) -> None:
        self._publisher.reply(channel, "kernel_info_reply", kernel_info(), message)


def notebook_kernel() -> type[Kernel]:
    """Return the kernel of a notebook, which takes IPython to import."""
    from .notebook import NotebookKernel

    return NotebookKernel


def _no_input(prompt: object = "") -> NoReturn:
    raise RuntimeError("input() is not available here: nobody is there to answer. Use the variables you were given.")
