"""The models of a task and their options. Nothing here imports dspy."""

from __future__ import annotations

import os
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..models.profile import NO_KEY, Price
from ..redaction import protect
from .errors import TaskProblem
from .schema import AdapterFile, AdapterName, ModelEntry, ModelFile, ModelsFile
from .yaml_document import Document

if TYPE_CHECKING:
    from ..models.command.programs import CommandSpec
    from ..models.rate_limit.bucket import Limit

SCRIPTED = "scripted"
ROLES = ("main", "sub", "extraction")
_OURS = {
    *("model", "scripted", "command", "reply", "env", "api_key_env", "options"),
    *("requests_per_minute", "tokens_per_minute", "price"),
}


@dataclass(frozen=True, slots=True)
class ModelSpec:
    """One model: its name and options for `dspy.LM`, or weights that run here, a command, or a file of replies."""

    model: str
    options: dict[str, Any] = field(default_factory=dict)
    """Keyword arguments for `dspy.LM` or `OutlinesLM`, without the key."""

    scripted: Path | None = None
    api_key_env: str | None = None
    """The environment variable that holds the key."""

    local: bool = False
    """Whether it runs on this machine."""

    weights: Path | None = None
    """The file or folder of a local model; None for the embedded one."""

    command: CommandSpec | None = None
    """The program that is asked, for a model that is one."""

    limit: Limit | None = None
    """The rate limit of its server."""

    price: Price | None = None
    """Its price, where the task file has it."""

    def lm_options(self) -> dict[str, Any]:
        """Return keyword arguments for `dspy.LM`, with the key if a variable is named. Never write them anywhere."""
        if self.api_key_env is not None:
            key = os.environ.get(self.api_key_env)
            protect(key)  # the variable's name need not say that it is a secret
            return {**self.options, "api_key": key}
        own_endpoint = "api_base" in self.options and self.model.startswith("openai/")
        if own_endpoint and not os.environ.get("OPENAI_API_KEY"):
            return {**self.options, "api_key": NO_KEY}
        return dict(self.options)

    def __str__(self) -> str:
        return f"scripted ({self.scripted.name})" if self.scripted is not None else self.model


@dataclass(frozen=True, slots=True)
class Models:
    """The models that write the code, answer `llm_query`, and extract."""

    main: ModelSpec
    sub: ModelSpec
    extraction: ModelSpec

    @property
    def scripted(self) -> Path | None:
        """Return the file of replies of the first scripted model, if there is one."""
        return self.main.scripted or self.sub.scripted or self.extraction.scripted


def choose(section: str | ModelsFile, given: Mapping[str, str], folder: Path) -> Models | None:
    """Return the models of the file, replaced by those of the command line; None if there is no main model.

    `given` has models by role, and as `api_base` the endpoint of the main model.
    """
    if isinstance(section, str):
        section = ModelsFile.model_validate({"main": section})
    script = ModelFile.model_validate({"scripted": section.scripted}) if section.scripted is not None else None
    main = given.get("main") or section.main or script
    if main is None:
        return None
    if (endpoint := given.get("api_base")) is not None:
        entry = {"model": main} if isinstance(main, str) else main.model_dump(exclude_unset=True)
        if "scripted" not in entry:
            main = ModelFile.model_validate({**entry, "api_base": endpoint})
    sub, extraction = (given.get(role) or getattr(section, role) or main for role in ROLES[1:])
    return Models(spec_of(main, folder), spec_of(sub, folder), spec_of(extraction, folder))


def spec_of(entry: ModelEntry, folder: Path) -> ModelSpec:
    """Return the model that an entry of the file names."""
    if isinstance(entry, str):
        entry = ModelFile.model_validate({"model": entry})
    if entry.scripted is not None:
        return ModelSpec(SCRIPTED, scripted=folder / entry.scripted)
    from ..models.command.programs import CommandSpec, name_of
    from ..models.rate_limit.bucket import Limit

    options = entry.model_dump(exclude_none=True, exclude=_OURS)
    command = _command_of(entry)
    model = entry.model or name_of(command or CommandSpec(("",)))
    local = command is None and is_local(model)
    limit = Limit(entry.requests_per_minute, entry.tokens_per_minute)
    return ModelSpec(
        model,
        {**options, **entry.options},
        api_key_env=entry.api_key_env,
        local=local,
        weights=weights_of(model, folder) if local else None,
        command=command,
        limit=limit if limit != Limit() else None,
        price=None if entry.price is None else Price(entry.price.input, entry.price.output),
    )


def _command_of(entry: ModelFile) -> CommandSpec | None:
    """Return the program that an entry names; that of an unknown name has no argument."""
    from ..models.command.programs import PREFIX, CommandSpec, UnknownProgram, program_spec

    if entry.command is not None:
        return CommandSpec(tuple(entry.command), entry.reply or "text", env=tuple(entry.env or ()))
    if entry.model is None or not entry.model.startswith(PREFIX):
        return None
    try:
        spec = program_spec(entry.model)
    except UnknownProgram:
        return CommandSpec((entry.model,))  # `problem_of` reports it
    return replace(spec, env=(*spec.env, *(entry.env or ())))


