# ruff: noqa: E501
"""Questions about real data, with answers that a program computes, for `reading.py`. Nothing of the data is here.

Logs: logpai/loghub (counts, most frequent, distinct values, sums, dictionaries), asked as a person asks who has seen the
log: no field is named by its place. `judge`: questions with TREC labels, about each of which something is asked.
`read`: one paragraph of a State of the Union address, in which one thing is to be found.
"""

from __future__ import annotations

import random
import re
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

HELD_OUT = ("BGL", "Hadoop", "Thunderbird")
"""Logs that nothing was developed on."""


@dataclass(frozen=True)
class Question:
    """A question about one text (or list of texts)."""

    source: str
    kind: str
    text: str
    type: str
    value: Any
    """The input: a text, or a list of texts."""

    answer: Any

    @property
    def id(self) -> str:
        return f"{self.source}:{self.kind}:{self.text}"

    @property
    def signature(self) -> str:
        kind = "list[str]" if isinstance(self.value, list) else "str"
        return f"{self.input}: {kind}, question: str -> answer: {self.type}"

    @property
    def input(self) -> str:
        return {"judge": "questions", "read": "text"}.get(self.kind, "log")


Compute = Callable[[list[str]], Any]


def having(pattern: str) -> Compute:
    """Return how many lines have a pattern."""
    return lambda lines: sum(bool(re.search(pattern, line)) for line in lines)


def found(pattern: str) -> Callable[[list[str]], list[str]]:
    """Return what the group of a pattern is, in each line that has it."""
    return lambda lines: [one[1] for line in lines if (one := re.search(pattern, line))]


def distinct(pattern: str) -> Compute:
    return lambda lines: len(set(found(pattern)(lines)))


def top(pattern: str) -> Compute:
    return lambda lines: Counter(found(pattern)(lines)).most_common(1)[0][0]


def groups(pattern: str) -> Compute:
    return lambda lines: dict(Counter(found(pattern)(lines)))


def total(pattern: str) -> Compute:
    return lambda lines: sum(map(int, found(pattern)(lines)))


