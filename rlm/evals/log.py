"""An evaluation on disk: a directory with `header.json`, `samples.jsonl` and `summary.json`.

A line of `samples.jsonl` is a sample that was finished in one epoch. A later line about the same sample and epoch (`rlm
eval retry`) takes the place of the earlier one. `writing.py` writes them.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import MISSING, asdict, dataclass, field, fields
from pathlib import Path
from typing import Any

from ..errors import RlmError
from ..paths import home

FORMAT = 1
HEADER, SAMPLES, SUMMARY = "header.json", "samples.jsonl", "summary.json"
_NEEDED = {"suites": list, "lengths": list, "seed": int, "epochs": int, "total": int, "models": dict}
_NO_HEADER = "Put it back from a copy, or begin again with another --log"


class EvalLogError(RlmError, ValueError):
    """A log cannot be read, or not be gone on with; the message says why and what to do."""


@dataclass(frozen=True, slots=True)
class Entry:
    """One sample in one epoch: how its run ended, and what that is worth."""

    sample_id: str
    suite: str
    length: int
    epoch: int
    """Counted from 1."""

    ending: str
    """Submitted, Extracted or Failed."""

    outputs: dict[str, Any] | None
    expected: dict[str, Any]
    scores: dict[str, float]
    score: float
    confidence: float
    fields: dict[str, dict[str, float]] = field(default_factory=dict)
    """What is known of each output that says how far to trust it: see `rlm.calibration.features`."""

    run_id: str | None = None
    usage: dict[str, Any] = field(default_factory=dict)
    seconds: float = 0.0
    error: str | None = None
    """What broke the run off, if that was no fault of the answer: `model:rate: ...`, `sandbox:...`, `model:context`."""

    reason: str | None = None
    """Why it was extracted or failed."""

    tiers: dict[str, dict[str, float]] = field(default_factory=dict)
    """Which tier answered its typed questions, by signature, where an adapter has tiers."""

    inputs: str | None = None
    """A digest of the sample's inputs; None in logs of earlier versions."""

    @property
    def key(self) -> tuple[str, int]:
        """What it is the result of."""
        return self.sample_id, self.epoch

    @property
    def right(self) -> bool:
        """Whether every value is right."""
        return self.score >= 1 - 1e-9

    @property
    def too_long(self) -> bool:
        """Whether the input did not fit into the model's context: it would not fit another time, either."""
        return self.error is not None and self.error.startswith("model:context")

    def to_dict(self) -> dict[str, Any]:
        """The entry as plain JSON values."""
        return asdict(self)

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Entry:
        """The entry that `to_dict` described; what a later version has added is left out.

        Raises `TypeError` or `ValueError` for what is none.
        """
        if not isinstance(data, Mapping):
            raise TypeError(f"it is no JSON object but {data!r:.60}")
        if missing := [name for name in _REQUIRED if name not in data]:
            raise TypeError(f"{', '.join(missing)} missing")
        given = {name: data[name] for name in _NAMES if name in data}
        for name, kinds in _KINDS.items():
            if name in given and (not isinstance(given[name], kinds) or isinstance(given[name], bool)):
                raise TypeError(f"{name} is {given[name]!r:.60}")
        if not all(isinstance(one, int | float) for one in given["scores"].values()):
            raise TypeError("a score is no number")
        for name, one in (("score", given["score"]), ("confidence", given["confidence"]), *given["scores"].items()):
            if not 0 <= one <= 1:
                raise ValueError(f"{name} is {one!r}, which is not from 0 to 1")
        return cls(**given)


_NAMES = tuple(one.name for one in fields(Entry))
_REQUIRED = tuple(one.name for one in fields(Entry) if one.default is MISSING and one.default_factory is MISSING)
_KINDS: dict[str, Any] = {
    **dict.fromkeys(("sample_id", "suite", "ending"), str),
    **dict.fromkeys(("length", "epoch"), int),
    **dict.fromkeys(("score", "confidence", "seconds"), int | float),
    **dict.fromkeys(("scores", "fields", "usage", "tiers"), dict),
}
"""What a line must be, so that numbers can be made of it."""


@dataclass(frozen=True)
class EvalLog:
    """A log that is read."""

    folder: Path
    header: dict[str, Any]
    entries: tuple[Entry, ...]
    """The last of each sample and epoch, in the order in which they were first finished."""

    replaced: tuple[Entry, ...] = ()
    """Those that a later one of the same sample and epoch has taken the place of: they cost something, too."""

    @property
    def name(self) -> str:
        """What to call it."""
        return self.folder.name

    @property
    def own_suites(self) -> frozenset[str]:
        """Suites that came from files: their samples are as long as they are, and not made to a length."""
        return frozenset(str(one["name"]) for one in self.header["suites"] if one.get("path"))

    @property
    def expected(self) -> int:
        """How many entries it has when it is finished."""
        return int(self.header["total"])

    @property
    def complete(self) -> bool:
        """Whether nothing is missing."""
        return len(self.entries) >= self.expected


