"""Questions on the command line: a session opened, a question asked and shown while it is answered."""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

import click
from click.shell_completion import CompletionItem

from .runner import FLUSH_S, exit_code, guarded, telemetry, until_interrupted

if TYPE_CHECKING:
    from ..chat.journal import Journal
    from ..results import ExecutionResult
    from ..task_session import TaskSession

_COMPLETED = 50


def complete_session(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Return the ids of the latest sessions that begin like this, for the completion of shells."""
    from ..chat.journal import list_sessions

    found = [session for session in list_sessions()[0] if session.id.startswith(incomplete)]
    return [CompletionItem(session.id, help=session.title) for session in found[:_COMPLETED]]


@contextlib.contextmanager
def session_errors() -> Iterator[None]:
    """Turn what is wrong with a session, or with the inputs of a question, into usage errors."""
    from ..chat.errors import SessionError
    from ..signatures import InvalidInputs, SignatureError
    from ..traces.encoding import InputNotRecorded

    try:
        yield
    except (SessionError, InvalidInputs, SignatureError, InputNotRecorded) as error:
        raise click.UsageError(str(error)) from None


@contextlib.contextmanager
def opened(session_id: str) -> Iterator[TaskSession]:
    """Open a session of a task that is on disk, and close it."""
    from ..task_session import reopen_session
    from . import preflight

    with session_errors():
        session = reopen_session(session_id)
    try:
        preflight.require(session.task)
        yield session
    finally:
        session.chat.close()


@contextlib.contextmanager
def journal_of(session_id: str) -> Iterator[Journal]:
    """Open the journal of a session for reading."""
    from ..chat.journal import Journal, find_journal

    with session_errors():
        journal = Journal.open(find_journal(session_id), read_only=True)
    with contextlib.closing(journal):
        yield journal


def ask_and_follow(
    session: TaskSession, text: str | None, *, quiet: bool = False, **options: Any
) -> tuple[ExecutionResult[Any], bool]:
    """Ask a question, or go on with the one that was interrupted where `text` is None, and show it meanwhile.

    Return the result, and whether Ctrl-C stopped the question.
    """
    from ..events import fan_out
    from ..traces.writer import TraceWriter, default_observer
    from .progress.lines import choose_view

    view, writer = choose_view(quiet), default_observer()
    observe = fan_out(guarded(view), telemetry())
    with session_errors():
        if text is None:
            run = session.chat.start_resume(observe=observe)
        else:
            run = session.start(text, observe=observe, **options)
    if session.task.mcp is not None:
        from .approval_prompt import ask_at_terminal

        ask_at_terminal(session.task, view)
    view.start(session.task, announce=False)
    try:
        return asyncio.run(until_interrupted(run, run.cancel))
    except BaseException:
        run.cancel()
        raise
    finally:
        view.stop()
        if isinstance(writer, TraceWriter):
            writer.flush(FLUSH_S)


def show_result(result: ExecutionResult[Any], session: TaskSession, output: Any, options: Mapping[str, Any]) -> int:
    """Print the result of a question as `rlm run` does, and return the exit code."""
    from .console import print_json, print_page
    from .pages.result import result_page

    if options["as_json"]:
        questions = session.chat.questions
        about = {"session": session.chat.id, "question": questions[-1].number if questions else None}
        print_json({**json.loads(result.to_json()), **about}, output, indent=2 if output.isatty() else None)
    else:
        print_page(result_page(result), output)
    return exit_code(result, options["strict"])


def rebuilt_text(session: TaskSession) -> str | None:
    """Return how the kernel was rebuilt, for people; None where it was not."""
    from .console import count, duration

    rebuilt = session.chat.rebuilt
    if rebuilt is None:
        return None
    skipped = f", {count(rebuilt.skipped, 'cell')} left out that had only read" if rebuilt.skipped else ""
    text = f"The kernel was rebuilt: {count(rebuilt.cells, 'cell')} ran again in {duration(rebuilt.seconds)}{skipped}."
    return text + (f" These came out different: {', '.join(rebuilt.different)}." if rebuilt.different else "")
