"""The schema of task files: the one source of their validation, messages, JSON schema and descriptions."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Mapping
from typing import Annotated, Any, Literal, get_type_hints
from urllib.parse import urlsplit

from pydantic import (
    BaseModel,
    ConfigDict,
    Discriminator,
    Field,
    GetCoreSchemaHandler,
    Tag,
    WithJsonSchema,
    create_model,
    field_validator,
    model_validator,
)
from pydantic.json_schema import GenerateJsonSchema
from pydantic_core import CoreSchema, core_schema

from sandbox import Limits

from ..agreement.settings import MAX_RUNS
from ..budgets import FallbackTrigger
from ..mcp.settings import McpServer
from ..plans.plan import MAX_APPROACH_CHARS, Scores, Weights
from ..plans.settings import DEFAULT_COUNT, Judge, Operator
from ..reading import MapPlan, Mode
from ..units import Duration, Size


class Section(BaseModel):
    """A part of the file. Nothing is converted, and unknown keys are refused."""

    model_config = ConfigDict(
        extra="forbid", strict=True, frozen=True, protected_namespaces=(), use_attribute_docstrings=True
    )


class FromMapping:
    """Annotation of a dataclass that a mapping of the file is read into, as if it were a section.

    With `text`, a plain text in the file stands for a mapping with this one key.
    """

    def __init__(self, text: str | None = None) -> None:
        self._text = text

    def __get_pydantic_core_schema__(self, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        schema = handler(source)
        dataclass_schema: Any = handler.resolve_ref_schema(schema)
        dataclass_schema["strict"] = False  # a mapping is accepted; its fields are still strict
        if self._text is None:
            return schema
        return core_schema.no_info_before_validator_function(
            lambda value: {self._text: value} if isinstance(value, str) else value, schema
        )


def section_of(settings: type, **bounds: Any) -> type[Section]:
    """Return a section with the fields, defaults and docstrings of a dataclass. `bounds` hold for every number.

    Fields named as durations and sizes may be written as texts.
    """
    config = ConfigDict(use_attribute_docstrings=True)
    schema = create_model("Settings", __config__=config, settings=(settings, ...)).model_json_schema()
    documented = schema["$defs"][settings.__name__]["properties"]
    types = get_type_hints(settings)
    fields: dict[str, Any] = {}
    for field in dataclasses.fields(settings):
        kind = types[field.name]
        if field.name.endswith(("_seconds", "_duration")):
            kind = Duration
        elif field.name.endswith("_bytes"):
            kind = Size
        description = documented[field.name].get("description")
        fields[field.name] = (kind, Field(field.default, description=description, **bounds))
    return create_model(settings.__name__, __base__=Section, **fields)


_REFERENCE = r"^[A-Za-z_][A-Za-z0-9_.]*:[A-Za-z_][A-Za-z0-9_]*$"
Reference = Annotated[str, WithJsonSchema({"type": "string", "pattern": _REFERENCE})]


class PlanFile(Section):
    """One plan."""

    approach: str = Field(
        min_length=1, max_length=MAX_APPROACH_CHARS, description="The approach, in words. The model reads it."
    )
    name: str = Field("", description="A few words for it.")
    model: str | None = Field(
        None, description="The model that writes the code: main, sub, extraction, or a name under `plans.models`."
    )
    budget_share: float | None = Field(
        None, gt=0, le=1, description="Its share of the whole budget. Default: an even share of what is left."
    )
    tools: list[str] | None = Field(None, description="The tools of the task that it may use. Default: all.")
    temperature: float | None = Field(None, ge=0, description="The sampling temperature of the model.")
    scores: Annotated[Scores, FromMapping()] = Field(Scores(), description="What is expected of it.")


class GovernanceFile(Section):
    """Conditions for an answer. An answer that does not meet them is rejected, and the next plan is tried."""

    min_confidence: float | None = Field(None, ge=0, le=1, description="The least confidence.")
    accept_extracted: bool = Field(True, description="Whether an extracted answer may be given.")
    max_cost_usd: float | None = Field(None, ge=0, description="The most that one plan may cost.")
    max_seconds: Duration | None = Field(None, ge=0, description="How long one plan may take: seconds, or `2m`.")
    invariants: list[str] = Field(
        default_factory=list, description="Expressions over the outputs that must be true.", examples=[["total >= 0"]]
    )
    function: Reference | None = Field(
        None, description="A function `module:name` called with the outputs; it rejects with False or a reason."
    )
    judge: Annotated[Judge, FromMapping(text="question")] | None = Field(
        None, description="A question that a model answers with yes or no; or `question` and `model`."
    )


class FallbackFile(Section):
    """What happens when all plans are rejected."""

    fallback_enabled: bool = Field(True, description="Whether to do anything.")
    default_fallback_strategy: Literal[
        "log_and_alert_operator", "attempt_regeneration", "attempt_regeneration_simple"
    ] = Field("log_and_alert_operator", description="Ask an operator, or make new plans first.")
    rounds: int = Field(1, ge=0, le=10, description="How often new plans are made before an operator is asked.")


class PlansSection(Section):
    """Several plans for the task: compared, tried in order and judged, with a fallback if all are rejected."""

    count: int | None = Field(
        None,
        ge=1,
        le=20,
        description="The number of plans. A model proposes those that are not given. "
        f"Default: the number of those given, or {DEFAULT_COUNT}.",
    )
    candidates: list[PlanFile] = Field(default_factory=list, description="The plans that are given.")
    function: Reference | None = Field(
        None, description="A function `module:name` that returns plans.", examples=["kit:propose"]
    )
    planner: str | None = Field(None, description="The model that proposes plans. Default: the main model.")
    weights: Annotated[Weights, FromMapping()] = Field(Weights(), description="How plans are compared.")
    parallel: int = Field(1, ge=1, le=16, description="How many plans run at once.")
    governance: GovernanceFile = Field(
        default_factory=lambda: GovernanceFile.model_validate({}), description="What an answer must meet."
    )
    fallback: FallbackFile = Field(
        default_factory=lambda: FallbackFile.model_validate({}), description="What happens when all are rejected."
    )
    operator: Annotated[Operator, FromMapping()] = Field(
        Operator(), description="Who is notified, and how long to wait for an answer."
    )
    stronger: str | None = Field(
        None, description="A model for new plans after answers with too little confidence: a name under `models`."
    )
    logs: str | None = Field(None, description="The folder of the logs. Default: `plans` in rlm's data folder.")

    @field_validator("candidates", mode="before")
    @classmethod
    def _texts_are_plans(cls, value: Any) -> Any:
        return (
            [{"approach": item} if isinstance(item, str) else item for item in value]
            if isinstance(value, list)
            else value
        )


_VARIABLE = re.compile(r"[A-Z_][A-Z0-9_]{0,60}")


# Inputs ------------------------------------------------------------------------------------------------------------


class FileInput(Section):
    """The text of a file; or the file itself, where the signature has an input of type `File`."""

    file: str = Field(description="The file; a relative path is relative to the task file.", examples=["report.txt"])
    encoding: str = Field("utf-8", description="The encoding of its text.")


class GlobInput(Section):
    """The texts of several files; or the files themselves, where the signature has an input of type `list[File]`."""

    glob: str = Field(
        description="A pattern for the files, which are read in the order of their names.", examples=["chapters/*.txt"]
    )
    into: Literal["list", "dict"] | None = Field(
        None, alias="as", description="A list of texts or a dict by name. Default: what the signature asks for."
    )
    encoding: str = Field("utf-8", description="The encoding of their texts.")


class FolderInput(Section):
    """A folder, where the signature has an input of type `Folder`. Code reads its files in place."""

    folder: str = Field(description="The folder; a relative path is relative to the task file.", examples=["filings"])


class StdinInput(Section):
    """Standard input: text, or JSON where the signature asks for another type."""

    stdin: Literal[True] = Field(description="Read this input from standard input.")


class JsonInput(Section):
    """A value from a JSON file."""

    path: str = Field(alias="json", description="The JSON file.", examples=["rows.json"])


class ValueInput(Section):
    """A plain value: for a mapping that would otherwise be read as a source."""

    value: Any = Field(description="The value.")


class McpInput(Section):
    """A resource of an MCP server."""

    mcp: str = Field(description="The name of a server under `mcp:`.", examples=["notes"])
    uri: str = Field(description="The address of the resource at that server.", examples=["note://today"])


SOURCES = ("file", "glob", "folder", "stdin", "json", "value", "mcp")
"""A mapping with one of these keys names the source of an input; any other mapping is the input itself."""


def _input_kind(value: Any) -> str:
    if isinstance(value, BaseModel):
        return f"<{type(value).__name__.removesuffix('Input').lower()}>"
    named = [name for name in SOURCES if name in value] if isinstance(value, Mapping) else []
    if named == ["mcp"] and "uri" not in value:
        return "<plain>"
    return f"<{named[0]}>" if named else "<plain>"


InputEntry = Annotated[
    Annotated[FileInput, Tag("<file>")]
    | Annotated[GlobInput, Tag("<glob>")]
    | Annotated[FolderInput, Tag("<folder>")]
    | Annotated[StdinInput, Tag("<stdin>")]
    | Annotated[JsonInput, Tag("<json>")]
    | Annotated[ValueInput, Tag("<value>")]
    | Annotated[McpInput, Tag("<mcp>")]
    | Annotated[Any, Tag("<plain>")],
    Discriminator(_input_kind),
]

# Models ------------------------------------------------------------------------------------------------------------


class PriceFile(Section):
    """The price of a model, in US dollars for a million tokens."""

    input: float = Field(ge=0, description="A million tokens that it reads.", examples=[0.25])
    output: float = Field(ge=0, description="A million tokens that it writes.", examples=[2.0])


class ModelFile(Section):
    """A model and its settings."""

    model: str | None = Field(
        None,
        description="A name for `dspy.LM`; a local model: `local/NAME`, or the path of its file or folder; or a "
        "program: `cli/claude`, `cli/codex`, `cli/gemini`, `cli/llm`; or with its model: `cli/llm/NAME`.",
        examples=["openai/gpt-5-mini", "local/embedded", "./models/model.gguf", "cli/claude"],
    )
    command: list[str] | None = Field(
        None,
        min_length=1,
        description="A program and its arguments, instead of a model: it reads the prompt (its standard input, or "
        "`{prompt}` among the arguments) and prints the answer. `{system}` is the system prompt.",
        examples=[["ask-model", "--json"]],
    )
    reply: str | None = Field(
        None,
        description="Where the answer is in the JSON that `command` prints. Default: it prints the answer alone.",
        examples=["choices.0.text"],
    )
    env: list[str] | None = Field(
        None, description="Variables of the environment that the program gets, beside PATH, HOME and the like."
    )
    scripted: str | None = Field(
        None, description="A YAML file of replies written in advance, instead of a model.", examples=["replies.yaml"]
    )
    temperature: float | None = Field(None, ge=0, description="The sampling temperature.")
    top_p: float | None = Field(
        None, gt=0, le=1, description="Nucleus sampling: the probability mass of the tokens to sample from."
    )
    max_tokens: int | None = Field(None, ge=1, description="The longest reply, in tokens.")
    reasoning_effort: str | None = Field(None, description="The effort of reasoning models.", examples=["low"])
    seed: int | None = Field(None, description="For providers that can repeat a reply.")
    api_base: str | None = Field(None, description="The endpoint.", examples=["http://localhost:8000/v1"])
    api_version: str | None = Field(None, description="For providers that ask for one.")
    api_key_env: str | None = Field(
        None,
        description="The environment variable that holds the key. The key itself never belongs in the file.",
        examples=["OPENAI_API_KEY"],
    )
    model_type: Literal["chat", "text", "responses"] | None = Field(None, description="The kind of API.")
    timeout: Duration | None = Field(None, description="How long to wait for a reply: seconds, or `2m`.")
    num_retries: int | None = Field(None, ge=0, description="How often to retry after a transport error.")
    requests_per_minute: float | None = Field(
        None, gt=0, description="The most requests a minute, by all processes on this machine together."
    )
    tokens_per_minute: float | None = Field(
        None, gt=0, description="The most tokens a minute, read and written by all processes on this machine together."
    )
    price: PriceFile | None = Field(
        None, description="Its price, if dspy's price list does not have it: `max_cost_usd` counts known prices only."
    )
    cache: bool | None = Field(
        None, description="Whether responses in dspy's cache on disk may be used. Default: they are not."
    )
    backend: Literal["auto", "mlx", "llamacpp", "transformers"] | None = Field(
        None, description="The backend of a local model; `auto` is the one that `rlm models list` shows."
    )
    context: int | None = Field(None, ge=256, description="The context length of a local model, in tokens.")
    threads: int | None = Field(
        None, ge=1, description="Threads of a local model on llama.cpp. Default: half the processors."
    )
    parallel: int | None = Field(
        None, ge=1, description="Requests that a local model on llama.cpp answers at once. Default: 1."
    )
    options: dict[str, Any] = Field(default_factory=dict, description="Anything else that `dspy.LM` takes.")

    @field_validator("api_key_env")
    @classmethod
    def _is_a_name(cls, value: str | None) -> str | None:
        if value is not None and not _VARIABLE.fullmatch(value):
            raise ValueError(
                "this is the name of an environment variable, such as OPENAI_API_KEY, never the key itself"
            )
        return value

    @field_validator("env")
    @classmethod
    def _are_names(cls, value: list[str] | None) -> list[str] | None:
        if odd := [name for name in value or () if not _VARIABLE.fullmatch(name)]:
            raise ValueError(f"{odd[0]!r} is no name of an environment variable; values never belong in the file")
        return value

    @field_validator("api_base")
    @classmethod
    def _has_no_password(cls, value: str | None) -> str | None:
        try:
            parts = urlsplit(value or "")
        except ValueError:
            raise ValueError("this is not a URL") from None
        if "@" in parts.netloc:
            raise ValueError("a URL with a user and password is refused; name the key with api_key_env")
        if parts.query:
            raise ValueError("a URL with a '?' is refused, as it may contain a key; name the key with api_key_env")
        if value is not None and parts.scheme not in ("http", "https"):
            raise ValueError("an endpoint begins with http:// or https://")
        return value

    @field_validator("options")
    @classmethod
    def _is_anything_else(cls, value: dict[str, Any]) -> dict[str, Any]:
        if known := sorted(value.keys() & (cls.model_fields.keys() - {"options"})):
            raise ValueError(f"{known[0]} is a key of its own: write it beside `options`, not in it")
        return value

    @model_validator(mode="after")
    def _is_one_thing(self) -> ModelFile:
        if sum(source is not None for source in (self.model, self.scripted, self.command)) != 1:
            raise ValueError(
                "give either model (such as openai/gpt-5-mini), scripted (a file of replies) or command (a program)"
            )
        if self.reply is not None and self.command is None:
            raise ValueError(
                "`reply` is for `command`: it says where the answer is in the JSON that the program prints"
            )
        return self


def _text_or_mapping(value: Any) -> str:
    return "<text>" if isinstance(value, str) else "<mapping>"


ModelEntry = Annotated[
    Annotated[str, Tag("<text>")] | Annotated[ModelFile, Tag("<mapping>")], Discriminator(_text_or_mapping)
]


class ModelsFile(Section):
    """The models by role. Default: the main model."""

    main: ModelEntry | None = Field(
        None, description="The model that writes the code.", examples=["openai/gpt-5-mini", "local/embedded"]
    )
    sub: ModelEntry | None = Field(None, description="The model that answers `llm_query` from inside the code.")
    extraction: ModelEntry | None = Field(
        None, description="The model that extracts the outputs of a run that did not submit."
    )
    scripted: str | None = Field(
        None, description="A YAML file of replies, instead of models.", examples=["replies.yaml"]
    )


# Adapter -----------------------------------------------------------------------------------------------------------

AdapterName = Literal["chat", "json", "outlines", "two-step"]


class AdapterFile(Section):
    """An adapter, and the model of its second step."""

    name: AdapterName = Field(description="The adapter.", examples=["two-step"])
    model: ModelEntry | None = Field(
        None,
        description="The model of the second step of `two-step`. Default: the extraction model.",
        examples=["openai/gpt-5-nano"],
    )

    @model_validator(mode="after")
    def _has_two_steps(self) -> AdapterFile:
        if self.model is not None and self.name != "two-step":
            raise ValueError(f"only two-step has a second model; leave `model` out for {self.name}")
        return self


# Budget and sandbox ------------------------------------------------------------------------------------------------


class BudgetFile(section_of(FallbackTrigger, ge=0)):  # type: ignore[misc]
    """The limits of a run. When one is reached, the outputs are extracted from the history and the variables."""

    preset: Literal["strict", "lenient"] | None = Field(
        None,
        description="Start from `strict` (small tasks) or `lenient` (long ones) and change what is beside it.",
    )


class SandboxFile(section_of(Limits, gt=0)):  # type: ignore[misc]
    """The limits of the code. Sizes are bytes or texts: 1MB is 1,000,000 bytes, 1MiB is 1,048,576."""

    isolation: Literal["auto", "namespaces", "landlock", "seatbelt", "none"] = Field(
        "auto", description="The boundary. `auto` is the strongest that works here; `none` runs code unconfined."
    )
    policy: Literal["off", "warn", "enforce"] = Field("enforce", description="What to do with code that it refuses.")
    packages: str | None = Field(
        None,
        description="A requirements or lock file, whose packages the code can import. They are installed once, from "
        "wheels, into an environment of their own.",
        examples=["requirements.txt"],
    )


# Plans -------------------------------------------------------------------------------------------------------------


class PlansFile(PlansSection):
    """Several plans for the task: compared, tried in order and judged, with a fallback if all are rejected."""

    models: dict[str, ModelEntry] = Field(
        default_factory=dict, description="Models that plans may name, besides main, sub and extraction."
    )


# Agreement ---------------------------------------------------------------------------------------------------------


class AgreeFile(Section):
    """Independent runs, whose answers are compared."""

    runs: int = Field(3, ge=2, le=MAX_RUNS, description="The most runs; fewer where the first ones decide.")
    reconcile: bool = Field(
        False, description="Whether a further run sees the programs whose answers differ, and decides."
    )


# The file ----------------------------------------------------------------------------------------------------------


class AcceptFile(Section):
    """The condition for accepting answers."""

    error: float = Field(
        gt=0, lt=1, description="The largest share of wrong answers among accepted ones.", examples=[0.1]
    )


class ConfidenceFile(Section):
    """The confidence of answers."""

    calibrator: str = Field(
        description="A file that `rlm eval calibrate` wrote, relative to the task file; `default` is the calibrator of "
        "the package.",
        examples=["calibrator.json"],
    )
    accept_at: AcceptFile | None = Field(
        None, description="Answers below the threshold for this error are not accepted: the run fails."
    )


class TaskFile(Section):
    """A task for `rlm run`: inputs, outputs, models and limits."""

    signature: str = Field(
        description="Inputs and outputs with their types; or `module:Class`, a dspy.Signature beside this file.",
        examples=["doc: str -> answer: int", "tasks:Summarize"],
    )
    instructions: str | None = Field(None, description="The instructions for the model.")
    learned: str | None = Field(
        None,
        description="A file that `rlm optimize` wrote: better instructions, and examples. Relative to the task file.",
        examples=["task.learned.json"],
    )
    inputs: dict[str, InputEntry] = Field(
        default_factory=dict,
        description="A value for each input, or its source: file, glob, folder, stdin, json, or a resource of an MCP "
        "server.",
    )
    models: Annotated[
        Annotated[str, Tag("<text>")] | Annotated[ModelsFile, Tag("<mapping>")], Discriminator(_text_or_mapping)
    ] = Field(
        default_factory=lambda: ModelsFile.model_validate({}),
        description="The model; or one each for main, sub and extraction.",
    )
    adapter: Annotated[
        Annotated[AdapterName | None, Tag("<text>")] | Annotated[AdapterFile, Tag("<mapping>")],
        Discriminator(lambda value: "<mapping>" if isinstance(value, dict | AdapterFile) else "<text>"),
    ] = Field(
        None,
        description="The adapter of steps, typed queries (`llm_query(..., type=...)`) and the extraction: chat, "
        "json, outlines or two-step.",
        examples=["outlines"],
    )
    budget: BudgetFile = Field(
        default_factory=lambda: BudgetFile.model_validate({}), description="The limits of the run."
    )
    sandbox: SandboxFile = Field(
        default_factory=lambda: SandboxFile.model_validate({}), description="The limits of the code."
    )
    save: dict[str, str] = Field(
        default_factory=dict,
        description="Where to copy files that the code wrote, by output: a path, or a folder with a slash at its end. "
        "A file that is there already is not touched: the copy gets a number.",
        examples=[{"report": "reports/2026.pdf"}],
    )
    overwrite: bool = Field(False, description="Whether `save` may write over files that are there already.")
    tools: list[Reference] = Field(
        default_factory=list,
        description="Functions that the code may call: `module:function`.",
        examples=[["kit:look_up"]],
    )
    mcp: dict[str, Annotated[McpServer, FromMapping()]] = Field(
        default_factory=dict,
        description="MCP servers by name, whose tools the code may call: a `command` or a `url`, and what of it may be "
        "used. See docs/mcp.md.",
        examples=[{"time": {"command": "mcp-server-time"}}],
    )
    checks: list[str] = Field(
        default_factory=list,
        description="Python expressions over the outputs that must be true of an answer.",
        examples=[["answer >= 0"]],
    )
    cite: list[str] = Field(
        default_factory=list,
        description="Outputs that are submitted with quotes from the inputs, which are looked up there. See "
        "docs/evidence.md.",
        examples=[["answer"]],
    )
    verify: bool = Field(
        False,
        description="Whether the model writes a second, different program that checks what it submitted. See "
        "docs/evidence.md.",
    )
    confidence: (
        Annotated[
            Annotated[str, Tag("<text>")] | Annotated[ConfidenceFile, Tag("<mapping>")],
            Discriminator(_text_or_mapping),
        ]
        | None
    ) = Field(
        None,
        description="A calibrator of answers: `default`, or a file; or a mapping that also says which to accept. See "
        "docs/confidence.md.",
        examples=["default"],
    )
    mode: Mode | None = Field(
        None,
        description="Who writes the first cell: `repl` the main model (the default), `direct` and `map` the engine; "
        "`auto` decides. See docs/reading.md.",
    )
    map: Annotated[MapPlan, FromMapping()] | None = Field(
        None, description="The plan of a map: without it, the main model is asked for one. Implies `mode: map`."
    )
    plans: PlansFile | None = Field(
        None, description="Several plans for the task: compared, tried in order and judged. See docs/plans.md."
    )
    agree: Annotated[
        Annotated[Annotated[int, Field(ge=1, le=MAX_RUNS)], Tag("<number>")] | Annotated[AgreeFile, Tag("<mapping>")],
        Discriminator(lambda value: "<mapping>" if isinstance(value, dict | AgreeFile) else "<number>"),
    ] = Field(
        1,
        description="Independent runs, at most this many, whose answers are compared; or a mapping. See "
        "docs/evidence.md.",
        examples=[3],
    )
    depth: int = Field(1, ge=0, le=10, description="The depth of child runs that `rlm_query` may start; 0 allows none.")


Script = Annotated[
    Annotated[list[str], Tag("<list>")] | Annotated[dict[str, str], Tag("<mapping>")],
    Discriminator(lambda value: "<mapping>" if isinstance(value, dict) else "<list>"),
]
"""Replies in order, or by a part of the prompt (`*` is any other)."""


class ScriptFile(Section):
    """The replies of a scripted model, by role."""

    main: Script = Field(
        default_factory=list, description="Replies of the main model: reasoning, then code in a fence."
    )
    sub: Script = Field(default_factory=list, description="Answers to `llm_query`.")
    extraction: Script = Field(default_factory=list, description="Replies to the extraction prompt.")


class _EditorSchema(GenerateJsonSchema):
    """A JSON schema with `anyOf` for tagged unions: a plain value may look like one of the others."""

    def tagged_union_schema(self, schema: Any) -> dict[str, Any]:
        union = super().tagged_union_schema(schema)
        union["anyOf"] = union.pop("oneOf")
        return union

    def field_title_should_be_set(self, schema: Any) -> bool:
        return False


def json_schema(model: type[BaseModel] = TaskFile) -> dict[str, Any]:
    """Return the JSON schema of a task file, for editors."""
    schema = model.model_json_schema(schema_generator=_EditorSchema)
    title = "rlm task" if model is TaskFile else model.__name__
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", **schema, "title": title}
