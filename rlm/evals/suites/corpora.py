"""`Corpora`: the texts in a folder that some suites take their samples from. What is asked is in the suites."""

from __future__ import annotations

import csv
import functools
import hashlib
import re
from dataclasses import dataclass
from pathlib import Path

from ...errors import RlmError

LABELS = {
    "NUM": "numeric value",
    "ENTY": "entity",
    "LOC": "location",
    "DESC": "description and abstract concept",
    "ABBR": "abbreviation",
    "HUM": "human being",
}
"""The coarse labels of TREC, as OOLONG calls them."""

_NEEDED = {
    "questions": "TREC questions (train.txt and test.txt, lines such as `LOC:city What county is Modesto in ?`)",
    "prose": "texts (*.txt)",
    "logs": "logs with structured versions (NAME.log and NAME.log_structured.csv, as in logpai/loghub)",
}


class CorpusMissing(RlmError, ValueError):
    """A folder does not have the texts that a suite needs; the message says which, and what they look like."""


@dataclass(frozen=True)
class LogCorpus:
    """A log: its lines, and the fields of each of them by name."""

    name: str
    lines: tuple[str, ...]
    rows: tuple[dict[str, str], ...]


@dataclass(frozen=True)
class Corpora:
    """The texts in a folder: `questions`, `prose` and `logs`, each in a folder of that name or in the folder itself."""

    folder: Path

    def questions(self) -> tuple[tuple[str, str], ...]:
        """Return questions with their labels, each question once."""
        return _questions(self._files("questions", "*.txt"))

    def prose(self) -> str:
        """Return all texts, one after another, without empty lines."""
        return _prose(self._files("prose", "*.txt"))

    def logs(self) -> tuple[LogCorpus, ...]:
        """Return the logs, by name."""
        return _logs(self._files("logs", "*_structured.csv"))

    def digest(self, needed: str) -> str:
        """Return a hash of the texts of one kind: other texts are other samples."""
        digest = hashlib.sha256()
        for path in self._files(needed, "*_structured.csv" if needed == "logs" else "*.txt"):
            digest.update(path.name.encode() + b"\0" + path.read_bytes())
        return digest.hexdigest()

    def _files(self, needed: str, pattern: str) -> tuple[Path, ...]:
        for folder in (self.folder / needed, self.folder):
            if files := tuple(sorted(folder.glob(pattern))):
                return files
        raise CorpusMissing(f"{self.folder / needed} has no {_NEEDED[needed]}: give another folder with --texts")


@functools.cache
def _questions(files: tuple[Path, ...]) -> tuple[tuple[str, str], ...]:
    found: dict[str, str] = {}
    for path in files:
        for line in path.read_text(encoding="latin-1").splitlines():
            label, _, text = line.partition(" ")
            if (label := LABELS.get(label.partition(":")[0], "")) and text.strip():
                found.setdefault(re.sub(r"\s+", " ", text).strip(), label)
    if not found:
        raise CorpusMissing(f"{files[0].parent} has no {_NEEDED['questions']}: give another folder with --texts")
    return tuple((label, text) for text, label in found.items())


@functools.cache
def _prose(files: tuple[Path, ...]) -> str:
    texts = (path.read_text(encoding="utf-8", errors="replace") for path in files)
    return "\n".join(line.strip() for text in texts for line in text.splitlines() if line.strip())


@functools.cache
def _logs(files: tuple[Path, ...]) -> tuple[LogCorpus, ...]:
    logs = []
    for path in files:
        raw = path.with_name(path.name.removesuffix("_structured.csv"))
        lines = raw.read_text(encoding="utf-8", errors="replace").split("\n") if raw.is_file() else []
        with path.open(encoding="utf-8", errors="replace", newline="") as file:
            rows = tuple(csv.DictReader(file))
        lines = [line.rstrip("\r") for line in lines[: len(rows)]]
        if lines and len(lines) == len(rows):
            logs.append(LogCorpus(raw.name.removesuffix(".log"), tuple(lines), rows))
    if not logs:
        raise CorpusMissing(f"{files[0].parent} has no {_NEEDED['logs']}: give another folder with --texts")
    return tuple(logs)
