"""`rlm init`: write a commented example of a task file."""

from __future__ import annotations

import json
import re
from importlib import resources
from pathlib import Path

import click

_MODEL = "openai/gpt-5-mini"
"""The model that the example names."""


@click.command("init", short_help="Write a commented example of a task file.")
@click.argument("path", type=click.Path(path_type=Path), default="task.yaml")
@click.option("--model", metavar="MODEL", help="The model of the task, such as openai/gpt-5-mini or local/embedded.")
def command(path: Path, model: str | None) -> None:
    """Write a commented example to PATH (default: task.yaml). An existing file is left alone.

    For a model that is too small to write code, such as local/embedded, it is a task that such a model can do.

    \b
    Example:
      rlm init
      rlm init summaries/task.yaml
      rlm init --model local/embedded
    """
    from ..preflight import is_too_small, keys_set

    target = path / "task.yaml" if path.is_dir() else path
    small = model is not None and is_too_small(model, target.parent)
    text = resources.files(__package__).joinpath("templates", "small.yaml" if small else "task.yaml").read_text("utf-8")
    if model is not None:
        plain = re.fullmatch(r"[\w./@~-]+", model)
        text = text.replace("local/embedded" if small else _MODEL, model if plain else json.dumps(model), 1)
    try:
        with target.open("x", encoding="utf-8") as file:
            file.write(text)
    except FileExistsError:
        raise click.UsageError(f"{target} exists already and is left as it is; name another file.") from None
    except OSError as error:
        raise click.UsageError(f"{target} cannot be written ({error.strerror or error}).") from None
    click.echo(f"Wrote {target}. Next: change it, then `rlm check {target}` and `rlm run {target}`.")
    if model is None and not keys_set():
        click.echo(f"It names {_MODEL}, and no key is set here. `--model local/embedded` needs none.", err=True)
