"""`rlm tokens`: who may use the servers of this machine, and how much of them."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, TypeVar

import click

from ..main import CommandGroup
from ..options import NumberRange

if TYPE_CHECKING:
    from ...serve.tokens import Token, Tokens

F = TypeVar("F", bound=Callable[..., Any])


@click.group("tokens", cls=CommandGroup, short_help="Make and remove tokens for `rlm serve`.")
def command() -> None:
    """Make, list and remove tokens. Only hashes are stored; a secret is printed once.

    \b
    Example:
      rlm tokens add laptop
      rlm tokens add ci --runs 2 --day-seconds 3600
      rlm tokens limit ci --input-bytes 10000000
      rlm tokens remove ci
    """


def _limit_options(function: F) -> F:
    """Add the options for the limits of a token."""
    for flag, kind, text in reversed(
        (
            ("--sessions", click.IntRange(1), "Sessions that exist at the same time (100)."),
            ("--runs", click.IntRange(1), "Runs at the same time (4)."),
            ("--input-bytes", click.IntRange(1), "Bytes sent to one session or run (64,000,000)."),
            ("--run-seconds", NumberRange(min=0, min_open=True), "The longest run (600)."),
            ("--day-seconds", NumberRange(min=0, min_open=True), "All runs in 24 hours (14,400)."),
        )
    ):
        function = click.option(flag, type=kind, metavar="N", help=text)(function)
    return function


@command.command("add")
@click.argument("name")
@_limit_options
def add(name: str, **limits: Any) -> None:
    """Make a token called NAME, and print its secret. It is shown this once."""
    from ...serve.tokens import TokenLimits

    with _tokens() as tokens:
        _, secret = tokens.add(name, TokenLimits(**_given(limits)))
    _print_secret(secret)


@command.command("list")
@click.option("--json", "as_json", is_flag=True, help="As JSON.")
def list_tokens(as_json: bool) -> None:
    """List the tokens with their limits."""
    from dataclasses import asdict

    from ..console import print_json

    with _tokens() as tokens:
        found = tokens.all()
    if as_json:
        print_json([{"name": token.name, "created": token.created, "limits": asdict(token.limits)} for token in found])
        return
    for token in found:
        click.echo(_line(token))
    if not found:
        click.echo("There is no token; `rlm tokens add NAME` makes one.", err=True)


@command.command("limit")
@click.argument("name")
@_limit_options
def limit(name: str, **limits: Any) -> None:
    """Change limits of the token NAME; they hold from its next request on."""
    given = _given(limits)
    if not given:
        raise click.UsageError("Say which limit: --runs 2, for example.")
    with _tokens() as tokens:
        click.echo(_line(tokens.set_limits(name, **given)))


@command.command("renew")
@click.argument("name")
def renew(name: str) -> None:
    """Give the token NAME a new secret, and print it. The old one is refused from now on; sessions and runs stay."""
    with _tokens() as tokens:
        _, secret = tokens.renew(name)
    _print_secret(secret)


@command.command("remove")
@click.argument("name")
def remove(name: str) -> None:
    """Remove the token NAME: it is refused from now on."""
    with _tokens() as tokens:
        tokens.remove(name)
    click.echo(f"Removed {name}.", err=True)


@contextlib.contextmanager
def _tokens() -> Iterator[Tokens]:
    from ...serve.tokens import TokenError, Tokens

    try:
        yield Tokens()
    except TokenError as error:
        raise click.UsageError(str(error)) from None


def _given(limits: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in limits.items() if value is not None}


def _print_secret(secret: str) -> None:
    click.echo(secret)
    click.echo("This is shown once. Send it as `Authorization: Bearer ...`.", err=True)


def _line(token: Token) -> str:
    limits = token.limits
    return (
        f"{token.name}: {limits.sessions} sessions, {limits.runs} runs at a time, {limits.input_bytes:,} bytes of "
        f"inputs, {limits.run_seconds:g} s a run, {limits.day_seconds:g} s a day"
    )
