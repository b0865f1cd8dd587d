"""`Sample`: one task of a suite with its expected answer, as plain data."""

from __future__ import annotations

import dataclasses
import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True, slots=True)
class Sample:
    """A task with a known answer. All values are JSON: a date in `expected` is the text 2031-05-04."""

    id: str
    suite: str
    length: int
    """The requested number of characters of the inputs; a generated sample is within 2% of it."""

    seed: int
    signature: str
    """The signature as text: `doc: str -> answer: int`."""

    instructions: str
    """The task in words. A model sees this, the signature and the inputs, and nothing else of the sample."""

    inputs: dict[str, Any]
    expected: dict[str, Any]
    """The correct value of every output."""

    scoring: dict[str, str]
    """The scorer of each output: a name in `scorers.SCORERS`."""

    meta: dict[str, Any] = field(default_factory=dict)
    """Further facts about the sample, for tables and inspection."""

    def inputs_digest(self) -> str:
        """Return a hash of the inputs."""
        return hashlib.sha256(json.dumps(self.inputs, sort_keys=True).encode()).hexdigest()[:16]

    def to_dict(self) -> dict[str, Any]:
        """Return the sample as plain JSON values."""
        return {field.name: getattr(self, field.name) for field in dataclasses.fields(self)}

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Sample:
        """Return the sample described by `to_dict`."""
        return cls(**data)
