"""The OpenAPI description of the server, made from its routes and from the models that check requests."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from pydantic import BaseModel
from pydantic.json_schema import models_json_schema

from rlm import __version__

from . import openai_schemas as openai
from . import schemas as own

_REF = "#/components/schemas/{model}"
_TITLE = "rlm serve"
_ABOUT = (
    "Runs and sessions of recursive language models over HTTP. A model is a task of this server; clients give inputs. "
    "What belongs to another token is not found."
)
_ID = {"type": "string", "minLength": 1, "maxLength": 100}
_EVENT_STREAM, _LINES = "text/event-stream", "application/x-ndjson"


@dataclass(frozen=True)
class Operation:
    """One operation: how it is reached, what it takes and what it gives."""

    method: str
    path: str
    handler: str
    """The name of its handler, which is its operation id."""

    about: str
    body: type[BaseModel] | None = None
    response: type[BaseModel] | dict[str, Any] | None = None
    status: int = 200
    other_media: str | None = None
    """The media type of what is no JSON: a stream of events, or lines."""

    only_other_media: bool = False
    query: dict[str, dict[str, Any]] = field(default_factory=dict)
    refusals: Sequence[int] = ()


def _object(name: str, *required: str) -> dict[str, Any]:
    properties: dict[str, Any] = {name: {} for name in required}
    properties["object"] = {"const": name}
    return {"type": "object", "properties": properties, "required": ["object", *required]}


_STARTS = (409, 413, 429, 503)
_LIMIT = {"limit": {"type": "integer", "minimum": 1, "maximum": 1000, "default": 100}}
_RESPONSE = _object("response", "id", "status", "model", "output")

OPERATIONS = (
    Operation("GET", "/v1/me", "show_token", "The limits of the token, and what it uses.", None, own.TokenObject),
    Operation("GET", "/v1/models", "models", "The tasks of this server, as models.", None, _object("list", "data")),
    Operation("GET", "/v1/models/{name}", "model", "One task.", None, _object("model", "id"), refusals=(404,)),
    Operation(
        "POST", "/v1/runs", "start_run", "Start a run.", own.NewRun, own.RunObject, 201, refusals=(404, *_STARTS)
    ),
    Operation("GET", "/v1/runs", "list_runs", "The latest runs, without results.", None, own.RunList, query=_LIMIT),
    Operation("GET", "/v1/runs/{id}", "show_run", "A run, with its result.", None, own.RunObject, refusals=(404,)),
    Operation("POST", "/v1/runs/{id}/cancel", "cancel_run", "Cancel a run.", None, own.RunObject, refusals=(404,)),
    Operation(
        *("GET", "/v1/runs/{id}/events", "follow_run", "The events of a run, as they happen; the last is `result`."),
        other_media=_EVENT_STREAM,
        only_other_media=True,
        query={"after": {"type": "integer", "minimum": 0, "maximum": 10**15 - 1, "default": 0}},
        refusals=(404,),
    ),
    Operation(
        *("GET", "/v1/runs/{id}/trace", "trace", "The recorded events of a run; long texts are references."),
        other_media=_LINES,
        only_other_media=True,
        refusals=(404,),
    ),
    Operation(
        *("POST", "/v1/sessions", "open_session", "Open a session.", own.NewSession, own.SessionObject, 201),
        refusals=(403, 404, *_STARTS),
    ),
    Operation("GET", "/v1/sessions", "list_sessions", "The sessions.", None, own.SessionList, query=_LIMIT),
    Operation(
        *("GET", "/v1/sessions/{id}", "show_session", "A session, its questions and variables."),
        response=own.SessionDetails,
        refusals=(404,),
    ),
    Operation(
        *("DELETE", "/v1/sessions/{id}", "delete_session", "Delete a session.", None, own.Deleted), refusals=(404, 409)
    ),
    Operation(
        *("PUT", "/v1/sessions/{id}/inputs", "set_inputs", "Add or replace inputs.", own.SetInputs, own.SessionObject),
        refusals=(404, *_STARTS),
    ),
    Operation(
        *("POST", "/v1/sessions/{id}/questions", "ask", "Ask in a session: the run, or its events with `stream`."),
        body=own.NewQuestion,
        response=own.RunObject,
        status=201,
        other_media=_EVENT_STREAM,
        refusals=(404, *_STARTS),
    ),
    Operation(
        *("POST", "/v1/sessions/{id}/resume", "resume", "Go on with the question that was interrupted."),
        response=own.RunObject,
        status=201,
        refusals=(404, *_STARTS),
    ),
    Operation(
        *("POST", "/v1/sessions/{id}/branch", "branch", "An independent copy that starts from here."),
        response=own.SessionObject,
        status=201,
        refusals=(403, 404, *_STARTS),
    ),
    Operation(
        *("POST", "/v1/sessions/{id}/undo", "undo", "Take the last question back.", None, own.SessionObject),
        refusals=(404, *_STARTS),
    ),
    Operation(
        *("POST", "/v1/chat/completions", "complete", "OpenAI's chat completions. A conversation is a session."),
        body=openai.ChatRequest,
        response=_object("chat.completion", "id", "choices", "usage", "rlm"),
        other_media=_EVENT_STREAM,
        refusals=(403, 404, 422, *_STARTS),
    ),
    Operation(
        *("POST", "/v1/responses", "create", "OpenAI's responses. What is gone on from is named by id."),
        body=openai.ResponseRequest,
        response=_RESPONSE,
        other_media=_EVENT_STREAM,
        refusals=(403, 404, *_STARTS),
    ),
    Operation("GET", "/v1/responses/{id}", "show", "A response, as far as it is.", None, _RESPONSE, refusals=(404,)),
    Operation("DELETE", "/v1/responses/{id}", "delete", "Forget a response.", None, own.Deleted, refusals=(404,)),
    Operation("POST", "/v1/responses/{id}/cancel", "cancel", "Cancel a response.", None, _RESPONSE, refusals=(404,)),
    Operation(
        *("POST", "/v1/conversations", "new_conversation", "Make a conversation.", openai.NewConversation),
        response=_object("conversation", "id"),
        refusals=(403, 413, 503),
    ),
    Operation(
        *("GET", "/v1/conversations/{id}", "show_conversation", "A conversation."),
        response=_object("conversation", "id"),
        refusals=(404,),
    ),
)


def description(address: str) -> dict[str, Any]:
    """Return the OpenAPI description."""
    models = {model for op in OPERATIONS for model in (op.body, op.response) if isinstance(model, type)} | {
        own.ErrorBody
    }
    listed = sorted(models, key=lambda model: model.__name__)
    _, schemas = models_json_schema([(model, "validation") for model in listed], ref_template=_REF)
    paths: dict[str, dict[str, Any]] = {}
    for operation in OPERATIONS:
        paths.setdefault(operation.path, {})[operation.method.lower()] = _operation(operation)
    return {
        "openapi": "3.1.0",
        "info": {"title": _TITLE, "version": __version__, "description": _ABOUT},
        "servers": [{"url": address}],
        "security": [{"token": []}],
        "paths": paths,
        "components": {
            "securitySchemes": {"token": {"type": "http", "scheme": "bearer"}},
            "schemas": schemas["$defs"],
        },
    }


def _operation(operation: Operation) -> dict[str, Any]:
    parameters = [
        {"name": part[1:-1], "in": "path", "required": True, "schema": _ID}
        for part in operation.path.split("/")
        if part.startswith("{")
    ]
    parameters += [
        {"name": name, "in": "query", "required": False, "schema": schema} for name, schema in operation.query.items()
    ]
    content = {} if operation.only_other_media else {"application/json": {"schema": _schema(operation.response)}}
    responses: dict[str, Any] = {str(operation.status): {"description": operation.about, "content": content}}
    if operation.other_media is not None:
        status = (
            "200" if operation.only_other_media or operation.other_media == _EVENT_STREAM else str(operation.status)
        )
        responses.setdefault(status, {"description": operation.about, "content": {}})
        responses[status]["content"][operation.other_media] = {"schema": {}}
    refusals = {401, 421, *operation.refusals}
    if operation.body is not None:
        refusals |= {400, 408, 413, 415, 503}
    if operation.query:
        refusals.add(400)
    problem = {"application/json": {"schema": _schema(own.ErrorBody)}}
    for status_code in sorted(refusals):
        responses[str(status_code)] = {"description": "Refused: `error.message` says why.", "content": problem}
    made: dict[str, Any] = {
        "operationId": operation.handler,
        "summary": operation.about,
        "parameters": parameters,
        "responses": responses,
    }
    if operation.body is not None:
        schema = {"schema": _schema(operation.body)}
        made["requestBody"] = {"required": True, "content": {"application/json": schema}}
    return made


def _schema(model: type[BaseModel] | dict[str, Any] | None) -> dict[str, Any]:
    if isinstance(model, type):
        return {"$ref": _REF.format(model=model.__name__)}
    return model or {}
