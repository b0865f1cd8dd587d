"""`rlm mcp` with a scripted model, for tests: folders, settings, and a server over HTTP in a thread."""

from __future__ import annotations

import contextlib
import socket
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

TASK = """\
signature: "x -> y"
models: {scripted: replies.yaml}
budget: {max_iterations: 6}
"""
REPLIES = """\
main:
  "How many": "```python\\nkept = len(documents)\\nSUBMIT(answer=kept)\\n```"
  "What was kept": "```python\\nSUBMIT(answer=kept)\\n```"
  "take long": "```python\\nimport time\\ntime.sleep(60)\\nSUBMIT(answer='late')\\n```"
  "never": "```python\\nprint('nothing')\\n```"
  "*": |
    ```python
    line = [line for line in documents["notes.txt"].splitlines() if "fox" in line][0]
    SUBMIT(answer=line)
    ```
extraction:
  "*": '{"answer": "extracted"}'
"""


def write_folder(folder: Path) -> Path:
    """Write a task with replies, documents, and files beside them that must not be read. Return the task file."""
    documents = folder / "documents"
    documents.mkdir()
    (documents / "notes.txt").write_text("one\ntwo\nthe quick brown fox jumps\n")
    (documents / "more.md").write_text("more\n")
    (documents / ".env").write_text("SECRET=hidden\n")
    (documents / "picture.png").write_bytes(b"\x89PNG\0\0\0")
    (folder / "outside.txt").write_text("the fox that nobody may read\n")
    (folder / "replies.yaml").write_text(REPLIES)
    task = folder / "task.yaml"
    task.write_text(TASK)
    return task


@contextlib.contextmanager
def http_server(server: Any, token: str) -> Iterator[str]:
    """Serve over HTTP on a free port and yield the address."""
    import uvicorn

    from rlm.mcp_server.http import http_app

    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        listening.listen(200)
        port = listening.getsockname()[1]
        app = http_app(server, token, "127.0.0.1", port)
        serving = uvicorn.Server(uvicorn.Config(app, log_level="error", access_log=False, timeout_graceful_shutdown=2))
        thread = threading.Thread(target=serving.run, kwargs={"sockets": [listening]}, daemon=True)
        thread.start()
        try:
            deadline = time.monotonic() + 60
            while not serving.started and time.monotonic() < deadline:
                time.sleep(0.01)
            yield f"http://127.0.0.1:{port}/mcp"
        finally:
            serving.should_exit = True
            thread.join(30)
