"""Calibrators as JSON files, and scorers from what callers and task files name. Reading a file checks all of it."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from ..errors import RlmError
from ..extraction.confidence import Scorer
from ..extraction.evidence.features import FEATURES
from ..files import write_atomic
from .calibrator import Calibrator, Isotonic, Logistic, Way, Whole

FORMAT = "rlm-calibrator"
VERSION = 1
DEFAULT = "default"
"""The name of the calibrator that comes with the package. A file of that name is `./default`."""

Number = Annotated[float, Field(allow_inf_nan=False)]
Share = Annotated[float, Field(ge=0, le=1)]


class CalibratorError(RlmError, ValueError):
    """A file is not a usable calibrator; the message says why and what to do."""


class _Part(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True)


class _IsotonicPart(_Part):
    points: list[tuple[Number, Share]] = Field(min_length=1)

    @model_validator(mode="after")
    def _rises(self) -> _IsotonicPart:
        for (x, y), (next_x, next_y) in zip(self.points, self.points[1:], strict=False):
            if next_x <= x or next_y < y:
                raise ValueError("the points of an isotonic curve must rise")
        return self


class _LogisticPart(_Part):
    intercept: Number
    weights: dict[str, Number]

    @model_validator(mode="after")
    def _is_known(self) -> _LogisticPart:
        unknown = sorted(set(self.weights) - set(FEATURES))
        if unknown:
            raise ValueError(f"it uses evidence that this version of rlm does not have: {', '.join(unknown)}")
        return self


class _WholePart(_Part):
    way: Way
    intercept: Number = 0.0
    slope: Annotated[float, Field(gt=0, allow_inf_nan=False)] = 1.0


class _File(_Part):
    format: Literal["rlm-calibrator"]
    version: Literal[1]
    method: Literal["isotonic", "logistic"]
    curve: dict[str, Any]
    whole: _WholePart
    fitted_on: dict[str, Any]
    measures: dict[str, Any]
    held_out: list[tuple[Share, bool]]


def save(calibrator: Calibrator, path: str | Path) -> None:
    """Write a calibrator to a file, atomically."""
    curve = calibrator.curve
    data = {
        "format": FORMAT,
        "version": VERSION,
        "method": calibrator.method,
        "curve": {"points": curve.points}
        if isinstance(curve, Isotonic)
        else {"intercept": curve.intercept, "weights": dict(curve.weights)},
        "whole": {
            "way": calibrator.whole.way,
            "intercept": calibrator.whole.intercept,
            "slope": calibrator.whole.slope,
        },
        "fitted_on": dict(calibrator.fitted_on),
        "measures": dict(calibrator.measures),
        "held_out": [[round(score, 4), right] for score, right in calibrator.held_out],
    }
    target = Path(path)
    lines = [f"  {json.dumps(key)}: {json.dumps(value, allow_nan=False)}" for key, value in data.items()]
    write_atomic(target, "{\n" + ",\n".join(lines) + "\n}\n")


def default_path() -> Path:
    """Return the file of the calibrator that comes with the package; `benchmarks/default_calibrator.py` made it."""
    return Path(__file__).with_name("default.json")


def calibrator_path(name: str | Path, folder: Path | None = None) -> Path:
    """Return the file of a calibrator: that of the package for `default`, or else a path, relative to a folder."""
    if name == DEFAULT:
        return default_path()
    return Path(name) if folder is None else folder / name


def load(path: str | Path) -> Calibrator:
    """Return the calibrator in a file, or the one of the package for `default`. Raises `CalibratorError`."""
    path = calibrator_path(path)
    try:
        data = json.loads(Path(path).read_text(encoding="utf-8"))
    except OSError as error:
        raise CalibratorError(f"{path} cannot be read: {error.strerror or error}") from None
    except ValueError as error:
        raise CalibratorError(f"{path} is not JSON: {error}") from None
    if not isinstance(data, dict) or data.get("format") != FORMAT:
        raise CalibratorError(f"{path} is not a calibrator; `rlm eval calibrate` writes one")
    if data.get("version") != VERSION:
        raise CalibratorError(
            f"{path} is a calibrator of version {data.get('version')!r}; this version of rlm reads version {VERSION}. "
            "Create it again with `rlm eval calibrate`."
        )
    try:
        # Strict JSON mode: a list of two is a pair, an integer is a number, and nothing else is converted.
        file = _File.model_validate_json(json.dumps(data))
        part = _IsotonicPart if file.method == "isotonic" else _LogisticPart
        curve = part.model_validate_json(json.dumps(file.curve))
    except ValidationError as error:
        raise CalibratorError(f"{path} is damaged: {_first_problem(error)}") from None
    return Calibrator(
        Isotonic(tuple(curve.points)) if isinstance(curve, _IsotonicPart) else Logistic(curve.intercept, curve.weights),
        Whole(file.whole.way, file.whole.intercept, file.whole.slope),
        file.fitted_on,
        file.measures,
        tuple(file.held_out),
    )


def scorer_of(confidence: Scorer | str | Path, accept_at: Mapping[str, float] | None = None) -> Scorer:
    """Return a function as it is, and a path or `default` as its calibrator, which may have a rule, `accept_at`.

    Raises `CalibratorError` for the file, `NoThreshold` if no threshold keeps the error, `TypeError` or `ValueError`.
    """
    scorer = load(confidence) if isinstance(confidence, str | Path) else confidence
    if not callable(scorer):
        raise TypeError(
            "confidence must be a function of the outputs and their evidence, the path of a calibrator, as in "
            f"confidence='calibrator.json', or 'default'; not {confidence!r:.60}. Leave it out for the formula."
        )
    if accept_at is None:
        return scorer
    if not isinstance(accept_at, Mapping) or set(accept_at) != {"error"}:
        raise ValueError(f"accept_at must be {{'error': share}}, such as {{'error': 0.1}}, not {accept_at!r}")
    if not isinstance(scorer, Calibrator):
        raise ValueError(
            "accept_at needs a calibrator: confidence='calibrator.json', as `rlm eval calibrate` writes it, or "
            "confidence='default'"
        )
    return scorer.accepting(accept_at["error"])


def _first_problem(error: ValidationError) -> str:
    problem = error.errors(include_url=False)[0]
    where = ".".join(map(str, problem["loc"]))
    message = problem["msg"].removeprefix("Value error, ")
    return f"{where}: {message}" if where else message