@dataclass(frozen=True, slots=True)
class AdapterSpec:
    """An adapter, and for `two-step` the model of the second step. Default: the extraction model."""

    name: AdapterName
    model: ModelSpec | None = None


def read_adapter(
    section: AdapterName | AdapterFile | None, document: Document, folder: Path
) -> tuple[AdapterSpec | None, list[TaskProblem]]:
    """Return the adapter that the file names, and the problems of its model."""
    if section is None or isinstance(section, str):
        return (None if section is None else AdapterSpec(section)), []
    if section.model is None:
        return AdapterSpec(section.name), []
    spec = spec_of(section.model, folder)
    problem = problem_of(spec, folder) if spec.local else None
    place = document.value_place(("adapter", "model"))
    return AdapterSpec(section.name, spec), [document.problem(f"adapter.model: {problem}", place)] if problem else []


_PREFIX = "local/"
_PATHS = ("./", "../", "/", "~/")
_ONLY_LOCAL = frozenset({"backend", "context", "parallel", "threads"})
_ONLY_REMOTE = frozenset(
    {"api_base", "api_version", "api_key_env", "reasoning_effort", "model_type", "timeout", "num_retries"}
)
_OF_COMMANDS = frozenset({"timeout", "num_retries", "cache"})


def is_local(model: str) -> bool:
    """Return whether a name is that of a local model."""
    return model.startswith((_PREFIX, *_PATHS)) or model.endswith(".gguf")


def weights_of(model: str, folder: Path) -> Path | None:
    """Return the file or folder of a local model; None for the embedded one and for an unknown name."""
    if not model.startswith(_PREFIX):
        return folder / Path(model).expanduser()
    from ..models.local.library import EMBEDDED, LibraryError, locate

    name = model.removeprefix(_PREFIX)
    try:
        return None if name == EMBEDDED else locate(name)
    except LibraryError:
        return None


def local_problems(models: Models, document: Document, folder: Path, given: Collection[str]) -> list[TaskProblem]:
    """Return the problems of the models of a task that run here, or are commands.

    `given` are the roles that the command line has set.

    A missing embedded model is a problem of the machine and not of the file: it is not reported here.
    """
    problems: list[TaskProblem] = []
    for role in ("main", "sub", "extraction"):
        spec: ModelSpec = getattr(models, role)
        own = ("models", role)
        named = role in given or document.has(own) or role == "main"
        if spec.scripted is not None or not named:
            continue
        for option, why in _misplaced(spec).items():
            place = document.key_place((*own, option))
            problems.append(document.problem(f"models.{role}.{option} {why}", place))
        problem = problem_of(spec, folder) if spec.local or spec.command is not None else None
        if problem is not None and role in given:
            problems.append(TaskProblem(f"the {role} model of the command line", problem))
        elif problem is not None:
            path = next(path for path in ((*own, "model"), own, ("models",)) if document.has(path))
            problems.append(document.problem(f"{'.'.join(path)}: {problem}", document.value_place(path)))
    return problems


def problem_of(spec: ModelSpec, folder: Path) -> str | None:
    """Return why a local model or a command cannot be used: an unknown name, a missing file, not a model; else None."""
    if spec.command is not None:
        return _command_problem(spec)
    from ..models.local.gguf import WeightsError
    from ..models.local.library import EMBEDDED, LibraryError, examine, locate

    name = spec.model.removeprefix(_PREFIX)
    try:
        if name == EMBEDDED and spec.model != name:
            return None
        examine(locate(name) if spec.model != name else folder / Path(name).expanduser())
    except (LibraryError, WeightsError) as error:
        return str(error)
    return None


def _command_problem(spec: ModelSpec) -> str | None:
    from ..models.command.programs import PREFIX, UnknownProgram, program_spec

    try:
        if spec.model.startswith(PREFIX):
            program_spec(spec.model)
    except UnknownProgram as error:
        return str(error)
    return None


def _misplaced(spec: ModelSpec) -> dict[str, str]:
    """Return the options that a model of this kind does not have, each with the reason."""
    options = {*spec.options, *(["api_key_env"] if spec.api_key_env is not None else [])}
    if spec.local:
        return dict.fromkeys(
            sorted(options & _ONLY_REMOTE), f"has no effect on {spec.model}, which runs on this machine"
        )
    if spec.command is not None:
        return dict.fromkeys(sorted(options - _OF_COMMANDS), f"has no effect on {spec.model}, which is a command")
    hint = "is for models that run on this machine, such as local/embedded"
    return dict.fromkeys(sorted(options & _ONLY_LOCAL), hint)
