"""The bodies of requests of OpenAI's API, as far as they mean something here. Other fields are ignored."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from .conversations import File, Turn, file_of
from .errors import bad_request
from .schemas import InputValues, Model

_MAX_MESSAGES = 10_000
_TEXT_PARTS = ("text", "input_text", "output_text", "refusal")


class _Body(BaseModel):
    model_config = ConfigDict(extra="ignore", strict=True)


class OwnOptions(_Body):
    """The field `rlm`: what OpenAI's API has no word for."""

    inputs: InputValues = {}
    on_disconnect: Annotated[
        Literal["cancel", "continue"], Field(description="What happens to the run when the client goes away.")
    ] = "cancel"


class FileData(_Body):
    """The content of a file."""

    filename: str | None = None
    file_data: str | None = None


class Part(_Body):
    """A part of a message: a text, or a file with its content."""

    type: Literal["text", "input_text", "output_text", "refusal", "file", "input_file"]
    text: str | None = None
    refusal: str | None = None
    file: FileData | None = None
    filename: str | None = None
    file_data: str | None = None


Content = str | Annotated[list[Part], Field(max_length=_MAX_MESSAGES)] | None


class ChatMessage(_Body):
    """A message of a chat."""

    role: Literal["system", "developer", "user", "assistant"]
    content: Content = None


class StreamOptions(_Body):
    """Options of a stream."""

    include_usage: bool | None = None


class Format(_Body):
    """The form of an answer. The task decides it: only `text` is accepted."""

    type: str = "text"


class TextOptions(_Body):
    """Options of the text of a response."""

    format: Format | None = None


class ChatRequest(_Body):
    """The body of `/v1/chat/completions`."""

    model: Model
    messages: Annotated[list[ChatMessage], Field(min_length=1, max_length=_MAX_MESSAGES)]
    stream: bool | None = None
    stream_options: StreamOptions | None = None
    n: Annotated[int, Field(ge=1, le=1)] | None = None
    tools: Annotated[list[Any], Field(max_length=0)] | None = None
    response_format: Format | None = None
    rlm: OwnOptions = OwnOptions()


class ResponseItem(_Body):
    """A message in the input of a response. Items of reasoning are ignored."""

    type: Literal["message", "reasoning"] = "message"
    role: Literal["system", "developer", "user", "assistant"] = "user"
    content: Content = None


class ConversationId(_Body):
    """A conversation by id."""

    id: str


class ResponseRequest(_Body):
    """The body of `/v1/responses`."""

    model: Model
    input: str | Annotated[list[ResponseItem], Field(min_length=1, max_length=_MAX_MESSAGES)]
    instructions: str | None = None
    previous_response_id: str | None = None
    conversation: str | ConversationId | None = None
    stream: bool | None = None
    background: bool | None = None
    store: bool | None = None
    tools: Annotated[list[Any], Field(max_length=0)] | None = None
    text: TextOptions | None = None
    rlm: OwnOptions = OwnOptions()


class NewConversation(_Body):
    """The body of `/v1/conversations`. Its first response says which task it is about."""

    items: Annotated[list[Any], Field(max_length=0)] | None = None


def chat_turns(request: ChatRequest) -> list[Turn]:
    """Return the messages of a chat. Raise `RequestRefused`."""
    _check_format(request.response_format, "response_format")
    return [
        _turn(message.role, message.content, f"messages.{number}") for number, message in enumerate(request.messages)
    ]


def response_turns(request: ResponseRequest) -> list[Turn]:
    """Return the messages of a request for a response. Raise `RequestRefused`."""
    _check_format(request.text.format if request.text is not None else None, "text.format")
    turns = [Turn("system", (request.instructions,))] if request.instructions else []
    if isinstance(request.input, str):
        return [*turns, Turn("user", (request.input,))]
    items = [item for item in request.input if item.type == "message"]
    return turns + [_turn(item.role, item.content, f"input.{number}") for number, item in enumerate(items)]


def _check_format(chosen: Format | None, param: str) -> None:
    if chosen is not None and chosen.type != "text":
        raise bad_request("The task decides the form of an answer; see its outputs in /v1/models.", param)


def _turn(role: str, content: str | list[Part] | None, param: str) -> Turn:
    kind: Any = "system" if role == "developer" else role
    if content is None or isinstance(content, str):
        return Turn(kind, (content,) if content else ())
    texts = tuple(text for part in content if part.type in _TEXT_PARTS and (text := part.text or part.refusal))
    return Turn(kind, texts, tuple(_file(part, param) for part in content if part.type not in _TEXT_PARTS))


def _file(part: Part, param: str) -> File:
    own = part.file or FileData(filename=part.filename, file_data=part.file_data)
    return file_of(own.filename, own.file_data, param)
