"""`rlm doctor`: what works on this machine. The sandbox's own findings, and what models need besides."""

from __future__ import annotations

import json
import sys
from typing import TYPE_CHECKING

import click

from . import environment, exits

if TYPE_CHECKING:
    from sandbox.doctor import Check


@click.command("doctor", short_help="Say what works on this machine, and how to get the rest.")
@click.option("--json", "as_json", is_flag=True, help="One JSON object on standard output.")
@click.pass_context
def command(ctx: click.Context, /, as_json: bool) -> None:
    """Say which isolation runs here, whether models can be asked, and how to get what is missing.

    Exit code 4: code cannot be run safely here. Keys are named, never shown.

    \b
    Example:
      rlm doctor
      rlm doctor --json
    """
    from rich.console import Console

    from sandbox import doctor

    report, checks = doctor.examine()
    works = report.tier is not None and checks[0].ok
    checks = (*checks, *_for_models())
    if as_json:
        click.echo(json.dumps(doctor.as_dict(report, checks), indent=2))
    else:
        doctor.render(Console(file=sys.stdout), report, checks)
    ctx.exit(exits.ANSWERED if works else exits.ENVIRONMENT)


def _for_models() -> tuple[Check, ...]:
    import importlib.metadata

    from sandbox.doctor import Check

    try:
        dspy = Check("dspy", True, f"dspy {importlib.metadata.version('dspy')}")
    except importlib.metadata.PackageNotFoundError:
        dspy = Check("dspy", False, "not installed: no model can be asked", exits.missing_package_advice())
    names = environment.keys_set()
    if names:
        keys = Check("API keys", True, f"set: {', '.join(names)} (values are not read here)")
    else:
        advice = "export OPENAI_API_KEY=..., or the variable of your provider; scripted tasks need none"
        keys = Check("API keys", False, "no variable is set that looks like one", advice)
    return dspy, keys
