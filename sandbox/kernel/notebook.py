"""The kernel of a notebook: what Jupyter clients ask for, answered by IPython's shell in `shell.py`.

The shell is made with the first request that needs it; a session of a run has neither it nor this module.
"""

from __future__ import annotations

import contextlib
import itertools
import os
import time
from typing import Any

import zmq

from ..wire import Message
from .channels import Channel
from .execution import Outcome
from .main import Kernel
from .notebook_output import NotebookOutput
from .shell import Shell
from .widgets import Comms

_PROMPT_CHARS = 10_000
_ANSWER_CHARS = 1 << 20
_ASKS_PER_CELL = 1_000
_LINKS = 500


class StdinNotImplementedError(RuntimeError):
    """`input()` was called, and the client takes no questions. The name is the one that clients know."""


class NotebookKernel(Kernel):
    """A kernel that people explore in. Its clients come and go, and any of them may send any request."""

    def __init__(self, config: dict[str, Any], channels: Any, calls: int | None, address_space: int | None) -> None:
        super().__init__(config, channels, calls, address_space)
        self._pid = os.getpid()
        self._made: Shell | None = None
        self._output = NotebookOutput(self._publisher, self._execution.printed)
        self._comms = Comms(self._output)
        self._asks = 0
        _link_files(config.get("files", []))
        self._handlers |= {
            "complete_request": self._complete,
            "inspect_request": self._inspect,
            "is_complete_request": self._is_complete,
            "history_request": self._history,
            "comm_info_request": self._comm_info,
            "comm_open": self._comms.take,
            "comm_msg": self._comms.take,
            "comm_close": self._comms.take,
            "interrupt_request": self._interrupted,
            "shutdown_request": self._shutdown,
        }

    @property
    def _shell_of_cells(self) -> Shell:
        if self._made is None:
            self._comms.install()
            cells = self._execution.cells
            self._made = Shell(cells.module, self._output, self._review, self._ask)
            self._execution.keep_builtins()
        return self._made

    def _handle(self, message: Message, channel: Channel) -> None:
        self._publisher.status("busy", message)
        super()._handle(message, channel)
        self._publisher.status("idle", message)

    def _review(self, tree: Any, source: str) -> None:
        self._execution.review(tree, source, in_notebook=True)

    # -- cells

    def _execute(self, message: Message, channel: Channel) -> None:
        content, execution, shell = message.content, self._execution, self._shell_of_cells
        code, silent = str(content.get("code", "")), bool(content.get("silent"))
        store = bool(content.get("store_history", True)) and not silent
        if not silent:
            about = {"code": code, "execution_count": shell.execution_count}
            self._publisher.publish("execute_input", about, message)
        self._asks = 0
        self._output.begin(execution.output_bytes)
        self._interrupts.begin()
        reply: dict[str, Any]
        try:
            reply = shell.execute(code, silent=silent, store_history=store, expressions=content.get("user_expressions"))
        except KeyboardInterrupt:  # in the midst of IPython's own code
            reply = shell.failed(KeyboardInterrupt())
        finally:
            self._interrupts.end()
        execution.restore_builtins()
        if os.getpid() != self._pid:
            os._exit(0)  # a child that the cell forked has come to the end of the cell
        for warning in execution.take_warnings():
            execution.printed.write("stderr", warning + "\n")
        self._output.end()
        # What a client sends once it has the reply was not queued behind this cell: look before replying.
        stops = reply["status"] == "error" and message.content.get("stop_on_error", True)
        queued = self._queued() if stops else []
        self._finish(message, Outcome(reply, {}))
        self._abort(queued)

    def _queued(self) -> list[Message]:
        waiting = []
        while (parts := self._shell.receive()) is not None:
            if (message := self._unpacked(parts)) is not None:
                waiting.append(message)
        return waiting

    def _abort(self, queued: list[Message]) -> None:
        """A notebook that runs all its cells expects those after a failed one not to run."""
        for message in queued:
            if message.kind == "execute_request":
                self._publisher.status("busy", message)
                self._publisher.reply(self._shell, "execute_reply", {"status": "aborted"}, message)
                self._publisher.status("idle", message)
            else:
                self._handle(message, self._shell)

    def _ask(self, prompt: str, password: bool) -> str:
        """Have the person answer a question, for `input()` and `getpass()`."""
        request, stdin = self._publisher.request, self._channels.stdin
        if request is None or stdin is None or not request.content.get("allow_stdin"):
            raise StdinNotImplementedError("input() was called, but this client takes no questions")
        self._asks += 1
        if self._asks > _ASKS_PER_CELL:
            raise RuntimeError(f"a cell may ask at most {_ASKS_PER_CELL:,} questions")
        self._execution.printed.flush()
        while stdin.receive() is not None:
            pass  # answers to earlier questions
        content = {"prompt": prompt[:_PROMPT_CHARS], "password": password}
        self._publisher.reply(stdin, "input_request", content, request)
        while True:
            if (parts := stdin.receive()) is None:
                zmq.select([stdin], [], [], 1.0)  # an interrupt ends it
                continue
            answer = self._unpacked(parts)
            if answer is not None and answer.kind == "input_reply":
                value = answer.content.get("value", "")
                if value == "\x04":
                    raise EOFError
                return str(value)[:_ANSWER_CHARS]

    # -- requests about code

    def _complete(self, message: Message, channel: Channel) -> None:
        code, position = _at(message)
        self._reply(message, channel, self._shell_of_cells.completions(code, position))

    def _inspect(self, message: Message, channel: Channel) -> None:
        code, position = _at(message)
        detail = 1 if message.content.get("detail_level") else 0
        self._reply(message, channel, self._shell_of_cells.inspection(code, position, detail))

    def _is_complete(self, message: Message, channel: Channel) -> None:
        self._reply(message, channel, self._shell_of_cells.completeness(str(message.content.get("code", ""))))

    def _history(self, message: Message, channel: Channel) -> None:
        self._reply(message, channel, {"status": "ok", "history": self._shell_of_cells.past(message.content)})

    def _comm_info(self, message: Message, channel: Channel) -> None:
        comms = self._comms.listed(message.content.get("target_name"))
        self._reply(message, channel, {"status": "ok", "comms": comms})

    def _interrupted(self, message: Message, channel: Channel) -> None:
        self._reply(message, channel, {"status": "ok"})  # the signal has done it

    def _reply(self, message: Message, channel: Channel, content: dict[str, Any]) -> None:
        self._publisher.reply(channel, message.kind.replace("_request", "_reply"), content, message)

    def _shutdown(self, message: Message, channel: Channel) -> None:
        content = {"status": "ok", "restart": bool(message.content.get("restart"))}
        self._publisher.reply(channel, "shutdown_reply", content, message)
        self._publisher.publish("shutdown_reply", content, message)
        self._publisher.status("idle", message)
        time.sleep(0.05)  # let the last messages leave
        os._exit(0)


def _link_files(places: list[str]) -> None:
    """Have what may be read in the working directory, too, where relative paths look for it."""
    for place in places:
        entries = [place]
        if os.path.isdir(place):
            with os.scandir(place) as found:
                entries = sorted(entry.path for entry in itertools.islice(found, _LINKS))
        for path in entries:
            with contextlib.suppress(OSError):  # another of that name, or no room
                os.symlink(path, os.path.basename(path))


def _at(message: Message) -> tuple[str, int]:
    code = str(message.content.get("code", ""))
    position = message.content.get("cursor_pos")
    return code, position if isinstance(position, int) else len(code)
