"""`rlm sessions`: sessions on disk, listed, shown, opened again, closed, exported."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from ..main import CommandGroup
from ..session_runner import complete_session, journal_of, session_errors


@click.group("sessions", cls=CommandGroup, short_help="Look at sessions, open them again, export them.")
def command() -> None:
    """Look at sessions of several questions. One is named by its id, or by the first characters of it.

    \b
    Example:
      rlm sessions list
      rlm sessions show 3f2a
      rlm sessions resume 3f2a
      rlm sessions export 3f2a --to ipynb
      rlm sessions close 3f2a --delete
    """


@command.command("list")
@click.option("--all", "everything", is_flag=True, help="Also sessions that were closed.")
@click.option("-n", "--limit", type=click.IntRange(1), default=50, show_default=True, help="At most N sessions.")
@click.option("--json", "as_json", is_flag=True, help="JSON, one object a line.")
def list_all(everything: bool, limit: int, as_json: bool) -> None:
    """List the sessions on this machine, the latest first."""
    from dataclasses import asdict

    from ...chat.journal import list_sessions
    from ..console import clean, print_json, print_page
    from ..pages.session import sessions_table

    sessions, problems = list_sessions()
    for problem in problems:
        click.echo(f"not read: {clean(problem)}", err=True)
    sessions = [session for session in sessions if everything or not session.closed]
    if as_json:
        for session in sessions[:limit]:
            print_json({**asdict(session), "path": str(session.path)})
        return
    if not sessions:
        click.echo("There are no sessions. `rlm chat task.yaml` opens one.", err=True)
        return
    print_page(sessions_table(sessions[:limit]))
    if len(sessions) > limit:
        click.echo(f"{len(sessions) - limit:,} more: --limit {len(sessions)} shows all.", err=True)


@command.command("show")
@click.argument("session_id", metavar="SESSION", shell_complete=complete_session)
@click.option("--cells", is_flag=True, help="Also the cells, with the end of their output.")
@click.option("--json", "as_json", is_flag=True, help="One JSON object.")
def show(session_id: str, cells: bool, as_json: bool) -> None:
    """Show one session: its questions, answers and variables. Each question is a run: `rlm runs show RUN`."""
    from ...chat.export import session_json
    from ...chat.kernel import cells_of
    from ..console import print_json, print_page
    from ..pages.session import cells_page, session_page

    with journal_of(session_id) as journal:
        if as_json:
            print_json(session_json(journal, cells=cells))
            return
        print_page(session_page(journal))
        if cells:
            print_page(cells_page([cell for question in journal.questions() for cell in cells_of(journal, question)]))


@command.command("resume")
@click.argument("session_id", metavar="SESSION", shell_complete=complete_session)
@click.pass_context
def resume(ctx: click.Context, session_id: str) -> None:
    """Open a session again, as `rlm chat` does. A question that was cut off goes on first; no model is asked twice."""
    from .chat import converse_again

    ctx.exit(converse_again(session_id))


@command.command("close")
@click.argument("session_ids", metavar="SESSION...", nargs=-1, required=True, shell_complete=complete_session)
@click.option("--delete", is_flag=True, help="Delete its journal. The traces of its runs stay.")
def close(session_ids: tuple[str, ...], delete: bool) -> None:
    """Close sessions: `list` leaves them out, and `resume` opens them again. With --delete they are gone."""
    from ...chat.journal import Journal, delete_journal, find_journal

    for session_id in session_ids:
        with session_errors():
            path = find_journal(session_id)
            if delete:
                delete_journal(path)
            else:
                journal = Journal.open(path)
                journal.update_about(closed=True)
                journal.close()
        click.echo(f"{'Deleted' if delete else 'Closed'} {path.stem}.")


@command.command("export")
@click.argument("session_id", metavar="SESSION", shell_complete=complete_session)
@click.option("--to", "form", type=click.Choice(["ipynb", "json", "md"]), required=True, help="The format.")
@click.option("-o", "--output", type=click.Path(dir_okay=False, allow_dash=True), help="The file; `-` prints it.")
def export_session(session_id: str, form: str, output: Any) -> None:
    """Write one session to a file: a notebook that runs again in the sandboxed kernel, JSON, or text to read."""
    from ...chat.export import export
    from ..console import write_file

    with journal_of(session_id) as journal:
        text, notes = export(journal, form)
        name = journal.about["id"]
    if output == "-":
        click.echo(text, nl=False)
    else:
        write_file(Path(output or f"{name}.{form}"), text)
    for note in notes:
        click.echo(note, err=True)
