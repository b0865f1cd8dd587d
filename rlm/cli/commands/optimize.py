"""`rlm optimize`: better instructions and examples for a task, tested on rows that were kept back."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import click

from ..options import NumberRange, change_options, overrides

_OPTIMIZERS = ("gepa", "mipro", "copro", "simba", "bootstrap", "labeled")  # rlm.optimize.optimizers imports dspy
_SCORERS = ("exact", "number", "set", "items", "contains", "pairs", "values")


@click.command("optimize", short_help="Find better instructions for a task.")
@click.argument("task_file", type=click.Path(exists=True, dir_okay=False, path_type=Path), metavar="TASK")
@click.option(
    "--data",
    required=True,
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    metavar="ROWS",
    help="A .jsonl or .csv file: a column for each input and each right output; or `expected` with the outputs.",
)
@click.option(
    "-o",
    "--output",
    type=click.Path(dir_okay=False, path_type=Path),
    metavar="FILE",
    help="What was found. Default: TASK with the ending .learned.json.",
)
@click.option("--optimizer", type=click.Choice(_OPTIMIZERS), default="gepa", show_default=True, help="One of dspy's.")
@click.option(
    "--scorer",
    type=click.Choice(_SCORERS),
    default="exact",
    show_default=True,
    help="How close an output is to the right one, as in evaluations.",
)
@click.option("--runs", type=click.IntRange(1), default=100, show_default=True, help="About how many runs to search.")
@click.option("--max-cost", type=NumberRange(min=0), metavar="USD", help="Stop when this much is spent on runs.")
@click.option("--reflection-model", metavar="MODEL", help="The model that writes instructions. Default: the main one.")
@click.option("--test", type=NumberRange(0.05, 0.8), default=0.3, show_default=True, help="The share kept back.")
@click.option("--validation", type=NumberRange(0.05, 0.8), default=0.3, show_default=True, help="To choose by.")
@click.option("--seed", type=int, default=0, show_default=True, help="The seed of the split and of the search.")
@click.option("--threads", type=click.IntRange(1, 64), default=4, show_default=True, help="Runs at the same time.")
@click.option("--allow-leaks", is_flag=True, help="Write instructions that quote answers of training rows, too.")
@change_options
@click.option("-q", "--quiet", is_flag=True, help="Print no progress.")
@click.option("--json", "as_json", is_flag=True, help="One JSON object on standard output, and nothing else.")
@click.pass_context
def command(ctx: click.Context, /, task_file: Path, data: Path, output: Path | None, **options: Any) -> None:
    """Search for better instructions and examples, choose by rows for validation, and test on rows that were kept back.

    The result is a file; `learned: FILE` in the task file uses it. Instructions that quote answers of training rows are
    refused. After an interruption, the same command goes on: no run is made twice.

    \b
    Example:
      rlm optimize task.yaml --data rows.jsonl --runs 200 --max-cost 5
      rlm optimize task.yaml --data rows.csv --optimizer bootstrap --scorer number

    \b
    Exit codes: 0 something better was found and written, 1 nothing was, 2 bad file or usage, 3 internal error,
    4 environment, 130 interrupted.
    """
    os.environ.setdefault("TQDM_DISABLE", "1")  # the bars of dspy's optimizers; read when dspy is imported
    import logging

    from ...batch.task_binding import TaskBinder
    from ...files import home
    from ...optimize import OptimizeError, optimize, read_labeled_rows, split_rows
    from ...repl.learned import write_learned
    from ...runner import make_model
    from ...tasks import TaskError
    from ...tasks.models import spec_of
    from ..console import answer_only, print_json, print_page, writing
    from ..pages.optimization import optimization_page

    logging.getLogger("dspy").setLevel(logging.WARNING)
    changes = overrides(options)
    target = output or task_file.with_suffix(".learned.json")
    with answer_only() as stdout:
        try:
            task, rows = read_labeled_rows(task_file, data, TaskBinder(changes.models, changes.budget))
        except TaskError as error:
            raise click.UsageError(str(error)) from None
        shares = {"test_share": options["test"], "validation_share": options["validation"]}
        split = split_rows(rows, seed=options["seed"], **shares)
        reflection = options["reflection_model"]
        store = home() / "optimizations" / f"{store_name(task_file, data)}.jsonl"
        store.parent.mkdir(parents=True, exist_ok=True)
        try:
            found = optimize(
                task,
                split,
                optimizer=options["optimizer"],
                runs=options["runs"],
                max_cost_usd=options["max_cost"],
                reflection_lm=None if reflection is None else make_model(spec_of(reflection, Path()), "main"),
                scoring=dict.fromkeys((part.name for part in task.signature.outputs), options["scorer"]),
                seed=options["seed"],
                threads=options["threads"],
                store=store,
                notify=(lambda text: None) if options["quiet"] else lambda text: click.echo(text, err=True),
            )
        except OptimizeError as error:
            raise click.UsageError(str(error)) from None
        use = found.kept and (not found.leaks or options["allow_leaks"])
        if use:
            about = {name: value for name, value in found.to_dict().items() if name != "learned"}
            with writing(target):
                write_learned(target, found.learned, about)
        if options["as_json"]:
            print_json({**found.to_dict(), "file": str(target) if use else None}, stdout)
        else:
            print_page(optimization_page(found, target if use else None, task_file), stdout)
    ctx.exit(0 if use else 1)


def store_name(task_file: Path, data: Path) -> str:
    """Return the name of the record of the runs that searches for a task have made over some rows."""
    import hashlib

    text = f"{task_file.absolute()}\0{data.absolute()}"
    return f"{task_file.stem}-{hashlib.sha256(text.encode()).hexdigest()[:16]}"
