"""The server of the page, in a thread of the test."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path


def serve(home: Path) -> Iterator[str]:
    from rlm.viewer.server import make_server

    server = make_server(home)
    thread = threading.Thread(target=server.run, name="viewer")
    thread.start()
    try:
        yield server.address
    finally:
        server.stop()
        thread.join(30)
    assert not thread.is_alive()
