"""A group of commands, each in a module of its own that is imported when the command is used."""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from typing import Any

import click


class CommandGroup(click.Group):
    """A group whose commands are modules of `rlm.cli.commands`, by name. A misspelt name gets a suggestion."""

    def __init__(self, *arguments: Any, modules: Mapping[str, str] | None = None, **options: Any) -> None:
        """`modules` has the module of each command; without it, commands are added as click does."""
        super().__init__(*arguments, **options)
        self._modules = modules or {}

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return the names of all commands."""
        return [*self._modules, *self.commands]

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Import a command by its name."""
        if cmd_name not in self._modules:
            return super().get_command(ctx, cmd_name)
        command = importlib.import_module(f"{__package__}.commands.{self._modules[cmd_name]}").command
        assert isinstance(command, click.Command)
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Find the command that the arguments name; suggest one where there is none of that name."""
        try:
            return super().resolve_command(ctx, args)
        except click.UsageError:
            if args[0].startswith("-"):
                raise
            if args[0].endswith((".yaml", ".yml")):
                raise click.UsageError(f"To run a task file: `rlm run {args[0]}`.", ctx) from None
            from ..tasks.errors import suggestion

            near = suggestion(args[0], self.list_commands(ctx))
            raise click.UsageError(f"No such command {args[0]!r}{near}", ctx) from None
