"""Suites: samples generated from a seed, at any length from 4k to 10M characters, made up or from texts in a folder;
and samples read from files."""

from __future__ import annotations

from .common_words import WORDS
from .corpora import Corpora, CorpusMissing
from .counting import COMPARE, COUNT
from .custom import SuiteFileError, read_suite
from .hops import HOPS
from .letters import LETTERS
from .log_questions import LOGS
from .needles import NEEDLE, NEEDLE_KEYS, NEEDLE_VALUES
from .oolong import OOLONG
from .oolong_pairs import OOLONG_PAIRS
from .pairs import PAIRS
from .ruler import RULER
from .suite import MAX_LENGTH, MIN_LENGTH, Suite
from .sums import SUMS
from .variables import VARIABLES

SUITES: dict[str, Suite] = {
    suite.name: suite
    for suite in (
        *(NEEDLE, NEEDLE_KEYS, NEEDLE_VALUES, VARIABLES),
        *(COUNT, COMPARE, PAIRS),
        *(WORDS, SUMS, HOPS, LETTERS),
    )
}

"""Suites of made-up texts."""

TEXT_SUITES: dict[str, Suite] = {suite.name: suite for suite in (OOLONG, OOLONG_PAIRS, RULER, LOGS)}
"""Suites on texts in a folder."""

ALL_SUITES = {**SUITES, **TEXT_SUITES}

__all__ = [
    "ALL_SUITES",
    "MAX_LENGTH",
    "MIN_LENGTH",
    "SUITES",
    "TEXT_SUITES",
    "Corpora",
    "CorpusMissing",
    "Suite",
    "SuiteFileError",
    "read_suite",
]
