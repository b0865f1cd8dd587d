"""Questions about the logs of logpai/loghub, with answers from their structured versions, for `trust.py`.

Every question can be answered from the raw log. Types: counts, most frequent, distinct values, sums, lists, mappings,
first lines, truth values, largest numbers. The logs are read from a folder that is given; nothing of them is here.
"""

from __future__ import annotations

import csv
import re
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Any


@dataclass(frozen=True)
class Question:
    """A question about one log."""

    log: str
    kind: str
    text: str
    type: str
    answer: Any

    @property
    def id(self) -> str:
        return f"{self.log}:{self.kind}:{self.text}"


LOGS = ("Android", "BGL", "Hadoop", "Thunderbird", "Windows")
FORMATS = {
    "Android": "date time pid tid level component: message",
    "BGL": "label timestamp date node time node type component level message",
    "Hadoop": "date time level [process] component: message",
    "Thunderbird": "label timestamp date user month day time location component[pid]: message",
    "Windows": "date time, level component message",
}
SUMS = {
    "Android": (r"\bflags=0x(\d+)\b", "What is the sum of all numbers N in 'flags=0xN' (read N as decimal)?"),
    "BGL": (r"\btotal of (\d+) ddr", "What is the sum of all numbers N in 'total of N ddr'?"),
    "Hadoop": (r" for (\d+) seconds", "What is the sum of all numbers N in 'for N seconds'?"),
    "Thunderbird": (r"\bstratum (\d+)\b", "What is the sum of all numbers N in 'stratum N'?"),
    "Windows": (r"ApplicableState: (\d+)", "What is the sum of all numbers N in 'ApplicableState: N'?"),
}


def load_log(folder: Path, name: str) -> str:
    """Return the raw log."""
    return (folder / f"{name}_2k.log").read_text(encoding="utf-8", errors="replace")


def questions(folder: Path) -> list[Question]:
    """Return all questions, those of each kind in turn, so that a first part of them has every kind and log."""
    by_log = [_of_log(name, _rows(folder, name)) for name in LOGS]
    longest = max(map(len, by_log))
    return [asked[at % len(asked)] for at in range(longest) for asked in by_log if at < len(asked)]


def _rows(folder: Path, name: str) -> list[dict[str, str]]:
    with (folder / f"{name}_2k.log_structured.csv").open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def _of_log(log: str, rows: list[dict[str, str]]) -> list[Question]:
    found: list[Question] = []

    def ask(kind: str, text: str, type: str, answer: Any) -> None:
        found.append(Question(log, kind, f"A line is '{FORMATS[log]}'. {text}", type, answer))

    components = Counter(row["Component"] for row in rows)
    (first, most), (second, _), *_ = components.most_common()
    ask("count", f"How many lines have the component {first}?", "int", most)
    ask("most frequent", "Which component has the most lines?", "str", first)
    ask("distinct", "How many different components are there?", "int", len(components))
    column = "Level" if len({row["Level"] for row in rows if "Level" in row}) > 1 else "Date"
    column = "User" if log == "Thunderbird" else column
    groups = Counter(row[column] for row in rows)
    what = column.lower()
    if len(groups) <= 6:
        ask("mapping", f"How many lines are there of each {what}?", "dict[str, int]", dict(groups))
    else:
        top = dict(groups.most_common(2))
        ask("mapping", f"How many lines have the {what}s {' and '.join(top)}, each?", "dict[str, int]", top)
    pattern, text = SUMS[log]
    numbers = [int(n) for row in rows for n in re.findall(pattern, row["Content"])]
    ask("sum", text, "int", sum(numbers))
    ask("list", "Which two components have the most lines?", "list[str]", [first, second])
    value, times = groups.most_common()[-1]
    ask("count", f"How many lines have the {what} {value}?", "int", times)
    clock = [row["Time"] for row in rows if row["Component"] == second]
    ask("first", f"What is the time of the first line whose component is {second}, as it is written?", "str", clock[0])
    ask("count", f"How many different times do lines with the component {second} have?", "int", len(set(clock)))
    both = any(row["Component"] == second and row[column] == value for row in rows)
    ask("truth", f"Is there a line with the component {second} and the {what} {value}?", "bool", both)
    largest = text.replace("sum of all numbers", "largest of the numbers")
    ask("largest", largest, "int", max(numbers))
    words = Counter(row["Content"].split()[0] for row in rows if row["Content"].split())
    word, _ = words.most_common(1)[0]
    ask("most frequent", "With which word do most messages begin?", "str", word)
    long = sum(len(row["Content"]) > 100 for row in rows)
    ask("count", "How many messages have more than 100 characters?", "int", long)
    ask("count", f"How many messages begin with the word {word}?", "int", words[word])
    return found
