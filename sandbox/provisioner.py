"""The Jupyter provisioner: `jupyter_client`, JupyterLab, nbclient and papermill start the same confined kernel.

Named `rlm-sandbox` in the entry points; the kernelspec of that name asks for it. The sockets are bound here and passed
in, so the kernel needs no network even when Jupyter talks to it over TCP.
"""

from __future__ import annotations

import asyncio
import dataclasses
import importlib.util
import os
import signal
import socket
from typing import Any

from jupyter_client.connect import KernelConnectionInfo
from jupyter_client.provisioning.provisioner_base import KernelProvisionerBase
from traitlets import Dict, List, Unicode

from .errors import KernelStartError
from .launch import KernelProcess, Setup
from .limits import MB, Limits
from .pool import default_pool

_OUTPUT_BYTES = 8 * MB
"""For notebooks: figures are larger than text."""

_CHANNELS = ("shell", "control", "iopub", "stdin", "hb")


class SandboxProvisioner(KernelProvisionerBase):
    """Starts a confined kernel for a Jupyter `KernelManager`."""

    isolation = Unicode("auto", config=True, help="auto, or the name of an isolation tier")
    policy = Unicode("enforce", config=True, help="off, warn or enforce")
    limits = Dict(config=True, help="Limits by name, where they differ from the defaults")
    files = List(Unicode(), config=True, help="Files and directories to read; relative ones are beside the notebook")

    _process: KernelProcess | None = None
    _exit_code: int | None = None
    _listeners: dict[str, socket.socket]

    @property
    def has_process(self) -> bool:
        """Asked by the kernel manager before anything that needs a process."""
        return self._process is not None

    async def poll(self) -> int | None:
        """Asked by the kernel manager and its restarter: None while the kernel runs."""
        if self._process is not None and self._process.alive:
            return None
        return self._exit_code or 0

    async def wait(self) -> int | None:
        """Awaited by the kernel manager after it asked the kernel to end."""
        if self._process is None:
            return self._exit_code or 0
        while self._process.alive:
            await asyncio.sleep(0.02)
        end = self._process.wait(1.0)
        self._exit_code = end.status if end else 0
        self._process.close()
        self._process = None
        return self._exit_code

    async def send_signal(self, signum: int) -> None:
        """Called to interrupt a cell (SIGINT) or to end the kernel."""
        if self._process is not None:
            self._process.signal(signal.SIGINT if signum == signal.SIGINT else signal.SIGKILL)

    async def kill(self, restart: bool = False) -> None:
        """Called when the kernel did not end by itself."""
        await self.send_signal(signal.SIGKILL)

    async def terminate(self, restart: bool = False) -> None:
        """Called before `kill`; there is nothing in a kernel that would need longer."""
        await self.send_signal(signal.SIGKILL)

    async def pre_launch(self, **kwargs: Any) -> dict[str, Any]:
        """Called before `launch_kernel`: bind the ports, so that the connection file names them."""
        manager: Any = self.parent
        self._listeners = {}
        for name in _CHANNELS:
            port = getattr(manager, f"{name}_port")
            if manager.transport == "ipc":
                listener, port = socket.socket(socket.AF_UNIX), port or _CHANNELS.index(name) + 1
                listener.bind(f"{manager.ip}-{port}")
            else:
                listener = socket.socket()
                listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
                listener.bind((manager.ip, port))
                port = listener.getsockname()[1]
            listener.listen(16)
            self._listeners[name] = listener
            setattr(manager, f"{name}_port", port)
        manager.write_connection_file()
        self.connection_info = manager.get_connection_info()
        return await super().pre_launch(cmd=manager.format_kernel_cmd(), **kwargs)

    async def launch_kernel(self, cmd: list[str], **kwargs: Any) -> KernelConnectionInfo:
        """Called to start the kernel. `cmd` is not run: the fork server has everything imported already."""
        if importlib.util.find_spec("IPython") is None:
            raise KernelStartError("a notebook kernel needs IPython: pip install 'rlm-kernel[notebooks]'")
        limits = Limits(**{"output_bytes": _OUTPUT_BYTES, **self.limits})
        beside = os.path.abspath(kwargs.get("cwd") or os.curdir)
        files = [os.path.join(beside, os.path.expanduser(path)) for path in self.files]
        if missing := [path for path in files if not os.path.exists(path)]:
            raise KernelStartError(f"`files` of the kernelspec: {missing[0]} does not exist")
        setup = dataclasses.replace(Setup.choose(self.isolation, limits), files=tuple(map(os.path.realpath, files)))
        config = {
            "key": _text(self.connection_info["key"]),
            "notebook": True,
            "policy": self.policy,
            "output_bytes": limits.output_bytes,
            "memory_bytes": limits.memory_bytes,
            "files": list(setup.files),
        }
        try:
            self._process = await asyncio.to_thread(
                lambda: default_pool().launcher(setup).spawn(setup, config, self._listeners, None)
            )
        finally:
            for listener in self._listeners.values():
                listener.close()
        return self.connection_info

    async def cleanup(self, restart: bool = False) -> None:
        """Called last."""
        if self._process is not None:
            self._process.close()
            self._process = None


def _text(key: str | bytes) -> str:
    # Annotated as text, but bytes in the managers that there are.
    return key.decode() if isinstance(key, bytes) else key
