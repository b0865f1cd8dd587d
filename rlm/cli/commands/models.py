"""`rlm models`: the models that run on this machine. `list`, `add`, `test`, `remove`."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

if TYPE_CHECKING:
    from ...models.local.library import Facts

T = TypeVar("T")

_AS_JSON = click.option("--json", "as_json", is_flag=True, help="JSON on standard output.")


@click.group("models", short_help="List, add and test models that run on this machine.")
def command() -> None:
    """Models that run on this machine: the embedded one, GGUF files, MLX folders.

    In a task file: `models: local/NAME`, or the path itself: `models: ./model.gguf`.

    \b
    Example:
      rlm models add embedded                   fetch the embedded model, 93 MB, once
      rlm models add coder ~/models/coder.gguf
      rlm models list
      rlm models test coder
    """


@command.command("list")
@_AS_JSON
def list_models(as_json: bool) -> None:
    """Say which models there are, how large they are, and what would run them here."""
    from ...models.local.library import EMBEDDED, entries

    rows = [_row(EMBEDDED, None), *(_row(name, path) for name, path in _usable(entries).items())]
    if as_json:
        click.echo(json.dumps({"models": rows}, indent=2))
        return
    _print_table(rows)


@command.command("add")
@click.argument("name")
@click.argument("path", required=False, type=click.Path(path_type=Path))
def add_model(name: str, path: Path | None) -> None:
    """Give a GGUF file or an MLX folder a NAME. Its header is read first; the weights stay where they are.

    `rlm models add embedded`, without a path, fetches the embedded model with pip.
    """
    from ...models.local.library import EMBEDDED, add, choose

    if name == EMBEDDED and path is None:
        _add_embedded()
        return
    if path is None:
        raise click.UsageError("Give the path of a GGUF file or an MLX folder, too.")
    facts = _usable(lambda: add(name, path))
    backend, problem = choose(facts)
    click.echo(
        f"{name} is {facts.path}: {_what(facts)}. " + (f"Runs with {backend}." if backend else f"But: {problem}.")
    )
    click.echo(f"In a task file: `models: local/{name}`. To try it: `rlm models test {name}`.")


@command.command("remove")
@click.argument("name")
def remove_model(name: str) -> None:
    """Forget a NAME. The weights are left alone."""
    from ...models.local.library import remove

    path = _usable(lambda: remove(name))
    click.echo(f"Forgot {name}. {path} " + ("is left as it is." if path.exists() else "is not there any more."))


@command.command("test")
@click.argument("name", default="embedded")
@click.option("--backend", type=click.Choice(["auto", "mlx", "llamacpp", "transformers"]), default="auto")
@_AS_JSON
def test_model(name: str, backend: str, as_json: bool) -> None:
    """Load a model and ask it two things: one freely, one that must be answered with one of three words.

    NAME is one of `rlm models list`, or the path of a file or folder.

    \b
    Example:
      rlm models test
      rlm models test coder --json
    """
    from ..console import answer_only
    from ..model_trial import as_lines, try_model

    path = Path(name) if Path(name).exists() and name != "embedded" else _usable(lambda: _located(name))
    with answer_only() as output:
        trial = try_model(path, backend)
        output.write((json.dumps(trial, indent=2, ensure_ascii=False) if as_json else as_lines(name, trial)) + "\n")


def _located(name: str) -> Path:
    from ...models.local.library import locate

    return locate(name)


def _add_embedded() -> None:
    from ...models.local.embedded import fetch_embedded
    from ...models.local.gguf import WeightsError, embedded_gguf

    try:
        click.echo(f"The embedded model is here already: {embedded_gguf()}")
    except WeightsError:
        click.echo(f"The embedded model is now in {fetch_embedded()}. To try it: `rlm models test`.")


def _usable(get: Callable[[], T]) -> T:
    """What a function gives; a name or a file that is no good is a mistake in the command line."""
    from ...models.local.embedded import FETCH
    from ...models.local.gguf import WeightsError
    from ...models.local.library import LibraryError

    try:
        return get()
    except LibraryError as error:
        raise click.UsageError(str(error)) from None
    except WeightsError as error:
        if FETCH in str(error):  # that nothing is installed is no mistake: exit code 4
            raise
        raise click.UsageError(str(error)) from None


def _row(name: str, path: Path | None) -> dict[str, Any]:
    from ...models.local.gguf import WeightsError, embedded_gguf
    from ...models.local.library import choose, examine

    row: dict[str, Any] = {"name": name, "path": str(path) if path else None, "runs": False}
    try:
        facts = examine(path or embedded_gguf())
    except WeightsError as error:
        return {**row, "problem": str(error)}
    backend, problem = choose(facts)
    return {
        **row,
        "path": str(facts.path),
        "format": facts.format,
        "architecture": facts.architecture,
        "bytes": facts.size,
        "parameters": facts.parameters,
        "context": facts.context,
        "backend": backend,
        "runs": backend is not None,
        "problem": problem,
    }


def _what(facts: Facts) -> str:
    parts = [facts.format, facts.architecture, f"{facts.size / 1e6:,.0f} MB"]
    if facts.parameters:
        parts.append(f"{facts.parameters / 1e6:,.0f} million weights")
    return ", ".join(parts)


def _print_table(rows: list[dict[str, Any]]) -> None:
    from rich.console import Console
    from rich.markup import escape
    from rich.table import Table

    table = Table(box=None, pad_edge=False, header_style="dim")
    for title, right in (
        ("name", 0),
        ("format", 0),
        ("kind", 0),
        ("MB", 1),
        ("context", 1),
        ("runs with", 0),
        ("where", 0),
    ):
        table.add_column(title, justify="right" if right else "left", overflow="fold", no_wrap=title != "where")
    for row in rows:
        runs = f"[green]{row['backend']}[/]" if row["runs"] else "[red]no[/]"
        size = f"{row['bytes'] / 1e6:,.0f}" if row.get("bytes") else ""
        context = f"{row['context']:,}" if row.get("context") else ""
        where = escape(row["path"] or "") + (f"\n[yellow]{escape(row['problem'])}[/]" if row.get("problem") else "")
        table.add_row(
            row["name"], row.get("format", ""), row.get("architecture", ""), size, context, runs, where.strip()
        )
    console = Console(file=sys.stdout, highlight=False)
    if not console.is_terminal:
        console.width = 200
    console.print(table)
