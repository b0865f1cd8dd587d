"""The models of a task and their options. Nothing here imports dspy."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ..models.rate_limit.bucket import Limit
from ..redaction import protect
from .local_models import is_local, weights_of
from .schema.task import ModelEntry, ModelFile, ModelsFile

SCRIPTED = "scripted"
ROLES = ("main", "sub", "extraction")
_NO_KEY = "no-key-is-needed"  # self-hosted servers often need none; their clients insist on one
_OURS = {"model", "scripted", "api_key_env", "options", "requests_per_minute", "tokens_per_minute"}


@dataclass(frozen=True, slots=True)
class ModelSpec:
    """One model: its name and options for `dspy.LM`, or weights that run here, or a file of replies."""

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

    limit: Limit | None = None
    """The rate limit of its server."""

    def lm_options(self) -> dict[str, Any]:
        """Return keyword arguments for `dspy.LM`, with the key if a variable is named. Never write them anywhere."""
        if self.api_key_env is not None:
            key = os.environ.get(self.api_key_env)
            protect(key)  # the variable's name need not say that it is a secret
            return {**self.options, "api_key": key}
        own_endpoint = "api_base" in self.options and self.model.startswith("openai/")
        if own_endpoint and not os.environ.get("OPENAI_API_KEY"):
            return {**self.options, "api_key": _NO_KEY}
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
    """Return the models of the file, replaced by those of the command line; None if there is no main model."""
    if isinstance(section, str):
        section = ModelsFile.model_validate({"main": section})
    script = ModelFile.model_validate({"scripted": section.scripted}) if section.scripted is not None else None
    main = given.get("main") or section.main or script
    if main is None:
        return None
    sub, extraction = (given.get(role) or getattr(section, role) or main for role in ROLES[1:])
    return Models(spec_of(main, folder), spec_of(sub, folder), spec_of(extraction, folder))


def spec_of(entry: ModelEntry, folder: Path) -> ModelSpec:
    """Return the model that an entry of the file names."""
    if isinstance(entry, str):
        entry = ModelFile.model_validate({"model": entry})
    if entry.scripted is not None:
        return ModelSpec(SCRIPTED, scripted=folder / entry.scripted)
    assert entry.model is not None
    options = entry.model_dump(exclude_none=True, exclude=_OURS)
    local = is_local(entry.model)
    weights = weights_of(entry.model, folder) if local else None
    limit = Limit(entry.requests_per_minute, entry.tokens_per_minute)
    return ModelSpec(
        entry.model,
        {**options, **entry.options},
        None,
        entry.api_key_env,
        local,
        weights,
        limit if limit != Limit() else None,
    )
