"""The log of an evaluation: a directory with `header.json`, `samples.jsonl` and `summary.json`.

A line of `samples.jsonl` is the result of one sample in one epoch. A later line with the same sample and epoch, as from
`rlm eval retry`, replaces the earlier one. `log_writer.py` writes these files.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import MISSING, asdict, dataclass, field, fields
from pathlib import Path
from typing import Any

from ..errors import RlmError
from ..files import home

FORMAT = 1
HEADER, SAMPLES, SUMMARY = "header.json", "samples.jsonl", "summary.json"
_NEEDED = {"suites": list, "lengths": list, "seed": int, "epochs": int, "total": int, "models": dict}
_HEADER_ADVICE = "Restore it from a copy, or start again with another --log"


class EvalLogError(RlmError, ValueError):
    """A log cannot be read or continued; the message says why and what to do."""


class LogWriteError(EvalLogError):
    """A log cannot be written, as on a full disk; `__cause__` is the `OSError`."""


@dataclass(frozen=True, slots=True)
class LogEntry:
    """The result of one sample in one epoch: how the run ended, and the score of its answer."""

    sample_id: str
    suite: str
    length: int
    epoch: int
    """The number of the epoch, from 1."""

    ending: str
    """Submitted, Extracted or Failed."""

    outputs: dict[str, Any] | None
    expected: dict[str, Any]
    scores: dict[str, float]
    score: float
    confidence: float
    fields: dict[str, dict[str, float]] = field(default_factory=dict)
    """The evidence for each output: see `rlm.calibration`."""

    run_id: str | None = None
    usage: dict[str, Any] = field(default_factory=dict)
    seconds: float = 0.0
    error: str | None = None
    """The cause of a run that ended by an error: `model:rate: ...`, `sandbox:...`, `model:context`."""

    reason: str | None = None
    """The reason of an extraction or a failure."""

    tiers: dict[str, dict[str, float]] = field(default_factory=dict)
    """Which tier answered typed questions, by signature, if the adapter has tiers."""

    inputs: str | None = None
    """A hash of the sample's inputs; None in logs of earlier versions."""

    @property
    def key(self) -> tuple[str, int]:
        """The sample and epoch."""
        return self.sample_id, self.epoch

    @property
    def correct(self) -> bool:
        """Whether every value is correct."""
        return self.score >= 1 - 1e-9

    @property
    def too_long(self) -> bool:
        """Whether the input did not fit into the model's context, so that another attempt would fail as well."""
        return self.error is not None and self.error.startswith("model:context")

    def to_dict(self) -> dict[str, Any]:
        """Return the entry as plain JSON values."""
        return asdict(self)

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> LogEntry:
        """Return the entry described by `to_dict`, without keys of later versions.

        Raises `TypeError` or `ValueError` if it is not an entry.
        """
        if not isinstance(data, Mapping):
            raise TypeError(f"it is not a JSON object but {data!r:.60}")
        if missing := [name for name in _REQUIRED if name not in data]:
            raise TypeError(f"{', '.join(missing)} missing")
        values = {name: data[name] for name in _NAMES if name in data}
        for name, types in _TYPES.items():
            if name in values and (not isinstance(values[name], types) or isinstance(values[name], bool)):
                raise TypeError(f"{name} is {values[name]!r:.60}")
        if not all(isinstance(score, int | float) for score in values["scores"].values()):
            raise TypeError("a score is not a number")
        shares = {"score": values["score"], "confidence": values["confidence"], **values["scores"]}
        for name, share in shares.items():
            if not 0 <= share <= 1:
                raise ValueError(f"{name} is {share!r}, which is not between 0 and 1")
        return cls(**values)


_FIELDS = fields(LogEntry)
_NAMES = tuple(entry_field.name for entry_field in _FIELDS)
_REQUIRED = tuple(
    entry_field.name
    for entry_field in _FIELDS
    if entry_field.default is MISSING and entry_field.default_factory is MISSING
)
_TYPES: dict[str, Any] = {
    **dict.fromkeys(("sample_id", "suite", "ending"), str),
    **dict.fromkeys(("length", "epoch"), int),
    **dict.fromkeys(("score", "confidence", "seconds"), int | float),
    **dict.fromkeys(("scores", "fields", "usage", "tiers"), dict),
}
"""The types of the values in a line."""


@dataclass(frozen=True)
class EvalLog:
    """A log, as it was read."""

    folder: Path
    header: dict[str, Any]
    entries: tuple[LogEntry, ...]
    """The last entry of each sample and epoch, in the order of the first ones."""

    replaced: tuple[LogEntry, ...] = ()
    """Entries that were replaced by later ones; their cost counts."""

    @property
    def name(self) -> str:
        """The name of the log."""
        return self.folder.name

    @property
    def file_suites(self) -> frozenset[str]:
        """The names of suites that come from files, whose samples are not generated for a length."""
        return frozenset(str(suite["name"]) for suite in self.header["suites"] if suite.get("path"))

    @property
    def total(self) -> int:
        """The number of entries of the complete log."""
        return int(self.header["total"])

    @property
    def complete(self) -> bool:
        """Whether no entry is missing."""
        return len(self.entries) >= self.total


