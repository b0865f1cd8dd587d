"""A stock ipykernel, driven by jupyter_client the way its documentation does it."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Mapping
from importlib.metadata import version
from pathlib import Path
from typing import Any

from peers import Defaults


class PlainIpykernel(Defaults):
    call = 'input("x")'

    @classmethod
    def setup(cls) -> str:
        import jupyter_client.manager  # noqa: F401

        return version("ipykernel")

    def start(self, functions: Mapping[str, Callable[..., str]] | None = None) -> None:
        from jupyter_client.manager import start_new_kernel

        self.functions = dict(functions or {})
        self.manager, self.client = start_new_kernel()

    def run(self, code: str) -> str:
        out: list[str] = []

        def collect(message: dict[str, Any]) -> None:
            if message["msg_type"] == "stream":
                out.append(message["content"]["text"])

        def answer(message: dict[str, Any]) -> None:
            self.client.input(self.functions["ask"](message["content"]["prompt"]))

        reply = self.client.execute_interactive(
            code, store_history=False, allow_stdin=bool(self.functions), output_hook=collect, stdin_hook=answer
        )
        if reply["content"]["status"] != "ok":
            raise RuntimeError(f"{reply['content'].get('ename')}: {reply['content'].get('evalue')}")
        return "".join(out)

    def load(self, name: str, text: str, code: str) -> str:
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder, "input.txt")
            path.write_text(text, encoding="utf-8", newline="")
            return self.run(f"{name} = open({str(path)!r}, encoding='utf-8', newline='').read()\n{code}")

    def pids(self) -> list[int]:
        return [self.manager.provisioner.pid]

    def close(self) -> None:
        self.client.stop_channels()
        self.manager.shutdown_kernel(now=True)
