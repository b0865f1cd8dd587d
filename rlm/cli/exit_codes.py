"""The exit codes of every command, and the error for a machine that lacks something."""

from __future__ import annotations

import sys
from pathlib import Path

ANSWERED = 0
NO_ANSWER = 1
USAGE = 2
INTERNAL = 3
ENVIRONMENT = 4
INTERRUPTED = 130

EPILOG = """\b
Exit codes: 0 answered, 1 no acceptable answer, 2 bad file or usage, 3 internal error,
4 environment (no isolation, missing key or package), 130 interrupted."""


class EnvironmentProblem(Exception):
    """Something that this machine lacks; the message says what to do about it."""


def missing_package_advice() -> str:
    """Return the command that installs this package with everything it needs."""
    return f"{Path(sys.executable).name} -m pip install --upgrade rlm-kernel"
