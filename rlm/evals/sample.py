"""Sample: one task of a suite with its expected answer, as plain data that goes to JSON and back."""

from __future__ import annotations

import dataclasses
import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True, slots=True)
class Sample:
    """A task whose answer is known. Everything in it is JSON: a date in `expected` is the text 2031-05-04."""

    id: str
    suite: str
    length: int
    """Characters of the inputs that were asked for; a generated sample is within 2% of it."""

    seed: int
    signature: str
    """As text: `doc: str -> answer: int`."""

    instructions: str
    """What is asked. Who solves the sample sees this, the signature and the inputs, and nothing else of it."""

    inputs: dict[str, Any]
    expected: dict[str, Any]
    """The right value of every output."""

    scoring: dict[str, str]
    """How each output is scored: a name in `scoring.SCORERS`."""

    meta: dict[str, Any] = field(default_factory=dict)
    """Anything else about the sample, for tables and for those who look into it."""

    def inputs_digest(self) -> str:
        """What tells its inputs from others."""
        return hashlib.sha256(json.dumps(self.inputs, sort_keys=True).encode()).hexdigest()[:16]

    def to_dict(self) -> dict[str, Any]:
        """As JSON-able data."""
        return {one.name: getattr(self, one.name) for one in dataclasses.fields(self)}

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Sample:
        """The sample that `to_dict` wrote."""
        return cls(**data)