_ANDROID = r"^\S+ \S+\s+(\d+)\s+\d+ "
_TAG = r"^\S+ \S+\s+\d+\s+\d+ \w ([^:]+?)\s*:"
LOGS: dict[str, list[tuple[str, str, str, Compute]]] = {
    "Android": [
        ("count", "How many times were the lights set on?", "int", having(r"setLightsOn\(true\)")),
        ("count", "How many warnings (level W) are in the log?", "int", having(r"^\S+ \S+\s+\d+\s+\d+ W ")),
        ("count", "How many lines say that a caller does not hold REAL_GET_TASKS?", "int", having("does not hold REAL_GET_TASKS")),
        ("top", "Which process id has the most lines?", "int", lambda lines: int(top(_ANDROID)(lines))),
        ("top", "Which component (the name before the message) writes the most lines?", "str", top(_TAG)),
        ("distinct", "How many different process ids are there?", "int", distinct(_ANDROID)),
        ("distinct", "How many different lock numbers were acquired?", "int", distinct(r"acquire lock=(\d+)")),
        ("sum", "What is the sum of all values of brightnessIn?", "int", total(r"brightnessIn =(\d+)")),
        ("groups", "How many lines are there of each level (D, I, V, W, E)?", "dict[str, int]", groups(r"^\S+ \S+\s+\d+\s+\d+ (\w) ")),
        ("groups", "How many acquired locks have which tag?", "dict[str, int]", groups(r"acquire lock=.*?tag=\"([^\"]*)\"")),
        ("top", "Which caller id is most often refused for not holding REAL_GET_TASKS?", "int", lambda lines: int(top(r"caller (\d+) does not hold REAL_GET_TASKS")(lines))),
        ("count", "How many locks were released?", "int", having("release:lock=")),
    ],
    "Windows": [
        ("count", "How many sessions were initialized?", "int", having("Session: .* initialized by client")),
        ("count", "How many warnings about an unrecognized attribute are there?", "int", having("Unrecognized packageExtended attribute")),
        ("count", "How many lines report that something failed?", "int", having(r"(?i)\bfailed\b")),
        ("top", "Which ApplicableState is the most frequent?", "int", lambda lines: int(top(r"ApplicableState: (\d+)")(lines))),
        ("top", "On which date are the most lines?", "str", top(r"^(\d{4}-\d\d-\d\d)")),
        ("distinct", "How many different KB numbers of packages are named?", "int", lambda lines: len(set(re.findall(r"KB\d+", "\n".join(lines))))),
        ("distinct", "How many different HRESULT codes are there?", "int", distinct(r"HRESULT = (0x[0-9a-f]+)")),
        ("sum", "What is the sum of all values of CurrentState?", "int", total(r"CurrentState:\s*(\d+)")),
        ("groups", "How many lines did CBS and CSI write, each?", "dict[str, int]", groups(r"^\S+ \S+ \w+\s+(\w+)")),
        ("groups", "How many lines have which HRESULT code?", "dict[str, int]", groups(r"HRESULT = (0x[0-9a-f]+)")),
        ("count", "How often was a registry hive unloaded?", "int", having("Unloading offline registry hive")),
        ("distinct", "On how many different days was something logged?", "int", distinct(r"^(\d{4}-\d\d-\d\d)")),
    ],
    "Hadoop": [
        ("count", "How many times did it fail to renew a lease?", "int", having("Failed to renew lease")),
        ("count", "How many errors (level ERROR) are in the log?", "int", having(r"^\S+ \S+ ERROR ")),
        ("count", "How many address changes were detected?", "int", having("Address change detected")),
        ("top", "Which server (host:port) was most often connected to again ('Retrying connect')?", "str", top(r"Retrying connect to server: ([^\s]+:\d+)")),
        ("top", "Which thread (in square brackets) wrote the most lines?", "str", top(r"^\S+ \S+ \w+ \[([^\]]*)\]")),
        ("distinct", "How many different task attempts report progress?", "int", distinct(r"Progress of TaskAttempt (\S+)")),
        ("distinct", "How many different hosts were resolved to a rack?", "int", distinct(r"Resolved (\S+) to")),
        ("sum", "How many seconds do all failures to renew a lease name together?", "int", total(r"Failed to renew lease.* for (\d+) seconds")),
        ("groups", "How many lines are there of each level?", "dict[str, int]", groups(r"^\S+ \S+ ([A-Z]+) ")),
        ("groups", "How many retries to connect have already been tried how many times?", "dict[str, int]", groups(r"Already tried (\d+) time")),
        ("count", "How many tasks went from NEW to SCHEDULED?", "int", having(r"Task Transitioned from NEW to SCHEDULED")),
        ("distinct", "How many different classes (org.apache...) write to the log?", "int", distinct(r"\] (org\.apache\.[\w.$]+):")),
    ],
    "BGL": [
        ("count", "How many fatal messages are there?", "int", having(r" RAS \w+ FATAL ")),
        ("count", "How many instruction cache parity errors were corrected?", "int", having("instruction cache parity error corrected")),
        ("count", "How many interrupts by data TLB errors were there?", "int", having("data TLB error interrupt")),
        ("top", "Which node has the most lines?", "str", top(r"^\S+ \d+ \S+ (\S+)")),
        ("top", "Which program is most often named as missing or invalid ('Error loading')?", "str", top(r"Error loading (\S+?): invalid or missing program image")),
        ("distinct", "How many different nodes write lines?", "int", distinct(r"^\S+ \d+ \S+ (\S+)")),
        ("distinct", "On how many different dates was something logged?", "int", distinct(r"^\S+ \d+ (\d{4}\.\d\d\.\d\d)")),
        ("sum", "How many core files did ciod generate in all?", "int", total(r"ciod: generated (\d+) core files")),
        ("sum", "How many double-hummer alignment exceptions were there in all?", "int", total(r"(\d+) double-hummer alignment exceptions")),
        ("groups", "How many lines are there of each level (INFO, WARNING, ERROR, SEVERE, FATAL, FAILURE)?", "dict[str, int]", groups(r" (INFO|WARNING|ERROR|SEVERE|FATAL|FAILURE) ")),
        ("groups", "How many lines did KERNEL, APP, DISCOVERY and the other components write, each?", "dict[str, int]", groups(r" (?:RAS|NULL) (\w+) ")),
        ("count", "How many lines tell of a core that is generated (generating core)?", "int", having("generating core")),
    ],
    "Thunderbird": [
        ("count", "How many sessions were opened for root?", "int", having("session opened for user root")),
        ("count", "How often did a datasource not answer?", "int", having("got not answer from any")),
        ("count", "How many times was it synchronized?", "int", having("synchronized to")),
        ("top", "To which server was it synchronized most often?", "str", top(r"synchronized to ([\d.]+)")),
        ("top", "Which datasource (in square brackets) failed to answer most often?", "str", top(r"any \[(\w+)\] datasource")),
        ("distinct", "How many different servers was it synchronized to?", "int", distinct(r"synchronized to ([\d.]+)")),
        ("distinct", "How many different hardware addresses sent a DHCPDISCOVER?", "int", distinct(r"DHCPDISCOVER from ([0-9a-f:]{17})")),
        ("sum", "What is the sum of all strata that were synchronized to?", "int", total(r"synchronized to .*stratum (\d+)")),
        ("groups", "How many synchronizations are there of each stratum?", "dict[str, int]", groups(r"synchronized to .*stratum (\d+)")),
        ("groups", "How many sessions were opened and closed for root, each ('opened', 'closed')?", "dict[str, int]", groups(r"session (opened|closed) for user root")),
        ("count", "How many illegal attempts to update were there?", "int", having("illegal attempt to update")),
        ("distinct", "How many different configuration files were read (Reading included configuration file)?", "int", distinct(r"Reading included configuration file: (\S+)")),
    ],
}  # fmt: skip


