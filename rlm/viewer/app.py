"""The routes of the server: the page, its files, and its data. Only notes and answers to approvals can be written."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from . import queries, run_search
from .approvals import ApprovalRefused, RunApprovals
from .bundle import SCRIPT, STATIC, STYLE, script, style
from .evaluations import Evaluations
from .run_cache import RunCache
from .run_list import RunList
from .security import WRITABLE, Guard

if TYPE_CHECKING:
    from starlette.requests import Request
    from starlette.responses import Response

_MEDIA_TYPES = {".html": "text/html", ".js": "text/javascript", ".css": "text/css", ".svg": "image/svg+xml"}
_MAX_CHARS = 4_000_000
_MAX_BODY = 100_000
_MAX_SEARCH = 200


def application(
    home: Path | str | None = None,
    *,
    hosts: frozenset[str] = frozenset(),
    token: str | None = None,
    required: bool = True,
    log: Path | None = None,
) -> Guard:
    """Return the server as a guarded ASGI application. The `log` of an evaluation may be outside the home."""
    from starlette.applications import Starlette
    from starlette.concurrency import run_in_threadpool
    from starlette.routing import Route

    from ..traces.notes import Note, NoteRefused, Notes

    cache, evaluations, notes = RunCache(home), Evaluations(home, log), Notes(home)
    approvals = RunApprovals(home)
    run_list = RunList(cache, evaluations, notes)
    index = (STATIC / "index.html").read_bytes()
    files = {"icon.svg": (STATIC / "icon.svg").read_bytes(), SCRIPT: script().encode(), STYLE: style().encode()}

    # These two are coroutines because they never block; the others run in threads.
    async def page(request: Request) -> Response:
        return _file("index.html", index)

    async def static(request: Request) -> Response:
        name = request.path_params["name"]
        return _file(name, files[name]) if name in files else _problem(404, "There is no such file.")

    def runs(request: Request) -> Response:
        return _text(run_list.text(request.query_params.get("known")))

    def summary(request: Request) -> Response:
        run = _run(cache, request)
        about = {"sample": evaluations.sample(run.id), "note": notes.all().get(run.id, Note()).to_dict()}
        return _json({**queries.summary(run), **about, "writable": request.scope[WRITABLE]})

    async def write_note(request: Request) -> Response:
        return await written(request, store_note)

    async def write_approval(request: Request) -> Response:
        return await written(request, store_approval)

    async def written(request: Request, store: Callable[[Request, bytes], Response]) -> Response:
        body = b""
        async for chunk in request.stream():
            body += chunk
            if len(body) > _MAX_BODY:
                return _problem(413, "The text is too long.")
        return await run_in_threadpool(_with_errors(lambda _: store(request, body)), request)

    def store_approval(request: Request, body: bytes) -> Response:
        from ..mcp.approvals import ApprovalAlreadyAnswered

        try:
            return _json(approvals.answer(_run(cache, request).id, request.path_params["approval"], body))
        except (ApprovalRefused, ApprovalAlreadyAnswered) as error:
            return _problem(400, str(error))

    def waiting(request: Request) -> Response:
        return _json({"approvals": approvals.waiting(_run(cache, request).id)})

    def store_note(request: Request, body: bytes) -> Response:
        run = _run(cache, request)
        try:
            data = json.loads(body)
            note = notes.write(run.id, data["text"], data["labels"])
        except (KeyError, TypeError, NoteRefused, ValueError) as error:
            return _problem(400, str(error) if isinstance(error, NoteRefused) else "A note has a text and labels.")
        return _json(note.to_dict())

    def search(request: Request) -> Response:
        text = request.query_params.get("q", "").strip()[:_MAX_SEARCH]
        return _json(run_search.search(_run(cache, request), text) if text else {"places": [], "more": False})

    def events(request: Request) -> Response:
        run = _run(cache, request)  # before its events: a run that has ended has all of them in the trace
        skeleton = queries.skeleton(run, _int(request, "after", 0))
        return _text(f'{{"run":{_dumps(run.to_dict())},"events":{skeleton}}}')

    def whole(request: Request) -> Response:
        sequences = [int(number) for number in request.query_params.get("only", "").split(",") if number.isdigit()]
        return _json(queries.whole(_run(cache, request), sequences))

    def variables(request: Request) -> Response:
        span = _int(request, "after", 0), _int(request, "until", 0)
        return _json(queries.variables(_run(cache, request), *span))

    def blob(request: Request) -> Response:
        start = max(0, _int(request, "start", 0))
        end = min(_int(request, "end", start + _MAX_CHARS), start + _MAX_CHARS)
        return _json(queries.blob(_run(cache, request), request.path_params["digest"], start, max(start, end)))

    def output_file(request: Request) -> Response:
        from starlette.responses import Response

        content = _run(cache, request).blob(request.path_params["digest"])
        kind = next((kind for mark, kind in _PICTURES if isinstance(content, bytes) and content.startswith(mark)), None)
        if not isinstance(content, bytes):
            return _problem(404, "This is no file.")
        # Anything but a picture is only ever saved: it was written by code that nobody has read.
        about = {} if kind is not None else {"content-disposition": "attachment"}
        return Response(content, media_type=kind or "application/octet-stream", headers=about)

    def compare(request: Request) -> Response:
        from ..traces import diff

        first, second = (cache.run(request.path_params[name]) for name in ("first", "second"))
        return _json(diff.compare(first, second).to_dict())

    def evaluation(request: Request) -> Response:
        return _json(evaluations.table(request.path_params.get("name")).read())

    def evaluation_list(request: Request) -> Response:
        return _json({"evaluations": evaluations.rows()})

    routes: list[tuple[str, Callable[[Request], Response]]] = [
        ("/api/runs", runs),
        ("/api/runs/{id}", summary),
        ("/api/runs/{id}/events", events),
        ("/api/runs/{id}/whole", whole),
        ("/api/runs/{id}/variables", variables),
        ("/api/runs/{id}/blobs/{digest}", blob),
        ("/api/runs/{id}/files/{digest}", output_file),
        ("/api/compare/{first}/{second}", compare),
        ("/api/runs/{id}/search", search),
        ("/api/runs/{id}/approvals", waiting),
        ("/api/eval", evaluation),
        ("/api/evals", evaluation_list),
        ("/api/evals/{name}", evaluation),
    ]
    app = Starlette(
        routes=[
            Route("/", page, methods=["GET"]),
            Route("/static/{name}", static, methods=["GET"]),
            Route("/api/runs/{id}/note", write_note, methods=["PUT"]),
            Route("/api/runs/{id}/approvals/{approval}", write_approval, methods=["PUT"]),
            *(Route(path, _with_errors(handler), methods=["GET"]) for path, handler in routes),
        ],
        exception_handlers={404: lambda request, error: _problem(404, "There is no such page.")},
    )
    return Guard(app, hosts=hosts, token=token, required=required)


_PICTURES = ((b"\x89PNG\r\n\x1a\n", "image/png"), (b"\xff\xd8\xff", "image/jpeg"), (b"GIF8", "image/gif"))


def _with_errors(handler: Callable[[Request], Response]) -> Callable[[Request], Response]:
    """Return the handler with its errors as responses."""
    from ..evals.log import EvalLogError
    from ..traces import UnknownRun
    from ..traces.blobs import BlobNotFound

    def handle(request: Request) -> Response:
        try:
            return handler(request)
        except (UnknownRun, BlobNotFound, EvalLogError) as error:
            return _problem(404, str(error))
        except sqlite3.Error as error:
            return _problem(500, f"the trace could not be read: {error}")

    return handle


def _run(cache: RunCache, request: Request) -> Any:
    return cache.run(request.path_params["id"])


def _int(request: Request, name: str, default: int) -> int:
    try:
        return int(request.query_params.get(name, default))
    except ValueError:
        return default


def _dumps(value: Any) -> str:
    return json.dumps(value, separators=(",", ":"), default=str)


def _json(value: Any, status: int = 200) -> Response:
    return _text(_dumps(value), status)


def _text(text: str, status: int = 200) -> Response:
    from starlette.responses import Response

    return Response(text, status, media_type="application/json")


def _problem(status: int, message: str) -> Response:
    return _json({"problem": message}, status)


def _file(name: str, content: bytes) -> Response:
    from starlette.responses import Response

    return Response(content, media_type=_MEDIA_TYPES[Path(name).suffix])
