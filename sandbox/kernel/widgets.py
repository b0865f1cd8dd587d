"""Comms, the messages between widgets and their views in a client: of the `comm` package, which ipywidgets uses."""

from __future__ import annotations

from typing import Any

from ..wire import Message
from .channels import Channel
from .notebook_output import NotebookOutput


class Comms:
    """The comms of one notebook. Without the package there are none."""

    def __init__(self, output: NotebookOutput) -> None:
        self._output = output
        self._manager: Any = None

    def install(self) -> None:
        """Have the package make comms that send through this kernel."""
        try:
            import comm
            from comm.base_comm import BaseComm, CommManager
        except ImportError:
            return
        output = self._output

        class KernelComm(BaseComm):  # type: ignore[misc]
            def publish_msg(
                self, msg_type: str, data: Any = None, metadata: Any = None, buffers: Any = None, **keys: Any
            ) -> None:
                content = {"data": {} if data is None else data, "comm_id": self.comm_id, **keys}
                output.comm(msg_type, content, metadata, [bytes(buffer) for buffer in buffers or ()])

        manager = self._manager = CommManager()
        comm.create_comm = KernelComm
        comm.get_comm_manager = lambda: manager

    def take(self, message: Message, channel: Channel) -> None:
        """Hand a message of the client to the widget that it is for."""
        if self._manager is not None:
            form = {
                "header": message.header,
                "content": message.content,
                "metadata": message.metadata,
                "buffers": message.buffers,
            }
            getattr(self._manager, message.kind)(None, None, form)

    def listed(self, target: Any) -> dict[str, Any]:
        """Return the comms that are open, those of one target if it is named."""
        comms = self._manager.comms if self._manager is not None else {}
        return {
            number: {"target_name": comm.target_name}
            for number, comm in comms.items()
            if target is None or comm.target_name == target
        }
