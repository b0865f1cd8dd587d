"""`rlm init`: write a commented example of a task file."""

from __future__ import annotations

from importlib import resources
from pathlib import Path

import click


@click.command("init", short_help="Write a commented example of a task file.")
@click.argument("path", type=click.Path(path_type=Path), default="task.yaml")
def command(path: Path) -> None:
    """Write a commented example to PATH (default: task.yaml). An existing file is left alone.

    \b
    Example:
      rlm init
      rlm init summaries/task.yaml
    """
    target = path / "task.yaml" if path.is_dir() else path
    text = resources.files(__package__).joinpath("templates", "task.yaml").read_text(encoding="utf-8")
    try:
        with target.open("x", encoding="utf-8") as file:
            file.write(text)
    except FileExistsError:
        raise click.UsageError(f"{target} exists already and is left as it is; name another file.") from None
    except OSError as error:
        raise click.UsageError(f"{target} cannot be written ({error.strerror or error}).") from None
    click.echo(f"Wrote {target}. Next: change it, then `rlm check {target}` and `rlm run {target}`.")
