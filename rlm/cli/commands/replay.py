"""`rlm replay`: a run on record again, from its recording, and every difference."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from .. import exit_codes

if TYPE_CHECKING:
    from ...replay import Replay


@click.command("replay", short_help="Run a recorded run again and report differences.")
@click.argument("run_id", metavar="RUN")
@click.option("--json", "as_json", is_flag=True, help="One JSON object on standard output, and nothing else there.")
@click.pass_context
def command(ctx: click.Context, /, run_id: str, as_json: bool) -> None:
    """Run a run on record again: its code in a fresh sandbox, all answers of models and tools from the recording.

    Every cell that printed something else is reported, and whether the ending is the same. Exit code 0 if all is the
    same, 1 if not. Code that depends on the time, on random numbers or on the order of a set differs.

    \b
    Example:
      rlm replay 3f2a
    """
    import asyncio

    from ...replay import replay
    from ..console import answer_only
    from ..recorded_tasks import recorded_task, usable

    with answer_only() as output:
        run = usable(run_id)
        made = asyncio.run(replay(run, recorded_task(run, _NOTHING)))
        output.write(_json(run.id, made) if as_json else _text(run.id, made))
    ctx.exit(exit_codes.ANSWERED if made.same else exit_codes.NO_ANSWER)


class _Nothing(dict[str, Any]):
    """Options that were not given."""

    def __missing__(self, name: str) -> None:
        return None


_NOTHING = _Nothing()


def _text(run_id: str, made: Replay) -> str:
    from ..formatting import clean, count

    lines = [f"Run {run_id} again: {count(made.iterations, 'iteration')}, no model was asked."]
    for one in made.differences:
        lines += ["", f"Iteration {one.iteration} printed something else:", *_diff(one.recorded, one.now)]
    if not made.differences:
        lines.append("Every cell printed what it had printed.")
    now = made.result.to_dict()
    if made.unfinished:
        lines.append(f"The recording ends before the run did; `rlm resume {run_id}` goes on.")
    elif made.same_ending:
        lines.append(f"It ended as before: {now['status']}.")
    else:
        lines.append(f"It had ended as {made.recorded_ending} with {made.recorded_outputs}; now it is {now['status']}")
        lines.append(f"with {now.get('outputs')}.")
    return "".join(f"{clean(line)}\n" for line in lines)


def _diff(recorded: str, now: str) -> list[str]:
    import difflib

    lines = list(difflib.unified_diff(recorded.splitlines(), now.splitlines(), "recorded", "now", lineterm="", n=1))
    return ["  " + line[:200] for line in lines[:40]] + (["  ..."] if len(lines) > 40 else [])


def _json(run_id: str, made: Replay) -> str:
    import dataclasses
    import json

    from ..console import safe_json

    told = {
        "run": run_id,
        "same": made.same,
        "iterations": made.iterations,
        "unfinished": made.unfinished,
        "differences": [dataclasses.asdict(one) for one in made.differences],
        "recorded": {"ending": made.recorded_ending, "outputs": made.recorded_outputs},
        "now": made.result.to_dict(),
    }
    return safe_json(json.dumps(told, ensure_ascii=False)) + "\n"
