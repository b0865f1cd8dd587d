"""The kernel's loop: receive a Jupyter message, answer it. One thread, no code of its own after a cell is stopped.

A cell that must stop — out of time, or ended by a host function — is not asked to: the signal handler answers the
request from inside the interrupted frame and serves from there. The cell's frames never run again, so neither
`except:` nor `finally:` can keep it alive, and its variables stay as they are.
"""

from __future__ import annotations

import ast
import builtins
import contextlib
import faulthandler
import mmap
import os
import signal
import socket
import sys
import threading
import time
import types
from collections.abc import Callable
from typing import Any, NoReturn

import zmq

from .. import policy, policy_words
from ..isolation import rlimits
from ..wire import Message, Wire, WireError
from . import answers, display, snapshot
from .calls import Calls, stub
from .cells import Cells, Failure, Refused, failure, interrupted
from .inputs import bind, helpers
from .streams import Printed, Stream

STOP_SIGNAL = signal.SIGUSR1
COMM = "rlm.sandbox"
_RESERVE_BYTES = 4 << 20


class Kernel:
    """One kernel, for one session."""

    def __init__(
        self, config: dict[str, Any], sockets: dict[str, int], calls: int | None, address_space: int | None
    ) -> None:
        self._wire = Wire(config["key"].encode(), username="kernel")
        self._output_bytes = config.get("output_bytes", 1 << 20)
        self._memory_bytes = config["memory_bytes"]
        self._address_space = address_space
        self._rich = bool(config.get("rich"))
        self._mode: policy.Mode = config.get("policy", "enforce")
        self._reserved: dict[str, Any] = {}
        self._inputs: frozenset[str] = frozenset()
        self._warnings: list[str] = []
        self._main = threading.get_ident()
        self._pid = os.getpid()
        self._sending = threading.RLock()
        self._request: Message | None = None
        self._last: dict[str, Any] = {}
        self._running = False
        self._protected = 0
        self._stop_held = False
        self._stopped_by_host = False
        self._reserve: mmap.mmap | None = mmap.mmap(-1, _RESERVE_BYTES)
        self._cells = Cells()
        self._printed = Printed(self._print)
        self._calls = Calls(socket.socket(fileno=calls), self._stop_from_call) if calls is not None else None
        self._open_channels(sockets)
        self._handlers: dict[str, Callable[[Message, zmq.Socket[bytes]], None]] = {
            "execute_request": self._execute,
            "comm_msg": self._comm,
            "shutdown_request": self._shutdown,
        }

    def start(self) -> NoReturn:
        """Take over the process: streams, signals, then serve until told to shut down."""
        sys.stdout, sys.stderr = Stream("stdout", self._printed), Stream("stderr", self._printed)
        builtins.input = _no_input
        if self._rich:
            builtins.display = self._display  # type: ignore[attr-defined]
        faulthandler.enable(2)
        signal.signal(signal.SIGINT, self._on_interrupt)
        signal.signal(STOP_SIGNAL, self._on_stop)
        snapshot.prime()
        _warm_up()
        if self._calls is None:  # nobody will load inputs: a notebook
            self._tighten_memory()
            self._cells.review = None if self._mode == "off" else self._review
        self._serve()

    # -- channels

    def _open_channels(self, sockets: dict[str, int]) -> None:
        context = zmq.Context()
        context.linger = 500
        self._shell = _bound(context, zmq.ROUTER, sockets["shell"])
        self._control = _bound(context, zmq.ROUTER, sockets["control"])
        self._iopub = _bound(context, zmq.XPUB, sockets["iopub"])
        if not self._rich:
            # A host that reads slowly makes the cell wait; nothing it printed is lost.
            self._iopub.setsockopt(zmq.XPUB_NODROP, 1)
        self._poller = zmq.Poller()
        for channel in (self._control, self._shell, self._iopub):
            self._poller.register(channel, zmq.POLLIN)
        if self._calls is not None:
            self._poller.register(self._calls.socket, zmq.POLLIN)
        if "stdin" in sockets:
            self._stdin = _bound(context, zmq.ROUTER, sockets["stdin"])
        if "hb" in sockets:
            heartbeat = _bound(context, zmq.REP, sockets["hb"])
            threading.Thread(target=_beat, args=(heartbeat,), daemon=True, name="heartbeat").start()

    def _serve(self) -> NoReturn:
        while True:
            ready = dict(self._poller.poll())
            if self._control in ready:
                self._receive(self._control)
            elif self._shell in ready:
                self._receive(self._shell)
            if self._iopub in ready:
                self._welcome()
            if self._calls is not None and self._calls.socket.fileno() in ready and not self._calls.pump():
                os._exit(0)  # the host is gone

    def _receive(self, channel: zmq.Socket[bytes]) -> None:
        try:
            message = self._wire.unpack(channel.recv_multipart())
        except WireError:
            return  # not from our host
        handler = self._handlers.get(message.kind, self._answer)
        if channel is self._shell:
            self._request = message
        self._last = message.header
        self._publish("status", {"execution_state": "busy"}, message)
        handler(message, channel)
        self._publish("status", {"execution_state": "idle"}, message)

    def _welcome(self) -> None:
        event = self._iopub.recv()
        if event[:1] == b"\x01":
            self._publish("iopub_welcome", {"subscription": event[1:].decode("utf-8", "replace")}, None)

    def _publish(self, kind: str, content: dict[str, Any], parent: Message | None, **more: Any) -> None:
        _, frames = self._wire.pack(kind, content, parent=parent.header if parent else {}, **more)
        self._send(self._iopub, [kind.encode(), *frames])

    def _reply(self, channel: zmq.Socket[bytes], kind: str, content: dict[str, Any], to: Message, **more: Any) -> None:
        _, frames = self._wire.pack(kind, content, parent=to.header, identities=to.identities, **more)
        self._send(channel, frames)

    def _send(self, channel: zmq.Socket[bytes], frames: list[bytes]) -> None:
        if os.getpid() != self._pid:
            return  # a child that the cell forked: the channels are not its own
        # A cell may be stopped at any line, but not between two frames of a message.
        mine = threading.get_ident() == self._main
        self._protected += mine
        try:
            with self._sending:
                channel.send_multipart(frames)
        finally:
            self._protected -= mine
        if mine and self._stop_held and not self._protected:
            self._stop_held = False
            self._abandon(sys._getframe())

    def _print(self, stream: str, text: str) -> None:
        _, frames = self._wire.pack("stream", {"name": stream, "text": text}, parent=self._last)
        self._send(self._iopub, [b"stream", *frames])

    # -- cells

    def _execute(self, message: Message, channel: zmq.Socket[bytes]) -> None:
        code = message.content.get("code", "")
        silent = bool(message.content.get("silent"))
        if self._rich and not silent:
            self._publish("execute_input", {"code": code, "execution_count": self._cells.count + 1}, message)
        self._printed.begin(self._output_bytes)
        self._warnings.clear()
        self._stopped_by_host = False
        began = time.perf_counter()
        failed: Failure | None = None
        self._running = True
        try:
            value = self._cells.run(code)
            if value is not None and not silent:
                self._publish_value(value, message)
                del value
        except SystemExit as error:
            self._say_exit(error)
        except BaseException as error:
            self._make_room()
            failed = failure(error)
            del error
        self._running = False
        if os.getpid() != self._pid:
            os._exit(0)  # a child that the cell forked has come to the end of the cell
        self._finish(message, failed, began)

    def _finish(self, message: Message, failed: Failure | None, began: float | None) -> None:
        self._cells.namespace.update(self._reserved)
        self._printed.flush()
        if self._reserve is None:
            with contextlib.suppress(OSError):
                self._reserve = mmap.mmap(-1, _RESERVE_BYTES)
        content: dict[str, Any] = {
            "status": "ok",
            "execution_count": self._cells.count,
            "user_expressions": {},
            "payload": [],
        }
        facts = {
            "dropped": self._printed.dropped,
            "warnings": self._warnings[:],
            "stopped": self._stopped_by_host,
        }
        if failed is not None:
            error = {"ename": failed.name, "evalue": failed.message, "traceback": failed.traceback.splitlines()}
            self._publish("error", error, message)
            content |= {"status": "error", **error}
            facts |= {"line": failed.line, "limit": failed.limit}
        if began is not None:
            facts["seconds"] = time.perf_counter() - began
        # What a client sends once it has the reply was not queued behind this cell: look before replying.
        stops = failed is not None and message.content.get("stop_on_error", True)
        queued = self._queued() if stops else []
        self._reply(self._shell, "execute_reply", content, message, metadata={COMM: facts})
        self._abort(queued)

    def _make_room(self) -> None:
        """Room to speak, should memory be what is missing."""
        if self._reserve is not None:
            self._reserve.close()
            self._reserve = None

    def _queued(self) -> list[Message]:
        waiting = []
        while self._shell.poll(0):
            with contextlib.suppress(WireError):
                waiting.append(self._wire.unpack(self._shell.recv_multipart()))
        return waiting

    def _abort(self, queued: list[Message]) -> None:
        """A notebook that runs all its cells expects those after a failed one not to run."""
        for message in queued:
            if message.kind == "execute_request":
                self._publish("status", {"execution_state": "busy"}, message)
                self._reply(self._shell, "execute_reply", {"status": "aborted"}, message)
                self._publish("status", {"execution_state": "idle"}, message)
            else:
                self._handlers.get(message.kind, self._answer)(message, self._shell)

    def _publish_value(self, value: Any, message: Message) -> None:
        data = display.bundle(value, rich=self._rich, max_chars=self._output_bytes)
        self._printed.flush()
        content = {"data": data, "metadata": {}, "execution_count": self._cells.count}
        self._publish("execute_result", content, message)

    def _display(self, *values: Any) -> None:
        """Show values in a notebook."""
        self._printed.flush()
        for value in values:
            data = display.bundle(value, rich=True, max_chars=self._output_bytes)
            self._publish("display_data", {"data": data, "metadata": {}, "transient": {}}, self._request)

    def _say_exit(self, error: SystemExit) -> None:
        if isinstance(error.code, str):
            self._printed.write("stderr", error.code + "\n")

    def _review(self, tree: ast.Module, source: str) -> None:
        refusals = policy.review(tree, frozenset(self._reserved))
        if not refusals:
            return
        if self._mode == "warn":
            self._warnings.extend(str(refusal) for refusal in refusals)
        else:
            raise Refused(policy.explain(refusals, source))

    # -- stopping a cell

    def _on_interrupt(self, number: int, frame: types.FrameType | None) -> None:
        if self._running:
            raise KeyboardInterrupt

    def _on_stop(self, number: int, frame: types.FrameType | None) -> None:
        if not self._running:
            return
        if self._protected:
            self._stop_held = True
        else:
            self._abandon(frame)

    def _stop_from_call(self) -> NoReturn:
        self._stopped_by_host = True
        if threading.get_ident() == self._main:
            self._abandon(sys._getframe())
        signal.pthread_kill(self._main, STOP_SIGNAL)
        threading.Event().wait()
        raise AssertionError("a thread of a stopped cell went on")

    def _abandon(self, frame: types.FrameType | None) -> NoReturn:
        """Answer the request from here, and serve from here: the frames below never run again."""
        sys.setrecursionlimit(_depth() + 2_000)
        self._running = False
        message = self._request
        assert message is not None
        self._cells.forget_loop()
        failed = (
            None if self._stopped_by_host else interrupted(frame, "CellStopped", "the cell was stopped from outside")
        )
        self._finish(message, failed, None)
        self._publish("status", {"execution_state": "idle"}, message)
        self._serve()

    # -- everything else

    def _comm(self, message: Message, channel: zmq.Socket[bytes]) -> None:
        data = message.content.get("data", {})
        answer: dict[str, Any]
        try:
            if data.get("op") == "load":
                answer = self._load(data, list(message.buffers))
            elif data.get("op") == "variables":
                answer = self._variables(data.get("options", {}))
            else:
                answer = {"error": f"unknown operation {data.get('op')!r}"}
        except Exception as error:
            answer = {"error": f"{type(error).__name__}: {error}"}
        self._publish("comm_msg", {"comm_id": COMM, "data": answer}, message)

    def _variables(self, options: dict[str, Any]) -> dict[str, Any]:
        functions = self._reserved.keys() - self._inputs
        return snapshot.snapshot(self._cells.namespace, skip=self._cells.own_names | functions, **options)

    def _load(self, data: dict[str, Any], buffers: list[bytes]) -> dict[str, Any]:
        if self._calls is not None:
            self._calls.max_bytes = data.get("call_bytes", self._calls.max_bytes)
            for function in data.get("functions", []):
                name = function["name"]
                self._reserved[name] = stub(self._calls, name, function.get("doc"), function.get("signature"))
        self._reserved.update(helpers(data.get("helpers", "")))
        self._mode = data.get("policy", self._mode)
        self._output_bytes = data.get("output_bytes", self._output_bytes)
        self._cells.review = None if self._mode == "off" else self._review
        count = data.get("descriptors", 0)
        descriptors = self._calls.take_descriptors(count) if count and self._calls is not None else []
        values = bind(data.get("inputs", []), descriptors, buffers)
        self._cells.namespace.update(values)
        self._inputs |= values.keys()
        # An input may be called `input` or `vars`; the policy lets code read such a name only if it is reserved.
        names = frozenset(data.get("protected", [])) | (values.keys() & policy_words.BUILTINS.keys())
        self._reserved.update((name, values[name]) for name in names)
        self._cells.namespace.update(self._reserved)
        self._tighten_memory()
        return {"loaded": sorted(values)}

    def _tighten_memory(self) -> None:
        if self._address_space is not None:
            rlimits.tighten_memory(self._address_space, self._memory_bytes)
            os.close(self._address_space)
            self._address_space = None

    def _answer(self, message: Message, channel: zmq.Socket[bytes]) -> None:
        """What any Jupyter client may ask of any kernel; what we do not know is not answered."""
        content = answers.answer(message.kind, message.content, self._cells.namespace)
        if content is not None:
            self._reply(channel, message.kind.replace("_request", "_reply"), content, message)

    def _shutdown(self, message: Message, channel: zmq.Socket[bytes]) -> None:
        restart = bool(message.content.get("restart"))
        self._reply(channel, "shutdown_reply", {"status": "ok", "restart": restart}, message)
        self._publish("shutdown_reply", {"status": "ok", "restart": restart}, message)
        self._publish("status", {"execution_state": "idle"}, message)
        time.sleep(0.05)  # let the last messages leave
        os._exit(0)


