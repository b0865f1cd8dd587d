"""Suites: samples generated from a seed, at any length from 4k to 10M characters, and samples read from files."""

from __future__ import annotations

from .common_words import WORDS
from .counting import COMPARE, COUNT
from .custom import SuiteFileError, read_suite
from .hops import HOPS
from .letters import LETTERS
from .needles import NEEDLE, NEEDLE_KEYS, NEEDLE_VALUES
from .pairs import PAIRS
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

__all__ = ["MAX_LENGTH", "MIN_LENGTH", "SUITES", "Suite", "SuiteFileError", "read_suite"]
