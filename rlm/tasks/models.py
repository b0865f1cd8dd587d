"""Which models a task asks, and with which options. Nothing here imports dspy."""

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
_NO_KEY = "no-key-is-needed"  # servers of one's own often ask for none; their clients insist on one
_OURS = {"model", "scripted", "api_key_env", "options", "requests_per_minute", "tokens_per_minute"}


@dataclass(frozen=True, slots=True)
class ModelSpec:
    """One model: what `dspy.LM` calls it and how to ask it; or weights that run here, or a file of replies."""

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
    """What its server allows in a minute."""

    def lm_options(self) -> dict[str, Any]:
        """Keyword arguments for `dspy.LM`, with the key where a variable was named. Not to be written anywhere."""
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
    """Who writes the code, who answers `llm_query`, and who extracts."""

    main: ModelSpec
    sub: ModelSpec
    extraction: ModelSpec

    @property
    def scripted(self) -> Path | None:
        """The file of replies, where at least one of the three is no model but a script."""
        return self.main.scripted or self.sub.scripted or self.extraction.scripted


def choose(written: str | ModelsFile, given: Mapping[str, str], folder: Path) -> Models | None:
    """The models of the file with those of the command line in their place; None where there is no main one."""
    if isinstance(written, str):
        written = ModelsFile.model_validate({"main": written})
    script = ModelFile.model_validate({"scripted": written.scripted}) if written.scripted is not None else None
    main = given.get("main") or written.main or script
    if main is None:
        return None
    sub, extraction = (given.get(role) or getattr(written, role) or main for role in ROLES[1:])
    return Models(spec_of(main, folder), spec_of(sub, folder), spec_of(extraction, folder))


def spec_of(entry: ModelEntry, folder: Path) -> ModelSpec:
    """The model that an entry of the file names."""
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
