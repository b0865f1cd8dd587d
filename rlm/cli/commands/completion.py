"""`rlm completion`: the script with which a shell completes commands, options and files."""

from __future__ import annotations

import click
from click.shell_completion import get_completion_class

_SHELLS = ("bash", "zsh", "fish")


@click.command("completion", short_help="Print the completion script for a shell.")
@click.argument("shell", type=click.Choice(_SHELLS))
@click.pass_context
def command(ctx: click.Context, /, shell: str) -> None:
    """Print the script with which a shell completes commands, options and files.

    \b
    Example:
      bash:  echo 'eval "$(rlm completion bash)"' >> ~/.bashrc
      zsh:   echo 'eval "$(rlm completion zsh)"' >> ~/.zshrc
      fish:  rlm completion fish > ~/.config/fish/completions/rlm.fish
    """
    kind = get_completion_class(shell)
    assert kind is not None
    script = kind(ctx.find_root().command, {}, "rlm", "_RLM_COMPLETE")
    # Not `source()`: for bash, that starts a shell to read its version.
    click.echo(script.source_template % script.source_vars())