def log_questions(folder: Path) -> Iterator[Question]:
    """Yield the questions about logs, those of each log in turn."""
    texts = {name: (folder / f"{name}_2k.log").read_text(encoding="utf-8", errors="replace") for name in LOGS}
    for at in range(max(map(len, LOGS.values()))):
        for name, asked in LOGS.items():
            if at < len(asked):
                kind, text, type, compute = asked[at]
                yield Question(name, kind, text, type, texts[name], compute(texts[name].splitlines()))


_CLASSES = {
    "HUM": "ask about a person or a group",
    "LOC": "ask about a place",
    "NUM": "ask for a number or a date",
    "DESC": "ask for a definition, a reason or a description",
}


def judged_questions(folder: Path, count: int = 15, items: int = 20, seed: int = 11) -> Iterator[Question]:
    """Yield questions about lists of TREC questions, which nothing but judgement can label."""
    lines = (folder / "train.txt").read_text(encoding="latin-1").splitlines()
    labelled = [(line.partition(":")[0], line.split(" ", 1)[1]) for line in lines]
    rng = random.Random(seed)
    for number in range(count):
        taken = rng.sample(labelled, items)
        name = list(_CLASSES)[number % len(_CLASSES)]
        right = sum(label == name for label, _ in taken)
        yield Question(
            f"TREC {number}", "judge", f"How many of the questions {_CLASSES[name]}?", "int", [text for _, text in taken], right
        )  # fmt: skip


READ = [
    ("1998-Clinton", "How many schools should communities be helped to modernize or build?", "int", "build 5,000 schools", 5000),
    ("1999-Clinton", "How many new teachers were to be hired to reduce class size?", "int", "hiring 100,000 new teachers", 100000),
    ("1996-Clinton", "How many billion dollars were saved by fighting health care fraud and abuse?", "int", "saved $15 billion", 15),
    ("1976-Ford", "How many additional Federal agents does the budget recommend?", "int", "500 additional Federal agents", 500),
    ("1985-Reagan", "How many straight months of economic growth were there?", "int", "25 straight months", 25),
    ("1990-Bush", "Of which country is Vaclav Havel President?", "str", "Vaclav Havel, President of Czechoslovakia", "Czechoslovakia"),
    ("1986-Reagan", "How old is Shelby Butler?", "int", "13-year-old Shelby Butler", 13),
    ("1995-Clinton", "Who is the police chief of Kansas City?", "str", "Chief Stephen Bishop", "Stephen Bishop"),
    ("1996-Clinton", "How many people with criminal records did the Brady bill stop from buying guns?", "int", "stopped 44,000 people", 44000),
    ("1982-Reagan", "How many pages fewer were there in the Federal Register?", "int", "23,000 fewer pages", 23000),
    ("1997-Clinton", "How many young people has AmeriCorps helped to work their way through college?", "int", "helped 70,000 young people", 70000),
    ("1976-Ford", "How much, at most, would a person after age 65 pay for hospital care in a year, in dollars?", "int", "more than $500 a year", 500),
]  # fmt: skip
_AROUND = 1_600


def read_questions(folder: Path) -> Iterator[Question]:
    """Yield questions that one has to read for: about the part of an address around the sentence with the answer."""
    for name, text, type, sentence, answer in READ:
        address = (folder / f"{name}.txt").read_text(encoding="utf-8", errors="replace")
        address = re.sub(r"[ \t]*\n[ \t]*", "\n", address)
        at = re.search(re.escape(sentence).replace(r"\ ", r"\s+"), address)
        assert at is not None, f"{sentence!r} is not in {name}"
        yield Question(name, "read", text, type, address[max(0, at.start() - _AROUND) : at.end() + _AROUND], answer)


def questions(folder: Path) -> list[Question]:
    """Return all questions: four about logs, then one about a list and one about an address, and so on."""
    logs, judged = list(log_questions(folder / "logs")), judged_questions(folder / "questions")
    texts = read_questions(folder / "prose")
    found: list[Question] = []
    for start in range(0, len(logs), 4):
        found += logs[start : start + 4]
        found += [one for kind in (judged, texts) if (one := next(kind, None)) is not None]
    return found
