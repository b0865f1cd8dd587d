"""`rlm eval run`: run and score a suite. Progress goes to standard error, the summary to standard output."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Any

import click

from ..eval_options import LengthsType, SuitesType
from ..options import NumberRange, cache_option, cached, change_options, overrides

_SHARED = (
    click.option(
        "--at-once", "--workers", type=click.IntRange(1), default=4, show_default=True, help="Samples at a time."
    ),
    click.option(
        "--max-cost",
        type=NumberRange(min=0),
        metavar="USD",
        help="Start no more samples once the log has cost this.",
    ),
    click.option("-q", "--quiet", is_flag=True, help="Print no progress, only the summary."),
    click.option("--json", "as_json", is_flag=True, help="The summary as one JSON object on standard output."),
)


def shared_options(function: Any) -> Any:
    """Add the options that `rlm eval run` and `rlm eval retry` share."""
    for option in reversed(_SHARED):
        function = option(function)
    return function


class _EvalRun(click.Command):
    """A command that keeps its arguments, to print the command that continues the evaluation."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        ctx.meta["rlm.arguments"] = list(args)
        return super().parse_args(ctx, args)


@click.command("run", cls=_EvalRun, short_help="Run a suite and score it.")
@click.argument("suites", type=SuitesType(), metavar="SUITE")
@click.option(
    "--length",
    "lengths",
    type=LengthsType(),
    default="64k",
    show_default=True,
    metavar="N",
    help="Characters of input: 64k, or several, as in 4k,64k,1M; with a t, tokens, about: 32kt.",
)
@click.option("--count", type=click.IntRange(1), help="Samples of each suite and length. Default: 20; of a file, all.")
@click.option("--seed", type=int, default=1, show_default=True, help="The seed of the samples.")
@click.option("--epochs", type=click.IntRange(1), default=1, show_default=True, help="Runs of each sample.")
@click.option(
    "--texts",
    type=click.Path(exists=True, file_okay=False, path_type=Path),
    metavar="DIR",
    help="The texts of oolong, oolong-pairs, ruler and logs: folders questions, prose and logs.",
)
@click.option("--baseline", type=click.Choice(["direct"]), help="No REPL: the whole input in the prompt.")
@click.option(
    "--task",
    "task_file",
    type=click.Path(dir_okay=False),
    metavar="FILE",
    help="Models, budget, sandbox and tools from a task file; signature and inputs come from the suite.",
)
@click.option(
    "--error-rate",
    type=NumberRange(0, 1),
    metavar="P",
    help="The probability that `--model oracle`, the built-in model, misreads a fact.",
)
@click.option(
    "--log",
    "log_folder",
    type=click.Path(file_okay=False, path_type=Path),
    metavar="DIR",
    help="The log. If it exists, only what is missing is run.",
)
@change_options
@cache_option
@shared_options
@click.pass_context
def command(
    ctx: click.Context, /, suites: tuple[str, ...], log_folder: Path | None, task_file: str | None, **options: Any
) -> None:
    """Run a suite and score the answers. SUITE is a name (`rlm eval list`), a JSONL file, several by comma, or `all`.

    The results go to a log, a directory. After an interruption, the same command with the same --log continues.

    \b
    Example:
      rlm eval run needle --length 4k --count 5 --model oracle
      rlm eval run needle,count --length 16k,256k --model openai/gpt-5-mini --epochs 3 --log mini
      rlm eval run tickets.jsonl --task settings.yaml --max-cost 5
      rlm eval run needle --length 64k --model openai/gpt-5-mini --baseline direct
      rlm eval run oolong --texts texts --length 32kt --model openai/gpt-5-mini

    \b
    Exit codes: 0 all samples were run, 1 some are missing or ended by an error,
    2 bad file or usage, 3 internal error, 4 environment, 130 interrupted.
    """
    from ...evals.config import EvalSettings, Evaluation, is_suite_file
    from ...evals.run import new_log_folder
    from ..console import answer_only
    from ..eval_runner import evaluate

    changes = overrides(options)
    if options["cache"] in ("read", "read-write") and options["epochs"] > 1:
        raise click.UsageError(
            "--cache would give every epoch the responses of the first; leave out --cache or --epochs"
        )
    settings = EvalSettings.read(
        task_file, models=changes.models, budget=changes.budget, error_rate=options["error_rate"]
    )
    if options["error_rate"] is not None and not settings.has_oracle():
        raise click.UsageError("--error-rate needs --model oracle, the built-in model")
    if (
        all(map(is_suite_file, suites))
        and ctx.get_parameter_source("lengths") is click.core.ParameterSource.COMMANDLINE
    ):
        click.echo("--length is ignored: samples from a file have their own length.", err=True)
    evaluation = Evaluation(
        suites=suites,
        settings=settings,
        lengths=options["lengths"],
        count=options["count"],
        seed=options["seed"],
        epochs=options["epochs"],
        baseline=options["baseline"],
        texts=options["texts"],
    )
    arguments = ctx.meta["rlm.arguments"]
    if log_folder is None:
        log_folder = new_log_folder(suites, options["baseline"])
        arguments = [*arguments, "--log", str(log_folder)]
    with answer_only() as output, cached(options["cache"] or "off"):
        code = evaluate(evaluation, log_folder, output, options, again=shlex.join(["rlm", "eval", "run", *arguments]))
    ctx.exit(code)
