"""Suites from files: samples in JSONL, checked line by line before anything runs."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ...errors import RlmError
from ...signatures import InvalidInputs, InvalidOutputs, Signature, SignatureError
from ..sample import Sample
from ..scorers import SCORED_TYPES, scorer_named

_REQUIRED = ("signature", "inputs", "expected")
_OPTIONAL = ("id", "instructions", "scoring", "meta")
_MAX_PROBLEMS = 5
"""The number of invalid lines to report."""


class SuiteFileError(RlmError, ValueError):
    """A file of samples is invalid; the message says which lines, and what is wrong with them."""


def read_suite(path: str | Path) -> list[Sample]:
    """Return the samples of a JSONL file. Raises `SuiteFileError`.

    A line is `{"signature": ..., "inputs": {...}, "expected": {...}}`, with optional `id`, `instructions`, `scoring`
    (the name of a scorer for each output; `exact` by default) and `meta`.
    """
    path = Path(path)
    try:
        lines = path.read_text(encoding="utf-8-sig").split("\n")
    except (OSError, UnicodeDecodeError) as error:
        raise SuiteFileError(f"{path}: cannot be read: {error}") from None
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
        more = [f"and {len(problems) - _MAX_PROBLEMS:,} more"] if len(problems) > _MAX_PROBLEMS else []
        raise SuiteFileError("\n".join([*problems[:_MAX_PROBLEMS], *more]))
    if not samples:
        raise SuiteFileError(f"{path}: it has no samples; each line must be a sample in JSON")
    return samples


def _read(line: str) -> Any:
    try:
        return json.loads(line)
    except json.JSONDecodeError as error:
        raise ValueError(f"not JSON: {error.msg} at column {error.colno}") from None


def _sample(data: Any, suite: str, index: int) -> Sample:
    if not isinstance(data, dict):
        raise ValueError(f"a sample must be a JSON object, not {type(data).__name__}")
    if missing := [name for name in _REQUIRED if name not in data]:
        raise ValueError(f"{', '.join(missing)} missing; a sample has {', '.join(_REQUIRED)}")
    if unknown := [name for name in data if name not in _REQUIRED + _OPTIONAL]:
        raise ValueError(f"unknown: {', '.join(unknown)}; a sample can have {', '.join(_REQUIRED + _OPTIONAL)}")
    for name in ("inputs", "expected", "scoring", "meta"):
        if not isinstance(data.get(name, {}), dict):
            raise ValueError(f"{name} must be a JSON object, not {type(data[name]).__name__}")
    for name in ("signature", "instructions"):
        if not isinstance(data.get(name, ""), str):
            raise ValueError(f"{name} must be a text, not {type(data[name]).__name__}")
    instructions = data.get("instructions", "")
    _check_fields(data)
    inputs = data["inputs"].values()
    length = sum(len(value) if isinstance(value, str) else len(json.dumps(value)) for value in inputs)
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
    """Raise `ValueError` if inputs or expected outputs do not fit the signature, or a scorer does not exist."""
    try:
        signature = Signature.of(data["signature"])
        signature.check_inputs(data["inputs"])
        signature.check_outputs(data["expected"])
    except SignatureError as error:
        raise ValueError(f"signature: {error}") from None
    except InvalidInputs as error:
        raise ValueError(f"inputs: {_joined(error)}") from None
    except InvalidOutputs as error:
        raise ValueError(f"expected: {_joined(error)}") from None
    for name, scorer in data.get("scoring", {}).items():
        if name not in data["expected"]:
            raise ValueError(f"scoring: {name!r} is no output; outputs are {', '.join(data['expected'])}")
        try:
            scorer_named(scorer)
        except (ValueError, TypeError) as error:
            raise ValueError(f"scoring: {name}: {error}") from None


def _check_scoring(sample: Sample) -> None:
    """Raise `ValueError` if a scorer cannot score the expected value: a correct answer would count as wrong."""
    for name, expected in sample.expected.items():
        scorer = sample.scoring[name]
        if scorer in SCORED_TYPES and expected is not None and scorer_named(scorer)(expected, expected) != 1:
            types = SCORED_TYPES[scorer]
            raise ValueError(f"scoring: {name}: {scorer!r} is for {types}; the expected answer would score 0")


def _joined(error: InvalidInputs | InvalidOutputs) -> str:
    """Return the problems, without the name of the generated class."""
    return "; ".join(map(str, error.problems))
