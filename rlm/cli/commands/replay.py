"""`rlm replay`: run a recorded run again from its record, and report every difference."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from .. import exit_codes
from ..recorded_tasks import complete_run

if TYPE_CHECKING:
    from ...replay import Replay


@click.command("replay", short_help="Run a recorded run again and report differences.")
@click.argument("run_id", metavar="RUN", shell_complete=complete_run)
@click.option("--json", "as_json", is_flag=True, help="One JSON object on standard output, and nothing else.")
@click.pass_context
def command(ctx: click.Context, /, run_id: str, as_json: bool) -> None:
    """Run a recorded run again: its code in a fresh sandbox, every answer of a model or tool from the record.

    Each cell with another output is reported, and whether the ending is the same. Exit code 0 if all is the same,
    1 if not. Code that depends on the time, on random numbers or on the order of a set differs.

    \b
    Example:
      rlm replay 3f2a
    """
    import asyncio

    from ...replay import replay
    from ..console import answer_only, print_json
    from ..recorded_tasks import recorded_task, repeatable_run

    with answer_only() as output:
        run = repeatable_run(run_id)
        replayed = asyncio.run(replay(run, recorded_task(run, {})))
        if as_json:
            print_json(_to_dict(run.id, replayed), output)
        else:
            output.write(_text(run.id, replayed))
    ctx.exit(exit_codes.ANSWERED if replayed.same else exit_codes.NO_ANSWER)


def _text(run_id: str, replayed: Replay) -> str:
    from ..console import clean, count

    lines = [f"Run {run_id} again: {count(replayed.iterations, 'iteration')}, no model was asked."]
    if replayed.file_differences:
        lines += [
            "",
            "These inputs are not what they were:",
            *(f"  {file_difference}" for file_difference in replayed.file_differences),
        ]
    for difference in replayed.differences:
        lines += ["", f"Iteration {difference.iteration} has another output:"]
        lines += _diff(difference.recorded, difference.now)
    if not replayed.differences:
        lines.append("Every cell printed what it had printed.")
    result = replayed.result.to_dict()
    if replayed.unfinished:
        lines.append(f"The record ends before the run did; `rlm resume {run_id}` continues it.")
    elif replayed.same_ending:
        lines.append(f"It ended as before: {result['status']}.")
    else:
        lines.append(f"recorded: {replayed.recorded_ending} with {replayed.recorded_outputs}")
        lines.append(f"now:      {result['status']} with {result.get('outputs')}")
    return "".join(f"{clean(line)}\n" for line in lines)


def _diff(recorded: str, now: str) -> list[str]:
    import difflib

    lines = list(difflib.unified_diff(recorded.splitlines(), now.splitlines(), "recorded", "now", lineterm="", n=1))
    return ["  " + line[:200] for line in lines[:40]] + (["  ..."] if len(lines) > 40 else [])


def _to_dict(run_id: str, replayed: Replay) -> dict[str, Any]:
    import dataclasses

    return {
        "run": run_id,
        "same": replayed.same,
        "iterations": replayed.iterations,
        "unfinished": replayed.unfinished,
        "differences": [dataclasses.asdict(difference) for difference in replayed.differences],
        "file_differences": list(replayed.file_differences),
        "recorded": {"ending": replayed.recorded_ending, "outputs": replayed.recorded_outputs},
        "now": replayed.result.to_dict(),
    }
