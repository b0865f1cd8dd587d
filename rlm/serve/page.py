"""The page of the viewer for the owner of a token: asking, and the traces of the owner's own runs.

Files of the page need no token; they have no data. Data is that of the viewer, behind a check of whose run it is.
"""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

from ..viewer.app import application
from ..viewer.run_cache import RunCache
from ..viewer.security import WRITABLE, App, Receive, Scope, Send
from .errors import not_found
from .guard import refuse
from .requests import TOKEN
from .store import ServerStore

_PREFIX = "/api/"
_SERVED = b'<meta name="rlm-serve" content="1" />\n    <title>'
_MAX_PARENTS = 20
_METHODS = ("GET", "HEAD")


class Page:
    """An ASGI application: the page, its files, and the data of the runs of one owner."""

    def __init__(self, store: ServerStore, root: Path) -> None:
        self._store = store
        self._viewer: App = application(root).app
        self._runs = RunCache(root)

    @staticmethod
    def handles(path: str) -> bool:
        """Return whether a path is one of the page."""
        return path == "/" or path.startswith(("/static/", _PREFIX))

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle one request, which the guard has let through."""
        from starlette.responses import Response

        path = scope["path"]
        scope = {**scope, WRITABLE: False}
        if scope["method"] not in _METHODS:
            await Response(b'{"problem":"Only GET."}', 405, {"allow": "GET"}, "application/json")(scope, receive, send)
            return
        if path == "/":
            await self._viewer(scope, receive, _with_mark(send))
            return
        if not path.startswith(_PREFIX):
            await self._viewer(scope, receive, send)
            return
        owner = scope[TOKEN].id
        parts = path[len(_PREFIX) :].split("/")
        if parts == ["runs"]:
            body = await asyncio.to_thread(self._list, owner)
            await Response(body, media_type="application/json")(scope, receive, send)
            return
        ids = parts[1:2] if parts[0] == "runs" else parts[1:3] if parts[0] == "compare" else []
        if ids and all([await asyncio.to_thread(self._owns, owner, run_id) for run_id in ids]):
            await self._viewer(scope, receive, send)
            return
        await refuse(send, not_found("run", "/".join(ids)) if ids else not_found("page", path))

    def _list(self, owner: str) -> bytes:
        own = self._store.run_ids(owner)
        runs: list[dict[str, Any]] = []
        for run in self._runs.runs():
            if run.id in own or (run.parent is not None and self._owns_record(own, run)):
                row = run.to_dict()
                task = run.beginning.get("task") or {}
                for name, key in (("session", "session"), ("question", "question")):
                    if isinstance(task.get(key), str | int):
                        row[name] = task[key]
                runs.append(row)
        return json.dumps({"state": "", "runs": runs, "skipped": []}, separators=(",", ":"), default=str).encode()

    def _owns(self, owner: str, run_id: str) -> bool:
        from ..traces import UnknownRun

        if self._store.owns_run(owner, run_id):
            return True
        try:
            record = self._runs.run(run_id)
        except UnknownRun:
            return False
        # A prefix of an id would be found by the viewer, too: only whole ids are.
        return record.id == run_id and self._owns_record(self._store.run_ids(owner), record)

    def _owns_record(self, own: set[str], record: Any) -> bool:
        """Return whether a run, or the run that it is a child of, is among those of an owner."""
        from ..traces import UnknownRun

        parent = record.parent
        for _ in range(_MAX_PARENTS):
            if parent is None or parent in own:
                return parent is not None
            try:
                parent = self._runs.run(parent).parent
            except UnknownRun:
                return False
        return False


def _with_mark(send: Send) -> Send:
    """Tell the page that it is served here, and can ask."""

    async def marked(message: Any) -> None:
        if message["type"] == "http.response.start":
            headers = [(name, value) for name, value in message["headers"] if name.lower() != b"content-length"]
            message = {**message, "headers": headers}
        elif message["type"] == "http.response.body":
            message = {**message, "body": message.get("body", b"").replace(b"<title>", _SERVED, 1)}
        await send(message)

    return marked
