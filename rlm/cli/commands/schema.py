"""`rlm schema`: the JSON schema of task files, for editors."""

from __future__ import annotations

import json

import click


@click.command("schema", short_help="Print the JSON schema of task files, for editors.")
def command() -> None:
    """Print the JSON schema of task files, for completion and validation in an editor.

    \b
    Example:
      rlm schema > task.schema.json
    and as the first line of task.yaml (VS Code, JetBrains, Neovim with yaml-language-server):
      # yaml-language-server: $schema=task.schema.json
    """
    from ...tasks.schema import json_schema

    click.echo(json.dumps(json_schema(), indent=2, ensure_ascii=False))
