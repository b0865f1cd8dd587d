"""What every part of a task file is built on."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict


class Section(BaseModel):
    """A part of the file. Nothing is converted and nothing unknown is passed over."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True, protected_namespaces=())
