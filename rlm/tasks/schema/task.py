"""What a task file may say: the one source for its validation, its messages, its JSON schema and its descriptions."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Annotated, Any, Literal
from urllib.parse import urlsplit

from pydantic import BaseModel, Discriminator, Field, Tag, WithJsonSchema, field_validator, model_validator
from pydantic.json_schema import GenerateJsonSchema

from sandbox import Limits

from ...budgets import FallbackTrigger
from ...units import Duration
from ..confidence import ConfidenceFile
from .plans import PlansSection
from .section import Section, section_of

_REFERENCE = r"^[A-Za-z_][A-Za-z0-9_.]*:[A-Za-z_][A-Za-z0-9_]*$"
_VARIABLE = re.compile(r"[A-Z_][A-Z0-9_]{0,60}")


# Inputs ------------------------------------------------------------------------------------------------------------


class FileInput(Section):
    """The text of a file."""

    file: str = Field(description="The file; a relative path is relative to the task file.", examples=["report.txt"])
    encoding: str = Field("utf-8", description="How its text is encoded.")


class GlobInput(Section):
    """The texts of several files."""

    glob: str = Field(description="Which files, in the order of their names.", examples=["chapters/*.txt"])
    into: Literal["list", "dict"] | None = Field(
        None, alias="as", description="A list of texts or a dict by name; what the signature asks for, unless told."
    )
    encoding: str = Field("utf-8", description="How their texts are encoded.")


class StdinInput(Section):
    """What is piped in: text, or JSON where the signature asks for something else."""

    stdin: Literal[True] = Field(description="Read this input from standard input.")


class JsonInput(Section):
    """A value from a JSON file."""

    path: str = Field(alias="json", description="The JSON file.", examples=["rows.json"])


class ValueInput(Section):
    """A value as it is: for a mapping that would otherwise be read as one of the others."""

    value: Any = Field(description="The value.")


SOURCES = ("file", "glob", "stdin", "json", "value")
"""A mapping with one of these keys says where an input comes from; any other mapping is the input."""


def _input_kind(value: Any) -> str:
    if isinstance(value, BaseModel):
        return f"<{type(value).__name__.removesuffix('Input').lower()}>"
    named = [name for name in SOURCES if name in value] if isinstance(value, Mapping) else []
    return f"<{named[0]}>" if named else "<plain>"


InputEntry = Annotated[
    Annotated[FileInput, Tag("<file>")]
    | Annotated[GlobInput, Tag("<glob>")]
    | Annotated[StdinInput, Tag("<stdin>")]
    | Annotated[JsonInput, Tag("<json>")]
    | Annotated[ValueInput, Tag("<value>")]
    | Annotated[Any, Tag("<plain>")],
    Discriminator(_input_kind),
]

# Models ------------------------------------------------------------------------------------------------------------


class ModelFile(Section):
    """A model, and how to ask it."""

    model: str | None = Field(
        None,
        description="What `dspy.LM` calls it; or one that runs here: `local/NAME`, or the path of its file or folder.",
        examples=["openai/gpt-5-mini", "local/embedded", "./models/model.gguf"],
    )
    scripted: str | None = Field(
        None, description="No model at all: a YAML file of replies written in advance.", examples=["replies.yaml"]
    )
    temperature: float | None = Field(None, ge=0, description="How far to stray from the likeliest words.")
    top_p: float | None = Field(None, gt=0, le=1, description="Only the likeliest words that add up to this.")
    max_tokens: int | None = Field(None, ge=1, description="The longest reply, in tokens.")
    reasoning_effort: str | None = Field(None, description="For models that think first.", examples=["low"])
    seed: int | None = Field(None, description="For providers that can repeat a reply.")
    api_base: str | None = Field(None, description="The endpoint.", examples=["http://localhost:8000/v1"])
    api_version: str | None = Field(None, description="For providers that ask for one.")
    api_key_env: str | None = Field(
        None,
        description="The environment variable that holds the key. The key itself never stands in the file.",
        examples=["OPENAI_API_KEY"],
    )
    model_type: Literal["chat", "text", "responses"] | None = Field(None, description="Which kind of API.")
    timeout: Duration | None = Field(None, description="How long to wait for a reply: seconds, or `2m`.")
    num_retries: int | None = Field(None, ge=0, description="How often to try again after a transport error.")
    requests_per_minute: float | None = Field(
        None, gt=0, description="How often it is asked at most, by all that runs on this machine together."
    )
    tokens_per_minute: float | None = Field(
        None, gt=0, description="How many tokens it reads and writes at most, in all that runs on this machine."
    )
    cache: bool | None = Field(None, description="Whether a reply that dspy has on disk already may be used.")
    backend: Literal["auto", "mlx", "llamacpp", "transformers"] | None = Field(
        None, description="What runs a local model; `auto` is what `rlm models list` names."
    )
    context: int | None = Field(None, ge=256, description="How much a local model reads at most, in tokens.")
    threads: int | None = Field(
        None, ge=1, description="How many threads compute for a local model on llama.cpp; half the processors without."
    )
    parallel: int | None = Field(
        None, ge=1, description="How many questions a local model on llama.cpp answers at once; one without."
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
            raise ValueError("a URL with a '?' is refused, for keys stand there; name the key with api_key_env")
        if value is not None and parts.scheme not in ("http", "https"):
            raise ValueError("an endpoint begins with http:// or https://")
        return value

    @field_validator("options")
    @classmethod
    def _is_anything_else(cls, value: dict[str, Any]) -> dict[str, Any]:
        if known := sorted(value.keys() & (cls.model_fields.keys() - {"options"})):
            raise ValueError(f"{known[0]} has a place of its own: write it beside `options`, not in it")
        return value

    @model_validator(mode="after")
    def _is_one_thing(self) -> ModelFile:
        if (self.model is None) == (self.scripted is None):
            raise ValueError("give either model (such as openai/gpt-5-mini) or scripted (a file of replies)")
        return self


def _text_or_mapping(value: Any) -> str:
    return "<text>" if isinstance(value, str) else "<mapping>"


ModelEntry = Annotated[
    Annotated[str, Tag("<text>")] | Annotated[ModelFile, Tag("<mapping>")], Discriminator(_text_or_mapping)
]


class ModelsFile(Section):
    """Which model does what. Those that are not named are the main one."""

    main: ModelEntry | None = Field(
        None, description="Writes the code.", examples=["openai/gpt-5-mini", "local/embedded"]
    )
    sub: ModelEntry | None = Field(None, description="Answers `llm_query` from inside the code.")
    extraction: ModelEntry | None = Field(None, description="Extracts the outputs when a run did not submit.")
    scripted: str | None = Field(
        None, description="No model at all: replies from this YAML file.", examples=["replies.yaml"]
    )


# Adapter -----------------------------------------------------------------------------------------------------------

AdapterName = Literal["chat", "json", "outlines", "two-step"]


class AdapterFile(Section):
    """An adapter, and the model of its second step."""

    name: AdapterName = Field(description="The adapter.", examples=["two-step"])
    model: ModelEntry | None = Field(
        None,
        description="Makes typed values of the words, for `two-step`; the extraction model unless told.",
        examples=["openai/gpt-5-nano"],
    )

    @model_validator(mode="after")
    def _has_two_steps(self) -> AdapterFile:
        if self.model is not None and self.name != "two-step":
            raise ValueError(f"only two-step has a model of its own; leave `model` out for {self.name}")
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


# Plans -------------------------------------------------------------------------------------------------------------


class PlansFile(PlansSection):
    """Several ways to do the task: compared, tried in order, judged; and what happens when all are rejected."""

    models: dict[str, ModelEntry] = Field(
        default_factory=dict, description="Models that plans may name, beside main, sub and extraction."
    )


# The file ----------------------------------------------------------------------------------------------------------


class TaskFile(Section):
    """A task for `rlm run`: what goes in, what must come out, and what it may cost."""

    signature: str = Field(
        description="Inputs and outputs with their types; or `module:Class`, a dspy.Signature beside this file.",
        examples=["doc: str -> answer: int", "tasks:Summarize"],
    )
    instructions: str | None = Field(None, description="What is to be done, in words.")
    inputs: dict[str, InputEntry] = Field(
        default_factory=dict,
        description="A value for each input, or where it comes from: file, glob, stdin or json.",
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
        description="What steps, typed questions (`llm_query(..., type=...)`) and the extraction go through: chat, "
        "json, outlines or two-step.",
        examples=["outlines"],
    )
    budget: BudgetFile = Field(
        default_factory=lambda: BudgetFile.model_validate({}), description="The limits of the run."
    )
    sandbox: SandboxFile = Field(
        default_factory=lambda: SandboxFile.model_validate({}), description="The limits of the code."
    )
    tools: list[Annotated[str, WithJsonSchema({"type": "string", "pattern": _REFERENCE})]] = Field(
        default_factory=list,
        description="Functions that the code may call: `module:function`.",
        examples=[["kit:look_up"]],
    )
    checks: list[str] = Field(
        default_factory=list,
        description="Python expressions over the outputs that must be true of an answer.",
        examples=[["answer >= 0"]],
    )
    confidence: ConfidenceFile | None = Field(
        None, description="A calibrator for answers that are extracted, and which to accept. See docs/confidence.md."
    )
    plans: PlansFile | None = Field(
        None, description="Several ways to do the task: compared, tried in order and judged. See docs/plans.md."
    )
    depth: int = Field(1, ge=0, le=10, description="How deep `rlm_query` may start child runs; 0 is not at all.")


Script = Annotated[
    Annotated[list[str], Tag("<list>")] | Annotated[dict[str, str], Tag("<mapping>")],
    Discriminator(lambda value: "<mapping>" if isinstance(value, dict) else "<list>"),
]
"""Replies in order, or by a part of the prompt (`*` is any other)."""


class ScriptFile(Section):
    """The replies of a scripted model."""

    main: Script = Field(default_factory=list, description="What it writes: a thought, then code in a fence.")
    sub: Script = Field(default_factory=list, description="Its answers to `llm_query`.")
    extraction: Script = Field(default_factory=list, description="Its replies to the extraction prompt.")


class _EditorSchema(GenerateJsonSchema):
    """`anyOf` where an entry can be written in several ways: a plain value may look like one of the others."""

    def tagged_union_schema(self, schema: Any) -> dict[str, Any]:
        made = super().tagged_union_schema(schema)
        made["anyOf"] = made.pop("oneOf")
        return made

    def field_title_should_be_set(self, schema: Any) -> bool:
        return False


def json_schema(model: type[BaseModel] = TaskFile) -> dict[str, Any]:
    """The JSON schema of a task file, for editors."""
    made = model.model_json_schema(schema_generator=_EditorSchema)
    title = "rlm task" if model is TaskFile else model.__name__
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", **made, "title": title}
