"""`rlm runs`: recorded runs, listed, shown, compared, exported, pruned."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from ..main import CommandGroup
from ..recorded_tasks import complete_run

if TYPE_CHECKING:
    from ...traces import Runs

_NAMED = 20
_ENDINGS = ("submitted", "extracted", "failed", "running", "unfinished", "resumed")


def _duration(ctx: click.Context, param: click.Parameter, value: str | None) -> Any:
    from ...units import parse_duration

    return _parsed(ctx, param, value, parse_duration)


def _size(ctx: click.Context, param: click.Parameter, value: str | None) -> Any:
    from ...units import parse_size

    return _parsed(ctx, param, value, parse_size)


def _parsed(ctx: click.Context, param: click.Parameter, value: str | None, parse: Callable[[str], Any]) -> Any:
    try:
        return None if value is None else parse(value)
    except ValueError as error:
        raise click.BadParameter(str(error), ctx, param) from None


@click.group("runs", cls=CommandGroup, short_help="Look at recorded runs.")
def command() -> None:
    """Look at recorded runs. A run is named by its id, or by the first characters of it.

    \b
    Example:
      rlm runs list --ending failed
      rlm runs show 7fb3
      rlm runs diff 7fb3 a901
      rlm runs export 7fb3 --to ipynb
      rlm runs prune --older 30d --keep-bytes 2GB --dry-run
    """


@command.command("list")
@click.option("--ending", type=click.Choice(_ENDINGS), help="Only runs with this ending.")
@click.option("--search", metavar="TEXT", help="Only runs with this text in id, task, model, reason or answer.")
@click.option(
    "--batch", type=click.Path(dir_okay=False), metavar="RESULTS", help="Only runs of the batch with RESULTS."
)
@click.option("--all", "everything", is_flag=True, help="Also child runs.")
@click.option("-n", "--limit", type=click.IntRange(1), default=50, show_default=True, help="At most N runs.")
@click.option("--json", "as_json", is_flag=True, help="JSON, one object a line.")
def list_runs(
    ending: str | None, search: str | None, batch: str | None, everything: bool, limit: int, as_json: bool
) -> None:
    """List recorded runs, the newest first."""
    from ..console import print_json, print_page
    from ..pages.runs_table import RunsTable, batch_of

    runs = _load()
    found = (runs if everything else runs.roots).where(ending=ending, search=search)
    if batch is not None:
        results = os.path.realpath(batch)
        of_batch = {run.id for run in runs if batch_of(run)[0] == results}
        if not of_batch and not os.path.exists(batch):
            raise click.UsageError(f"{batch}: there is no such file, and no run of a batch with these results")
        found = type(found)([run for run in found if run.id in of_batch], found.skipped)
    if as_json:
        for run in found[:limit]:
            print_json(run.to_dict())
        return
    if not found:
        click.echo("No runs match." if runs else "No runs are recorded yet.", err=True)
        return
    print_page(RunsTable(found[:limit]))
    if len(found) > limit:
        click.echo(f"{len(found) - limit:,} more: --limit {len(found)} shows all.", err=True)


@command.command("show")
@click.argument("run_id", metavar="RUN", shell_complete=complete_run)
@click.option("--iteration", "number", type=click.IntRange(1), help="Only this iteration, in full.")
@click.option("--json", "as_json", is_flag=True, help="One JSON object with the whole record.")
def show_run(run_id: str, number: int | None, as_json: bool) -> None:
    """Show one run: its ending, its usage, each iteration, and the evidence for the answer."""
    from ..console import print_json, print_page
    from ..recorded_tasks import find_run

    run = find_run(run_id)
    if as_json:
        from ...traces.export.formats import run_json

        print_json(run_json(run, number))
        return
    from ..pages.run import iteration_page, run_page

    if number is None:
        print_page(run_page(run))
        return
    for iteration in run.iterations:
        if iteration.number == number:
            print_page(iteration_page(iteration, cut=False))
            return
    raise click.UsageError(f"Run {run.id} has no iteration {number}; it has {run.iterations_used}.")


@command.command("diff")
@click.argument("first", metavar="RUN", shell_complete=complete_run)
@click.argument("second", metavar="OTHER", shell_complete=complete_run)
@click.option("--json", "as_json", is_flag=True, help="One JSON object.")
def diff_runs(first: str, second: str, as_json: bool) -> None:
    """Compare two runs: their settings, where they part, and their endings."""
    from ...traces.diff import compare
    from ..console import print_json, print_page
    from ..recorded_tasks import find_run

    difference = compare(find_run(first), find_run(second))
    if as_json:
        print_json(difference.to_dict())
        return
    from ..pages.run_diff import difference_page

    print_page(difference_page(difference))


@command.command("export")
@click.argument("run_id", metavar="RUN", shell_complete=complete_run)
@click.option("--to", "form", type=click.Choice(["json", "jsonl", "ipynb"]), required=True, help="The format.")
@click.option("-o", "--output", type=click.Path(dir_okay=False, allow_dash=True), help="The file; `-` prints it.")
def export_run(run_id: str, form: str, output: str | None) -> None:
    """Write one run to a file: JSON, its events line by line, or a notebook that runs again in the sandboxed kernel."""
    from ...traces.export.formats import export
    from ..console import write_file
    from ..recorded_tasks import find_run, run_of_answer

    run = find_run(run_id)
    if form == "ipynb" and run.beginning.get("loop_id"):
        run = run_of_answer(run)  # a run with plans has no cells of its own
    text, notes = export(run, form)
    if output == "-":
        click.echo(text, nl=False)
    else:
        write_file(Path(output or f"{run.id}.{form}"), text)
    for note in notes:
        click.echo(note, err=True)


@command.command("training")
@click.option("--to", "form", type=click.Choice(["sft", "preferences", "verifiers"]), required=True, help="The form.")
@click.option("--search", metavar="TEXT", help="Only runs with this text in id, task, model, reason or answer.")
@click.option("--replay-check", is_flag=True, help="Leave out runs whose cells print something else when run again.")
@click.option("-o", "--output", required=True, type=click.Path(dir_okay=False, allow_dash=True), help="The file.")
def training(form: str, search: str | None, replay_check: bool, output: str) -> None:
    """Write training data from runs that submitted and that nothing disputes, a JSON object a line.

    `sft` has the conversations. `preferences` has pairs from runs with `agree`: one whose answer was taken, and one
    that gave another. `verifiers` has prompts with the answers, for environments that check them.

    \b
    Example:
      rlm runs training --to sft -o train.jsonl --search invoices --replay-check
    """
    import json

    from ...traces.export.training import is_example, training_lines
    from ..console import count, write_file

    runs = [run for run in _load().roots.where(search=search) if is_example(run)]
    same = [run for run in runs if not replay_check or _replays(run)]
    lines = [json.dumps(line, ensure_ascii=False, default=repr) for _, line in training_lines(same, form)]
    text = "".join(f"{line}\n" for line in lines)
    if output == "-":
        click.echo(text, nl=False)
    else:
        write_file(Path(output), text)
    left_out = f"; {count(len(runs) - len(same), 'run')} left out by --replay-check" if replay_check else ""
    click.echo(f"{count(len(lines), 'line')} from {count(len(same), 'run')}{left_out}.", err=True)


def _replays(run: Any) -> bool:
    """Return whether the cells of a run, and of those that it is made of, print the same when they run again."""
    import asyncio

    from ...replay import replay
    from ..recorded_tasks import recorded_task

    members = run.children if run.beginning.get("loop_id") else [run]
    try:
        return all(asyncio.run(replay(member, recorded_task(member, {}))).same for member in members)
    except (click.ClickException, ValueError):
        return False  # without its task file, or its inputs


@command.command("prune")
@click.option("--older", metavar="AGE", callback=_duration, help="Runs that started longer ago than this: 12h, 30d.")
@click.option("--keep-bytes", metavar="SIZE", callback=_size, help="The oldest runs, until the rest fits: 500MB, 2GiB.")
@click.option("--dry-run", is_flag=True, help="Only print what would be removed.")
def prune_runs(older: float | None, keep_bytes: int | None, dry_run: bool) -> None:
    """Remove old runs. Child runs go with their parents; files that are being written are left alone."""
    from ...traces.prune import prune
    from ...units import size_text
    from ..console import clean, count

    if older is None and keep_bytes is None:
        raise click.UsageError("Say what to remove: --older 30d, --keep-bytes 2GB, or both.")
    pruned = prune(older=older, keep_bytes=keep_bytes, dry_run=dry_run)
    verb = "Would remove" if dry_run else "Removed"
    for run in pruned.removed[:_NAMED]:
        click.echo(f"{verb.lower()} {clean(run.id)}, {run.ending}, {clean(run.task or run.name)[:60]}")
    if len(pruned.removed) > _NAMED:
        click.echo(f"and {len(pruned.removed) - _NAMED:,} more")
    estimated = " (estimated)" if dry_run else ""
    sizes = f"{size_text(pruned.before)} before, {size_text(pruned.after)} after{estimated}"
    click.echo(f"{verb} {count(len(pruned.removed), 'run')}: {sizes}.")
    for note in pruned.notes:
        click.echo(note, err=True)


def _load() -> Runs:
    from ...traces import load
    from ..console import clean

    runs = load()
    for reason in runs.skipped:
        click.echo(f"not read: {clean(reason)}", err=True)
    return runs
