"""Own suites: samples from a JSONL file, checked line by line before anything runs."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ...errors import RlmError
from ...signatures import InvalidInputs, InvalidOutputs, Signature, SignatureError
from ..sample import Sample
from ..scorers import MEANT_FOR, scorer

_REQUIRED = ("signature", "inputs", "expected")
_OPTIONAL = ("id", "instructions", "scoring", "meta")
_SAID = 5
"""How many bad lines are said."""


class BadSuite(RlmError, ValueError):
    """A file of samples that cannot be used: which line, what is wrong, what would be right."""


def own(path: str | Path) -> list[Sample]:
    """The samples of a JSONL file. Raises `BadSuite`.

    A line is `{"signature": ..., "inputs": {...}, "expected": {...}}`, and may have `id`, `instructions`, `scoring`
    (a scorer's name for each output; exact match where none is given) and `meta`.
    """
    path = Path(path)
    try:
        lines = path.read_text(encoding="utf-8-sig").split("\n")
    except (OSError, UnicodeDecodeError) as error:
        raise BadSuite(f"{path}: cannot be read: {error}") from None
    samples: list[Sample] = []
    problems: list[str] = []
    seen: dict[str, int] = {}
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        try:
            sample = _sample(_read(line), path.stem, len(samples))
            if sample.id in seen:
                raise ValueError(f"the id {sample.id!r} is taken by line {seen[sample.id]}")
        except ValueError as error:
            problems.append(f"{path}, line {number}: {error}")
            continue
        seen[sample.id] = number
        samples.append(sample)
    if problems:
        more = [f"and {len(problems) - _SAID:,} more"] if len(problems) > _SAID else []
        raise BadSuite("\n".join([*problems[:_SAID], *more]))
    if not samples:
        raise BadSuite(f"{path}: there is no sample in it; a sample is one line of JSON")
    return samples


def _read(line: str) -> Any:
    try:
        return json.loads(line)
    except json.JSONDecodeError as error:
        raise ValueError(f"not JSON: {error.msg} at column {error.colno}") from None


def _sample(data: Any, suite: str, index: int) -> Sample:
    if not isinstance(data, dict):
        raise ValueError(f"a sample is a JSON object, not {type(data).__name__}")
    if missing := [name for name in _REQUIRED if name not in data]:
        raise ValueError(f"{', '.join(missing)} missing; a sample has {', '.join(_REQUIRED)}")
    if unknown := [name for name in data if name not in _REQUIRED + _OPTIONAL]:
        raise ValueError(f"unknown: {', '.join(unknown)}; a sample can have {', '.join(_REQUIRED + _OPTIONAL)}")
    for name in ("inputs", "expected", "scoring", "meta"):
        if not isinstance(data.get(name, {}), dict):
            raise ValueError(f"{name} is a JSON object, not {type(data[name]).__name__}")
    for name in ("signature", "instructions"):
        if not isinstance(data.get(name, ""), str):
            raise ValueError(f"{name} is a text, not {type(data[name]).__name__}")
    instructions = data.get("instructions", "")
    _check_fields(data)
    length = sum(len(one) if isinstance(one, str) else len(json.dumps(one)) for one in data["inputs"].values())
    sample = Sample(
        str(data.get("id", f"{suite}-{index}")),
        suite,
        length,
        0,
        data["signature"],
        instructions,
        data["inputs"],
        data["expected"],
        {name: data.get("scoring", {}).get(name, "exact") for name in data["expected"]},
        data.get("meta", {}),
    )
    _check_scoring(sample)
    return sample


def _check_fields(data: Mapping[str, Any]) -> None:
    """Inputs and expected outputs fit the signature, and every scorer exists."""
    try:
        signature = Signature.of(data["signature"])
        signature.check_inputs(data["inputs"])
        signature.check_outputs(data["expected"])
    except SignatureError as error:
        raise ValueError(f"signature: {error}") from None
    except InvalidInputs as error:
        raise ValueError(f"inputs: {_listed(error)}") from None
    except InvalidOutputs as error:
        raise ValueError(f"expected: {_listed(error)}") from None
    for name, chosen in data.get("scoring", {}).items():
        if name not in data["expected"]:
            raise ValueError(f"scoring: {name!r} is no output; outputs are {', '.join(data['expected'])}")
        try:
            scorer(chosen)
        except (ValueError, TypeError) as error:
            raise ValueError(f"scoring: {name}: {error}") from None


def _check_scoring(sample: Sample) -> None:
    """Every scorer can score what is expected; else right answers would count as wrong."""
    for name, expected in sample.expected.items():
        chosen = sample.scoring[name]
        if chosen in MEANT_FOR and expected is not None and scorer(chosen)(expected, expected) != 1:
            raise ValueError(
                f"scoring: {name}: {chosen!r} is for {MEANT_FOR[chosen]}; the expected answer would score 0"
            )


def _listed(error: InvalidInputs | InvalidOutputs) -> str:
    """What is wrong, without the name of a class that the file has not."""
    return "; ".join(map(str, error.problems))