def logs_folder() -> Path:
    """Where logs are, unless told otherwise."""
    return home() / "evals"


def is_log(folder: Path) -> bool:
    """Whether a directory is a log."""
    return (folder / HEADER).is_file()


def known_logs(folder: Path | None = None) -> list[Path]:
    """The logs in the usual place, the newest first."""
    place = folder or logs_folder()
    found = [one for one in place.iterdir() if is_log(one)] if place.is_dir() else []
    return sorted(found, key=lambda one: (one / HEADER).stat().st_mtime, reverse=True)


def find_log(name: str | Path) -> Path:
    """The log at a path, or the one in the usual place whose name begins like this. Raises `EvalLogError`."""
    path = Path(name)
    if is_log(path):
        return path
    if path.is_dir():
        raise EvalLogError(f"{path} is no log: there is no {HEADER} in it")
    found = [one for one in known_logs() if one.name.startswith(str(name))]
    exact = [one for one in found if one.name == str(name)]
    if len(exact or found) == 1:
        return (exact or found)[0]
    if found:
        raise EvalLogError(
            f"{len(found)} logs have names that begin with {str(name)!r}: {', '.join(o.name for o in found)}"
        )
    raise EvalLogError(f"there is no log {str(name)!r}, neither at this path nor in {logs_folder()}")


def read_log(folder: str | Path) -> EvalLog:
    """A log with all of its entries. Raises `EvalLogError`."""
    path = Path(folder)
    header = read_header(path)
    latest: dict[tuple[str, int], Entry] = {}
    replaced = []
    for entry in read_entries(path):
        if entry.key in latest:
            replaced.append(latest[entry.key])
        latest[entry.key] = entry
    return EvalLog(path, header, tuple(latest.values()), tuple(replaced))


def read_header(folder: Path) -> dict[str, Any]:
    """What an evaluation was begun with. Raises `EvalLogError`."""
    path = folder / HEADER
    try:
        header = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise EvalLogError(f"{folder} is no log: there is no {HEADER} in it") from None
    except (OSError, ValueError) as error:
        raise EvalLogError(f"{path} cannot be read: {error}. {_NO_HEADER}") from None
    if not isinstance(header, dict) or not isinstance(header.get("format"), int):
        raise EvalLogError(f"{path} is not the header of an evaluation. {_NO_HEADER}")
    if header["format"] > FORMAT:
        raise EvalLogError(f"{path} is of format {header['format']}; this version reads up to {FORMAT}. Update rlm.")
    missing = [name for name in _NEEDED if name not in header]
    if missing:
        raise EvalLogError(f"{path} is not the header of an evaluation: {', '.join(missing)} missing. {_NO_HEADER}")
    wrong = [name for name, kind in _NEEDED.items() if not isinstance(header[name], kind)]
    if wrong or not all(isinstance(one, dict) and "name" in one for one in header["suites"]):
        raise EvalLogError(f"{path} is damaged: {', '.join(wrong) or 'suites'} cannot be read. {_NO_HEADER}")
    return header


def refuse_changed(header: Mapping[str, Any], suites: Iterable[Mapping[str, Any]]) -> None:
    """Raise `EvalLogError` if the file of a suite is not what it was when the log was begun."""
    before = {one["path"]: one.get("digest") for one in header["suites"] if one.get("path")}
    for one in suites:
        if one.get("path") in before and one.get("digest") != before[one["path"]]:
            raise EvalLogError(
                f"{one['path']} has changed since the log was begun; put it back as it was, or begin another log"
            )


def read_entries(folder: Path) -> Iterator[Entry]:
    """All lines in order, those that were replaced later, too. A last line that is not whole is left out."""
    path = folder / SAMPLES
    try:
        with path.open("rb") as file:
            for number, line in enumerate(file, 1):
                try:
                    yield Entry.from_dict(json.loads(line))
                except (ValueError, TypeError, AttributeError) as error:
                    if not line.endswith(b"\n"):
                        return  # being written, or cut off when its process was killed
                    raise EvalLogError(
                        f"{path}, line {number} is not an entry: {error}. Remove that line; "
                        "the command that began the log runs its sample again"
                    ) from None
    except FileNotFoundError:
        return
    except OSError as error:
        raise EvalLogError(f"{path} cannot be read: {error.strerror or error}") from None
