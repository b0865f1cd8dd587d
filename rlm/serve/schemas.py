"""The bodies of the server's own requests and responses, for checking and for the OpenAPI description."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, StringConstraints

Status = Literal["running", "submitted", "extracted", "failed", "interrupted"]
Line = Annotated[str, StringConstraints(max_length=200, pattern=r"^[^\r\n]*$")]
Model = Annotated[str, Field(max_length=200, description="The name of a task, as /v1/models lists it.")]
InputValues = Annotated[
    dict[str, Any],
    Field(description='Values by name. Bytes are {"$bytes": "base64"}. Nothing in them is read as a file or as code.'),
]


class _Body(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True)


class NewRun(_Body):
    """A run to start, without a session."""

    model: Model
    inputs: InputValues = {}


class NewSession(_Body):
    """A session to open."""

    model: Model
    inputs: InputValues = {}
    title: Line = ""


class NewQuestion(_Body):
    """A question to ask in a session."""

    question: Annotated[str, Field(min_length=1)]
    inputs: InputValues = {}
    stream: Annotated[bool, Field(description="Answer with server-sent events, to the end of the run.")] = False
    on_disconnect: Annotated[
        Literal["cancel", "continue"], Field(description="With `stream`: what to do when the reader goes away.")
    ] = "continue"


class SetInputs(_Body):
    """Inputs to add or to replace."""

    inputs: InputValues


class Links(BaseModel):
    """Where more of a run is."""

    events: str
    trace: str
    page: str


class RunObject(BaseModel):
    """A run."""

    id: str
    object: Literal["run"] = "run"
    model: str
    session: str | None
    created: float
    ended: float | None
    status: Status
    result: dict[str, Any] | None
    links: Links


class RunList(BaseModel):
    """Runs, the latest first, without their results."""

    object: Literal["list"] = "list"
    data: list[RunObject]


class QuestionObject(BaseModel):
    """A question of a session."""

    number: int
    run: str
    asked: dict[str, str]
    status: Status
    outputs: Any
    started: float
    ended: float | None


class VariableObject(BaseModel):
    """A variable of a session."""

    name: str
    type: str
    size: Any
    preview: str


class SessionObject(BaseModel):
    """A session."""

    id: str
    object: Literal["session"] = "session"
    model: str
    title: str
    created: float
    updated: float
    bytes: Annotated[int, Field(description="What was sent to it, of the bytes that the token allows.")]
    busy: bool


class SessionDetails(SessionObject):
    """A session with its questions and variables."""

    questions: list[QuestionObject]
    variables: list[VariableObject]


class SessionList(BaseModel):
    """Sessions, the latest first."""

    object: Literal["list"] = "list"
    data: list[SessionObject]


class Deleted(BaseModel):
    """What was deleted."""

    id: str
    object: str
    deleted: Literal[True] = True


class TokenObject(BaseModel):
    """The token of the request, its limits, and what it uses."""

    name: str
    limits: dict[str, float]
    sessions: int
    seconds_of_day: float


class ErrorDetails(BaseModel):
    """Why a request was refused."""

    message: str
    type: str
    param: str | None = None
    code: str | None = None


class ErrorBody(BaseModel):
    """A refusal."""

    error: ErrorDetails
