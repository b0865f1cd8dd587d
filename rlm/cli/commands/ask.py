"""`rlm ask`: one question in a session, for scripts."""

from __future__ import annotations

import sys
from typing import Any

import click

from .. import exit_codes
from ..options import ending_options
from ..session_runner import ask_and_follow, complete_session, opened, rebuilt_text, session_errors, show_result


@click.command("ask", short_help="Ask a question in a session.")
@click.argument("session_id", metavar="SESSION", shell_complete=complete_session)
@click.argument("question")
@click.option("--signature", metavar="TEXT", help="For this question: '... -> total: float'.")
@click.option("--resume", is_flag=True, help="First go on with the question that was interrupted, if there is one.")
@ending_options
@click.pass_context
def command(
    ctx: click.Context, /, session_id: str, question: str, signature: str | None, resume: bool, **options: Any
) -> None:
    """Ask QUESTION in a session that `rlm chat` or an earlier `rlm ask` has left, and print how it ended.

    The kernel is rebuilt from the recorded cells; no model is asked again for that. `-` reads the question from
    standard input.

    \b
    Example:
      rlm ask 3f2a "And how many on Sunday?"
      rlm ask 3f2a "The total?" --signature "... -> total: float" --json | jq .outputs.total

    \b
    Exit codes: 0 answered, 1 no acceptable answer (with --strict, also an extracted one),
    2 bad file or usage, 3 internal error, 4 environment, 130 interrupted.
    """
    from ..console import answer_only

    text = sys.stdin.read() if question == "-" else question
    with answer_only() as output, opened(session_id) as session, session_errors():
        if session.chat.unfinished is not None:
            if resume:
                ask_and_follow(session, None, quiet=options["quiet"])
            else:
                click.echo("The last question has no answer; --resume goes on with it first.", err=True)
        result, interrupted = ask_and_follow(session, text, quiet=options["quiet"], signature=signature)
        if not options["quiet"] and (rebuilt := rebuilt_text(session)) is not None:
            click.echo(rebuilt, err=True)
        code = show_result(result, session, output, options)
    if interrupted:
        click.echo(f"Interrupted. To go on with it: rlm sessions resume {session.chat.id}", err=True)
        code = exit_codes.INTERRUPTED
    ctx.exit(code)
