"""`rlm run`: run a task file. Progress goes to standard error, the ending to standard output."""

from __future__ import annotations

from typing import Any

import click

from ..options import agree_option, cache_option, cached, ending_options, overrides, task_options


@click.command("run", short_help="Run a task file.")
@task_options
@agree_option
@cache_option
@ending_options
@click.pass_context
def command(ctx: click.Context, /, task_file: str, **options: Any) -> None:
    """Run a task file and print how it ended: submitted, extracted (with a confidence) or failed.

    \b
    Example:
      rlm run task.yaml
      rlm run task.yaml -i doc=@report.txt -i question="Who found the leak?"
      cat report.txt | rlm run task.yaml -i doc=@- --json | jq .outputs
      rlm run task.yaml --model openai/gpt-5-mini --max-iterations 5 --strict
      rlm run task.yaml --agree 3

    \b
    Exit codes: 0 answered, 1 no acceptable answer (with --strict, also an extracted one, one that
    runs or programs dispute, and one that a calibrator says is more likely wrong than right),
    2 bad file or usage, 3 internal error, 4 environment, 130 interrupted.
    """
    from ...tasks import load
    from ..console import answer_only
    from ..runner import run_and_show

    with answer_only() as output, cached(options["cache"]):
        task = load(task_file, overrides(options))
        code = run_and_show(task, output, options)
    ctx.exit(code)
