"""The routes of the server, as one guarded ASGI application."""

from __future__ import annotations

import contextlib
import logging
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import TYPE_CHECKING, Any

from ..viewer.security import Receive, Scope, Send
from .api import Api, json_response
from .asking import Conversations
from .chat_completions import ChatCompletions
from .context import Context
from .errors import RequestRefused
from .guard import Guard
from .openapi import OPERATIONS, description
from .page import Page
from .responses import Responses

if TYPE_CHECKING:
    from starlette.requests import Request
    from starlette.responses import Response

_logger = logging.getLogger("rlm.serve")


def application(
    context: Context, *, hosts: frozenset[str] = frozenset(), origins: frozenset[str] = frozenset()
) -> Guard:
    """Return the server as a guarded ASGI application."""
    from starlette.applications import Starlette
    from starlette.routing import Route

    conversations = Conversations(context)
    handlers = (
        Api(context),
        ChatCompletions(context, conversations, time.time()),
        Responses(context, conversations),
    )

    async def openapi(request: Request) -> Response:
        return json_response(description(context.address()))

    async def health(request: Request) -> Response:
        return json_response({"status": "ok"})

    @contextlib.asynccontextmanager
    async def lifespan(app: Any) -> AsyncIterator[None]:
        yield
        await context.runs.close()
        await context.sessions.close()
        context.store.close()

    routes = [
        Route(operation.path, _answered(_handler(handlers, operation.handler)), methods=[operation.method])
        for operation in OPERATIONS
    ]
    routes += [Route("/openapi.json", openapi, methods=["GET"]), Route("/health", health, methods=["GET"])]
    app = Starlette(
        routes=_merged(routes),
        lifespan=lifespan,
        exception_handlers={404: _unknown, 405: _wrong_method, 500: _internal},
    )
    page = Page(context.store, context.root)

    async def dispatch(scope: Scope, receive: Receive, send: Send) -> None:
        target: Any = page if scope["type"] == "http" and Page.handles(scope["path"]) else app
        await target(scope, receive, send)

    return Guard(dispatch, context.tokens, hosts, origins)


def _handler(handlers: tuple[Any, ...], name: str) -> Callable[[Request], Awaitable[Any]]:
    found: Callable[[Request], Awaitable[Any]] = next(getattr(part, name) for part in handlers if hasattr(part, name))
    return found


def _answered(handler: Callable[[Request], Awaitable[Any]]) -> Callable[[Request], Awaitable[Any]]:
    """Return the handler with refusals as responses."""

    async def answer(request: Request) -> Any:
        try:
            return await handler(request)
        except RequestRefused as refused:
            response = json_response(refused.body(), refused.status)
            response.headers.update(refused.headers())
            if refused.status in (408, 413):
                response.headers["connection"] = "close"
            return response

    return answer


def _merged(routes: list[Any]) -> list[Any]:
    """Return one route for each path, so that a wrong method is answered with the right ones."""
    from starlette.routing import Route

    by_path: dict[str, dict[str, Any]] = {}
    for route in routes:
        by_path.setdefault(route.path, {}).update(dict.fromkeys(route.methods - {"HEAD"}, route.endpoint))

    def merged(endpoints: dict[str, Any]) -> Any:
        async def endpoint(request: Request) -> Any:
            return await endpoints["GET" if request.method == "HEAD" else request.method](request)

        return endpoint

    return [Route(path, merged(endpoints), methods=list(endpoints)) for path, endpoints in by_path.items()]


async def _unknown(request: Request, error: Any) -> Response:
    return _problem(RequestRefused(404, "There is no such address; see /openapi.json.", "not_found"))


async def _wrong_method(request: Request, error: Any) -> Response:
    response = _problem(RequestRefused(405, "This address has no such method; see /openapi.json.", "wrong_method"))
    response.headers.update(getattr(error, "headers", None) or {})
    return response


async def _internal(request: Request, error: Exception) -> Response:
    _logger.error("%s %s failed", request.method, request.url.path, exc_info=error)
    return _problem(RequestRefused(500, "Internal error; the server's log says more.", "internal_error"))


def _problem(refused: RequestRefused) -> Response:
    response = json_response(refused.body(), refused.status)
    response.headers.update(refused.headers())
    return response
