"""The routes: the page, its files, and what it asks for. All of them only read."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from . import queries
from .bundle import BUNDLE, STATIC, bundle
from .eval_table import SuiteTable
from .run_cache import Shelf
from .security import Guard

if TYPE_CHECKING:
    from starlette.requests import Request
    from starlette.responses import Response

_KINDS = {".html": "text/html", ".js": "text/javascript", ".css": "text/css", ".svg": "image/svg+xml"}
_MOST_CHARS = 4_000_000


def application(
    home: Path | str | None = None,
    *,
    hosts: frozenset[str] = frozenset(),
    token: str | None = None,
    log: Path | None = None,
) -> Guard:
    """The whole server as an ASGI application, behind its guard. With the `log` of an evaluation, it has its table."""
    from starlette.applications import Starlette
    from starlette.routing import Route

    shelf = Shelf(home)
    suite = SuiteTable(log) if log is not None else None
    files = {path.name: path.read_bytes() for path in STATIC.iterdir() if path.suffix in _KINDS}
    files[BUNDLE] = bundle().encode()

    # These two are coroutines: they have nothing to wait for.
    async def page(request: Request) -> Response:
        return _file("index.html", files["index.html"])

    async def static(request: Request) -> Response:
        name = request.path_params["name"]
        return _file(name, files[name]) if name in files else _problem(404, "There is no such file.")

    def runs(request: Request) -> Response:
        found = shelf.runs()
        return _json({"runs": [run.to_dict() for run in found], "skipped": list(found.skipped)})

    def summary(request: Request) -> Response:
        return _json(queries.summary(_run(shelf, request)))

    def events(request: Request) -> Response:
        run = _run(shelf, request)  # before its events: a run that has ended has all of them on record
        found = queries.skeleton(run, _int(request, "after", 0))
        return _text(f'{{"run":{_dumps(run.to_dict())},"events":{found}}}')

    def whole(request: Request) -> Response:
        wanted = [int(one) for one in request.query_params.get("only", "").split(",") if one.isdigit()]
        return _json(queries.whole(_run(shelf, request), wanted))

    def variables(request: Request) -> Response:
        span = _int(request, "after", 0), _int(request, "until", 0)
        return _json(queries.variables(_run(shelf, request), *span))

    def body(request: Request) -> Response:
        start = max(0, _int(request, "start", 0))
        end = min(_int(request, "end", start + _MOST_CHARS), start + _MOST_CHARS)
        return _json(queries.body(_run(shelf, request), request.path_params["digest"], start, max(start, end)))

    def compare(request: Request) -> Response:
        from ..traces.diff import compare as compared

        first, second = (shelf.run(request.path_params[name]) for name in ("first", "second"))
        return _json(compared(first, second).to_dict())

    def evaluation(request: Request) -> Response:
        return _json(suite.table()) if suite is not None else _problem(404, "There is no evaluation to be seen here.")

    routes: list[tuple[str, Callable[[Request], Response]]] = [
        ("/api/runs", runs),
        ("/api/runs/{id}", summary),
        ("/api/runs/{id}/events", events),
        ("/api/runs/{id}/whole", whole),
        ("/api/runs/{id}/variables", variables),
        ("/api/runs/{id}/bodies/{digest}", body),
        ("/api/compare/{first}/{second}", compare),
        ("/api/eval", evaluation),
    ]
    made = Starlette(
        routes=[
            Route("/", page, methods=["GET"]),
            Route("/static/{name}", static, methods=["GET"]),
            *(Route(path, _careful(answer), methods=["GET"]) for path, answer in routes),
        ],
        exception_handlers={404: lambda request, error: _problem(404, "There is no such page.")},
    )
    return Guard(made, hosts=hosts, token=token)


def _careful(answer: Callable[[Request], Response]) -> Callable[[Request], Response]:
    """The same route; what is not there is said in the answer."""
    from ..evals.log import LogError
    from ..traces import UnknownRun
    from ..traces.blobs import BlobNotFound

    def careful(request: Request) -> Response:
        try:
            return answer(request)
        except (UnknownRun, BlobNotFound, LogError) as error:
            return _problem(404, str(error))
        except sqlite3.Error as error:
            return _problem(500, f"the trace could not be read: {error}")

    return careful


def _run(shelf: Shelf, request: Request) -> Any:
    return shelf.run(request.path_params["id"])


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

    return Response(content, media_type=_KINDS[Path(name).suffix])
