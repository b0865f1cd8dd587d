"""How the command line ends: the exit codes, and what is said about errors. Exceptions become codes only here."""

from __future__ import annotations

import errno
import os
import sys
import traceback
from collections.abc import Sequence
from pathlib import Path

import click

from .console import lead_nowhere

ANSWERED = 0
NO_ANSWER = 1
USAGE = 2
INTERNAL = 3
ENVIRONMENT = 4
INTERRUPTED = 130

EPILOG = """\b
Exit codes: 0 answered, 1 no acceptable answer, 2 bad file or usage, 3 internal error,
4 environment (no isolation, missing key or package), 130 interrupted."""

_OURS = ("rlm", "sandbox")
_FULL = (errno.ENOSPC, errno.EDQUOT)


class EnvironmentProblem(Exception):
    """Something that this machine lacks; the message says what to do about it."""


def guard(command: click.Command, arguments: Sequence[str] | None) -> int:
    """Run a command; whatever becomes of it is an exit code."""
    try:
        code = command.main(None if arguments is None else list(arguments), prog_name="rlm", standalone_mode=False)
        sys.stdout.flush()
        return code if isinstance(code, int) else ANSWERED
    except click.ClickException as error:
        error.show()
        return USAGE
    except (click.Abort, KeyboardInterrupt):
        _say("Interrupted.")
        return INTERRUPTED
    except BrokenPipeError:  # whoever read our output has gone
        lead_nowhere(1)
        return NO_ANSWER
    except Exception as error:
        return explain(error)


def explain(error: Exception) -> int:
    """Say what went wrong, on standard error, and give its exit code."""
    from sandbox.errors import IsolationUnavailable, KernelStartError

    from ..models.local.gguf.errors import WeightsError
    from ..tasks.errors import TaskError

    if isinstance(error, TaskError):
        _say("\n".join(map(str, error.problems)))
        return USAGE
    if isinstance(error, OSError) and error.errno in _FULL:
        lead_nowhere(1)
        _say(f"rlm: nothing more can be written: {error}")
        return ENVIRONMENT
    if isinstance(error, EnvironmentProblem | WeightsError) or _is_local_model_error(error):
        _say(f"rlm: {error}")
        return ENVIRONMENT
    if isinstance(error, IsolationUnavailable | KernelStartError):
        _say(f"rlm: {error}\n`rlm doctor` says what works here and how to change it.")
        return ENVIRONMENT
    if isinstance(error, ModuleNotFoundError) and (error.name or "rlm").partition(".")[0] not in _OURS:
        _say(f"rlm: the package {error.name!r} is missing; `{missing_package_advice()}` installs everything.")
        return ENVIRONMENT
    if os.environ.get("RLM_DEBUG") == "1":
        traceback.print_exception(error)
    else:
        what = " ".join(f"{type(error).__name__}: {error}".split())[:300]
        _say(
            f"rlm: internal error{_place_of(error)}: {what}. Please report it with what "
            "`rlm doctor` and the same command with RLM_DEBUG=1 print."
        )
    return INTERNAL


def missing_package_advice() -> str:
    """How to install this package with all that it needs."""
    return f"{Path(sys.executable).name} -m pip install --upgrade rlm-kernel"


def _is_local_model_error(error: Exception) -> bool:
    # By its name: its module imports dspy, which takes seconds.
    return any(kind.__name__ == "LocalModelError" for kind in type(error).__mro__)


def _place_of(error: Exception) -> str:
    """Where in our code it happened."""
    home = Path(__file__).parents[2]
    for frame in reversed(traceback.extract_tb(error.__traceback__)):
        file = Path(frame.filename)
        if file.is_relative_to(home) and file.relative_to(home).parts[0] in _OURS:
            return f" in {file.relative_to(home).as_posix()}:{frame.lineno}"
    return ""


def _say(text: str) -> None:
    from .formatting import clean

    try:
        click.echo(clean(text), err=True)
    except OSError:  # the exit code says it, too
        lead_nowhere(2)
