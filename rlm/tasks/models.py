"""Which models a task asks, and with which options. Nothing here imports dspy."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from .schema import ModelEntry, ModelFile, ModelsFile

SCRIPTED = "scripted"
ROLES = ("main", "sub", "extraction")


@dataclass(frozen=True, slots=True)
class ModelSpec:
    """One model: what `dspy.LM` calls it and how to ask it, or a file of replies in its place."""

    model: str
    options: dict[str, Any] = field(default_factory=dict)
    """Keyword arguments for `dspy.LM`, without the key."""

    scripted: Path | None = None
    api_key_env: str | None = None
    """The environment variable that holds the key."""

    def lm_options(self) -> dict[str, Any]:
        """Keyword arguments for `dspy.LM`, with the key where a variable was named. Not to be written anywhere."""
        if self.api_key_env is None:
            return dict(self.options)
        return {**self.options, "api_key": os.environ.get(self.api_key_env)}

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
    return Models(_spec(main, folder), _spec(sub, folder), _spec(extraction, folder))


def _spec(entry: ModelEntry, folder: Path) -> ModelSpec:
    if isinstance(entry, str):
        return ModelSpec(entry)
    if entry.scripted is not None:
        return ModelSpec(SCRIPTED, scripted=folder / entry.scripted)
    assert entry.model is not None
    options = entry.model_dump(exclude_none=True, exclude={"model", "scripted", "api_key_env", "options"})
    return ModelSpec(entry.model, {**options, **entry.options}, api_key_env=entry.api_key_env)