def logs_folder() -> Path:
    """Return the default directory of logs."""
    return home() / "evals"


def is_log(folder: Path) -> bool:
    """Return whether a directory is a log."""
    return (folder / HEADER).is_file()


def known_logs(folder: Path | None = None) -> list[Path]:
    """Return the logs in a directory, by default that of `logs_folder`, newest first."""
    parent = folder or logs_folder()
    logs = [path for path in parent.iterdir() if is_log(path)] if parent.is_dir() else []
    return sorted(logs, key=lambda path: (path / HEADER).stat().st_mtime, reverse=True)


def find_log(name: str | Path) -> Path:
    """Return the log at a path, or the known log whose name starts with a text. Raises `EvalLogError`."""
    path = Path(name)
    if is_log(path):
        return path
    if path.is_dir():
        raise EvalLogError(f"{path} is not a log: it has no {HEADER}")
    matches = [log for log in known_logs() if log.name.startswith(str(name))]
    exact = [log for log in matches if log.name == str(name)]
    if len(exact or matches) == 1:
        return (exact or matches)[0]
    if matches:
        names = ", ".join(log.name for log in matches)
        raise EvalLogError(f"{len(matches)} logs have names that start with {str(name)!r}: {names}")
    raise EvalLogError(f"there is no log {str(name)!r}, neither at this path nor in {logs_folder()}")


def read_log(folder: str | Path) -> EvalLog:
    """Return a log with all of its entries. Raises `EvalLogError`."""
    path = Path(folder)
    header = read_header(path)
    latest: dict[tuple[str, int], LogEntry] = {}
    replaced = []
    for entry in read_entries(path):
        if entry.key in latest:
            replaced.append(latest[entry.key])
        latest[entry.key] = entry
    return EvalLog(path, header, tuple(latest.values()), tuple(replaced))


def read_header(folder: Path) -> dict[str, Any]:
    """Return the header of a log: the evaluation that it is of. Raises `EvalLogError`."""
    path = folder / HEADER
    try:
        header = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise EvalLogError(f"{folder} is not a log: it has no {HEADER}") from None
    except (OSError, ValueError) as error:
        raise EvalLogError(f"{path} cannot be read: {error}. {_HEADER_ADVICE}") from None
    if not isinstance(header, dict) or not isinstance(header.get("format"), int):
        raise EvalLogError(f"{path} is not the header of an evaluation. {_HEADER_ADVICE}")
    if header["format"] > FORMAT:
        raise EvalLogError(f"{path} is of format {header['format']}; this version reads up to {FORMAT}. Update rlm.")
    missing = [name for name in _NEEDED if name not in header]
    if missing:
        raise EvalLogError(f"{path} is not the header of an evaluation: {', '.join(missing)} missing. {_HEADER_ADVICE}")
    wrong = [name for name, kind in _NEEDED.items() if not isinstance(header[name], kind)]
    if wrong or not all(isinstance(suite, dict) and "name" in suite for suite in header["suites"]):
        raise EvalLogError(f"{path} is damaged: {', '.join(wrong) or 'suites'} cannot be read. {_HEADER_ADVICE}")
    return header


def refuse_changed(header: Mapping[str, Any], suites: Iterable[Mapping[str, Any]]) -> None:
    """Raise `EvalLogError` if the file, or the texts, of a suite have changed since the log was started."""
    digests = {suite["path"] or suite["name"]: suite.get("digest") for suite in header["suites"]}
    for suite in suites:
        name = suite["path"] or suite["name"]
        if name in digests and suite.get("digest") != digests[name]:
            what = name if suite["path"] else f"what --texts has for the suite {name}"
            raise EvalLogError(f"{what} has changed since the log was started; restore it, or start another log")


def read_entries(folder: Path) -> Iterator[LogEntry]:
    """Yield all entries in order, replaced ones included. An incomplete last line is skipped."""
    path = folder / SAMPLES
    try:
        with path.open("rb") as file:
            for number, line in enumerate(file, 1):
                try:
                    yield LogEntry.from_dict(json.loads(line))
                except (ValueError, TypeError, AttributeError) as error:
                    if not line.endswith(b"\n"):
                        return  # being written, or torn when its process was killed
                    raise EvalLogError(
                        f"{path}, line {number} is not an entry: {error}. Remove that line; "
                        "the command that started the log runs its sample again"
                    ) from None
    except FileNotFoundError:
        return
    except OSError as error:
        raise EvalLogError(f"{path} cannot be read: {error.strerror or error}") from None
