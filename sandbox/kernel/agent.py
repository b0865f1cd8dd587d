"""The second carrier's end in a kernel that is not ours (ipykernel): inputs, variables and host calls over comms.

This module is sent as source and must import nothing of this package but its neighbours that are sent with it.
"""

from __future__ import annotations

import itertools
import threading
from typing import Any

from . import snapshot
from .inputs import bind, helpers

COMM = "rlm.sandbox"


class HostError(Exception):
    """The host function failed, in a way that has no exception of its own in Python."""


class CellStopped(BaseException):
    """A host function ended the cell."""


class _Pending:
    def __init__(self) -> None:
        self.arrived = threading.Event()
        self.answer: dict[str, Any] = {}


class Agent:
    """Serves one session inside an IPython kernel."""

    def __init__(self, shell: Any) -> None:
        self._shell = shell
        self._kernel = shell.kernel
        self._numbers = itertools.count(1)
        self._pending: dict[int, _Pending] = {}
        self._functions: dict[str, Any] = {}
        self._offered: frozenset[str] = frozenset()
        self._before = frozenset(shell.user_ns)
        self._shell_comm = self._kernel.shell_handlers["comm_msg"]
        self._kernel.shell_handlers["comm_msg"] = self._on_shell
        self._kernel.control_handlers["comm_msg"] = self._on_control

    def call(self, name: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Call a function of the host and wait for what it returns."""
        number = next(self._numbers)
        pending = self._pending[number] = _Pending()
        try:
            self._publish({"call": {"id": number, "name": name, "args": list(args), "kwargs": kwargs}})
            pending.arrived.wait()
        finally:
            del self._pending[number]
        answer = pending.answer
        if answer.get("stop"):
            raise CellStopped("a host function ended the cell")
        error = answer.get("error")
        if error is not None:
            import builtins

            kind = getattr(builtins, error["name"], None)
            named = isinstance(kind, type) and issubclass(kind, Exception)
            raise kind(error["message"]) if named else type(error["name"], (HostError,), {})(error["message"])  # type: ignore[misc]
        return answer.get("value")

    def _publish(self, data: dict[str, Any], parent: Any = None) -> None:
        parent = parent if parent is not None else self._kernel.get_parent("shell")
        session, socket = self._kernel.session, self._kernel.iopub_socket
        session.send(socket, "comm_msg", {"comm_id": COMM, "data": data}, parent=parent)

    def _on_control(self, stream: Any, identities: Any, message: dict[str, Any]) -> None:
        answer = message["content"]["data"].get("answer") or {}
        pending = self._pending.get(answer.get("id", 0))
        if pending is not None:
            pending.answer = answer
            pending.arrived.set()

    def _on_shell(self, stream: Any, identities: Any, message: dict[str, Any]) -> Any:
        if message["content"].get("comm_id") != COMM:
            return self._shell_comm(stream, identities, message)
        data = message["content"]["data"]
        try:
            answer = self._load(data, message) if data["op"] == "load" else self._variables(data)
        except Exception as error:
            answer = {"error": f"{type(error).__name__}: {error}"}
        self._publish(answer, message)
        return None

    def _load(self, data: dict[str, Any], message: dict[str, Any]) -> dict[str, Any]:
        namespace = self._shell.user_ns
        if "functions" in data:
            for name in [name for name in self._functions if name in self._offered]:
                del self._functions[name]
                namespace.pop(name, None)
            self._offered = frozenset(function["name"] for function in data["functions"])
            for function in data["functions"]:
                self._functions[function["name"]] = self._stub(function["name"], function.get("doc"))
        self._functions.update(helpers(data.get("helpers", {})))
        namespace.update(self._functions)
        values = bind(data.get("inputs", []), [], [bytes(part) for part in message.get("buffers", [])])
        namespace.update(values)
        return {"loaded": sorted(values)}

    def _variables(self, data: dict[str, Any]) -> dict[str, Any]:
        names = {name for name in self._shell.user_ns if name in self._before or name.startswith(("_i", "_oh", "_dh"))}
        return snapshot.snapshot(
            self._shell.user_ns, skip=frozenset(names | set(self._functions)), **data.get("options", {})
        )

    def _stub(self, name: str, doc: str | None) -> Any:
        def call_host(*args: Any, **kwargs: Any) -> Any:
            return self.call(name, args, kwargs)

        call_host.__name__ = call_host.__qualname__ = name
        call_host.__doc__ = doc
        return call_host


def start() -> None:
    """Attach to the IPython kernel of this process."""
    from IPython import get_ipython  # type: ignore[import-not-found,unused-ignore]

    snapshot.prime()
    get_ipython()._rlm_agent = Agent(get_ipython())
