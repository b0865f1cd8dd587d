"""The suites: samples generated from a seed, offline, at any length from 4k to 10M characters; and own ones."""

from __future__ import annotations

from .common_words import WORDS
from .counting import COMPARE, COUNT
from .custom import BadSuite, own
from .hops import HOPS
from .letters import LETTERS
from .needles import NEEDLE, NEEDLE_KEYS, NEEDLE_VALUES
from .pairs import PAIRS
from .suite import LONGEST, SHORTEST, Suite
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

__all__ = ["LONGEST", "SHORTEST", "SUITES", "BadSuite", "Suite", "own"]