def _only_review(tree: ast.Module, source: str) -> None:
    policy.review(tree, frozenset())


def _warm_up() -> None:
    """Do what the first cell would do, so that it does not wait for pages to be copied after the fork."""
    cells = Cells()
    cells.review = _only_review
    cells.run("def f(x):\n    return [x for x in range(3)]\ny = {'a': f(1)}\ny")
    snapshot.snapshot(cells.namespace, skip=cells.own_names)


def _bound(context: zmq.Context[zmq.Socket[bytes]], kind: int, descriptor: int) -> zmq.Socket[bytes]:
    """A ZMQ socket on a listening socket that the host bound: nothing is bound or connected in here."""
    channel = context.socket(kind)
    channel.setsockopt(zmq.USE_FD, descriptor)
    with socket.socket(fileno=os.dup(descriptor)) as inherited:
        local = inherited.family == socket.AF_UNIX
    channel.bind(f"ipc://@inherited-{descriptor}" if local else f"tcp://127.0.0.1:{descriptor}")
    return channel


def _beat(heartbeat: zmq.Socket[bytes]) -> None:
    while True:
        heartbeat.send(heartbeat.recv())


def _depth() -> int:
    frame: types.FrameType | None = sys._getframe()
    depth = 0
    while frame is not None:
        depth, frame = depth + 1, frame.f_back
    return depth


def _no_input(prompt: object = "") -> NoReturn:
    raise RuntimeError("input() is not available here: nobody is there to answer. Use the variables you were given.")
