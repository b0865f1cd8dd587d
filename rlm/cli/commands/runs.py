"""`rlm runs`: what is on record of runs. Listed, shown, compared, exported, pruned."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from rich.console import Console

    from ...traces import RunRecord, Runs

_NAMED = 20
_ENDINGS = ("submitted", "extracted", "failed", "running", "unfinished")


def _duration(ctx: click.Context, param: click.Parameter, value: str | None) -> Any:
    from ...tasks.units import parse_duration

    return _parsed(ctx, param, value, parse_duration)


def _size(ctx: click.Context, param: click.Parameter, value: str | None) -> Any:
    from ...tasks.units import parse_size

    return _parsed(ctx, param, value, parse_size)


def _parsed(ctx: click.Context, param: click.Parameter, value: str | None, parse: Callable[[str], Any]) -> Any:
    try:
        return None if value is None else parse(value)
    except ValueError as error:
        raise click.BadParameter(str(error), ctx, param) from None


@click.group("runs", short_help="Look at recorded runs.")
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
@click.option("--ending", type=click.Choice(_ENDINGS), help="Only runs that ended like this.")
@click.option("--search", metavar="TEXT", help="Only runs with this text in id, task, model, reason or answer.")
@click.option(
    "--batch", type=click.Path(dir_okay=False), metavar="RESULTS", help="Only runs of the batch with these results."
)
@click.option("--all", "everything", is_flag=True, help="Child runs, too.")
@click.option("-n", "--limit", type=click.IntRange(1), default=50, show_default=True, help="At most so many.")
@click.option("--json", "as_json", is_flag=True, help="JSON, one object a line.")
def list_runs(
    ending: str | None, search: str | None, batch: str | None, everything: bool, limit: int, as_json: bool
) -> None:
    """List recorded runs, the newest first."""
    from ..pages.recorded_runs import RunsTable

    runs = _load()
    found = (runs if everything else runs.roots).where(ending=ending, search=search)
    if batch is not None:
        from ..pages.recorded_runs import batch_of

        found = type(found)([run for run in found if batch_of(run)[0] == os.path.realpath(batch)], found.skipped)
    if as_json:
        for run in found[:limit]:
            _say_json(run.to_dict())
        return
    if not found:
        click.echo("No runs match." if runs else "No runs are on record yet.", err=True)
        return
    _print(RunsTable(found[:limit]))
    if len(found) > limit:
        click.echo(f"{len(found) - limit:,} more: --limit {len(found)} shows all.", err=True)


@command.command("show")
@click.argument("run_id", metavar="RUN")
@click.option("--iteration", type=click.IntRange(1), help="Only this iteration, with nothing cut.")
@click.option("--json", "as_json", is_flag=True, help="One JSON object with everything on record.")
def show_run(run_id: str, iteration: int | None, as_json: bool) -> None:
    """Show one run: how it ended, what it used, each iteration, and what the answer rests on."""
    run = _find(run_id)
    if as_json:
        from ...traces.export.formats import run_json

        _say_json(run_json(run, iteration))
        return
    from ..pages.recorded_runs import iteration_page, run_page

    if iteration is None:
        _print(run_page(run))
        return
    for one in run.iterations:
        if one.number == iteration:
            _print(iteration_page(one, cut=False))
            return
    raise click.UsageError(f"Run {run.id} has no iteration {iteration}; it has {run.iterations_used}.")


@command.command("diff")
@click.argument("first", metavar="RUN")
@click.argument("second", metavar="OTHER")
@click.option("--json", "as_json", is_flag=True, help="JSON.")
def diff_runs(first: str, second: str, as_json: bool) -> None:
    """Compare two runs: what they started from, where they parted, and how each ended."""
    from ...traces.diff import compare

    difference = compare(_find(first), _find(second))
    if as_json:
        _say_json(difference.to_dict())
        return
    from ..pages.run_diff import difference_page

    _print(difference_page(difference))


@command.command("export")
@click.argument("run_id", metavar="RUN")
@click.option("--to", "form", type=click.Choice(["json", "jsonl", "ipynb"]), required=True, help="The form.")
@click.option("-o", "--output", type=click.Path(dir_okay=False, allow_dash=True), help="The file; `-` prints it.")
def export_run(run_id: str, form: str, output: str | None) -> None:
    """Write one run to a file: JSON, its events line by line, or a notebook that runs again in the sandboxed kernel."""
    from pathlib import Path

    from ...traces.export.formats import export
    from ..recorded_tasks import of_the_answer

    run = _find(run_id)
    if form == "ipynb" and run.beginning.get("loop_id"):
        run = of_the_answer(run)  # a run with plans has no cells of its own
    text, notes = export(run, form)
    if output == "-":
        click.echo(text, nl=False)
    else:
        target = Path(output or f"{run.id}.{form}")
        target.write_text(text, encoding="utf-8")
        click.echo(f"Wrote {target} ({len(text.encode()):,} bytes).", err=True)
    for note in notes:
        click.echo(note, err=True)


@command.command("prune")
@click.option("--older", metavar="AGE", callback=_duration, help="Runs that started longer ago than this: 12h, 30d.")
@click.option("--keep-bytes", metavar="SIZE", callback=_size, help="The oldest, until the rest takes no more: 2GB.")
@click.option("--dry-run", is_flag=True, help="Only say what would be removed.")
def prune_runs(older: float | None, keep_bytes: int | None, dry_run: bool) -> None:
    """Remove old runs. Child runs go with their parents; files that are being written are left alone."""
    from ...traces.prune import prune
    from ..formatting import clean, count
    from ..pages.recorded_runs import size

    if older is None and keep_bytes is None:
        raise click.UsageError("Say what to remove: --older 30d, --keep-bytes 2GB, or both.")
    done = prune(older=older, keep_bytes=keep_bytes, dry_run=dry_run)
    verb = "Would remove" if dry_run else "Removed"
    for run in done.removed[:_NAMED]:
        click.echo(f"{verb.lower()} {clean(run.id)}, {run.ending}, {clean(run.task or run.name)[:60]}")
    if len(done.removed) > _NAMED:
        click.echo(f"and {len(done.removed) - _NAMED:,} more")
    about = " (estimated)" if dry_run else ""
    click.echo(
        f"{verb} {count(len(done.removed), 'run')}: {size(done.before)} before, {size(done.after)} after{about}."
    )
    for note in done.notes:
        click.echo(note, err=True)


def _load() -> Runs:
    from ...traces import load
    from ..formatting import clean

    runs = load()
    for one in runs.skipped:
        click.echo(f"not read: {clean(one)}", err=True)
    return runs


def _find(prefix: str) -> RunRecord:
    from ...traces import UnknownRun

    try:
        return _load().run(prefix)
    except UnknownRun as error:
        raise click.UsageError(f"{error}. `rlm runs list --all` lists them.") from None


def _console() -> Console:
    from rich.console import Console

    console = Console(highlight=False)
    if not console.is_terminal:
        console.width = 120
    return console


def _print(page: Any) -> None:
    console = _console()
    with console.capture() as captured:
        console.print(page)
    click.echo("".join(line.rstrip() + "\n" for line in captured.get().splitlines()), nl=False)


def _say_json(value: Any) -> None:
    from ..console import safe_json

    click.echo(safe_json(json.dumps(value)))
