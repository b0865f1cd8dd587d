"""`rlm serve` in a thread of the test, and clients with tokens. As a module it is a server that is made to be killed.

python -m tests.support.task_server TASK.YAML          prints the address, and serves
"""

from __future__ import annotations

import contextlib
import sys
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx

from rlm.serve.context import ServerSettings
from rlm.serve.server import Server, make_server
from rlm.serve.tasks import ServedTask
from rlm.serve.tokens import TokenLimits, Tokens
from rlm.tasks import load

COUNT = "n = len(log)\nSUBMIT(answer=n)"
SIGNATURE = "log: str, question: str -> answer: int"


def write_task(folder: Path, *cells: str, name: str = "count", signature: str = SIGNATURE, more: str = "") -> Path:
    """Write a task whose main model replies with these cells, one after another in each session."""
    replies = "".join(f"  - |\n    ```python\n{_indented(cell)}\n    ```\n" for cell in cells)
    (folder / f"{name}.replies.yaml").write_text(f'main:\n{replies}sub: {{"*": "yes"}}\n', encoding="utf-8")
    path = folder / f"{name}.yaml"
    text = f'signature: "{signature}"\nmodels: {{scripted: {name}.replies.yaml}}\n{more}'
    path.write_text(text, encoding="utf-8")
    return path


def _indented(cell: str) -> str:
    return "\n".join(f"    {line}" for line in cell.splitlines())


@dataclass
class TaskServer:
    """A server that runs."""

    server: Server
    secrets: dict[str, str] = field(default_factory=dict)

    @property
    def address(self) -> str:
        return self.server.address

    def client(self, name: str = "ann", **limits: Any) -> httpx.Client:
        """A client with a token of this name, which is made where there is none."""
        if name not in self.secrets:
            _, self.secrets[name] = Tokens().add(name, TokenLimits(**limits))
        headers = {"authorization": f"Bearer {self.secrets[name]}"}
        return httpx.Client(base_url=self.address, headers=headers, timeout=60, trust_env=False)


@contextlib.contextmanager
def serving(*paths: Path, free: ServedTask | None = None, **settings: Any) -> Iterator[TaskServer]:
    """Serve task files in a thread."""
    tasks = {path.stem: ServedTask(path.stem, load(path, partial=True)) for path in paths}
    if free is not None:
        tasks[free.name] = free
    server = make_server(tasks, settings=ServerSettings(**settings))
    thread = threading.Thread(target=server.run, name="rlm-serve")
    thread.start()
    try:
        yield TaskServer(server)
    finally:
        server.stop()
        thread.join(60)
    assert not thread.is_alive()


def ended(client: httpx.Client, run: str) -> dict[str, Any]:
    """Wait for the end of a run by its events, and return it."""
    with client.stream("GET", f"/v1/runs/{run}/events") as events:
        assert events.status_code == 200, events.read()
        for _ in events.iter_lines():
            pass
    shown: dict[str, Any] = client.get(f"/v1/runs/{run}").json()
    assert shown["status"] != "running"
    return shown


def opened(client: httpx.Client, model: str = "count", log: str = "x" * 10, **body: Any) -> str:
    """Open a session and return its id."""
    answer = client.post("/v1/sessions", json={"model": model, "inputs": {"log": log}, **body})
    assert answer.status_code == 201, answer.text
    return str(answer.json()["id"])


def asked(client: httpx.Client, session: str, question: str = "How many?", **body: Any) -> dict[str, Any]:
    """Ask in a session, and return the run when it has ended."""
    answer = client.post(f"/v1/sessions/{session}/questions", json={"question": question, **body})
    assert answer.status_code == 201, answer.text
    return ended(client, answer.json()["id"])


def main(path: str) -> None:
    task = load(path, partial=True)
    server = make_server({Path(path).stem: ServedTask(Path(path).stem, task)})
    print(server.address, flush=True)
    server.run()


if __name__ == "__main__":
    main(sys.argv[1])
