"""Preparation of a local model: choose a backend that runs it, and convert it where the backend needs that."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from .exit_codes import EnvironmentProblem


def prepare(weights: Path | None, backend: str | None = None) -> str:
    """Return the backend that will run a model, and convert the weights if needed, with progress on standard error.

    `weights` of None is the embedded model. Raise `EnvironmentProblem` or `WeightsError` where it cannot run here.
    """
    from ..models.local.embedded import embedded_gguf
    from ..models.local.gguf import as_mlx
    from ..models.local.library import choose, examine

    path = weights or embedded_gguf()
    facts = examine(path)
    chosen, problem = choose(facts, backend)
    if chosen is None:
        raise EnvironmentProblem(f"{path.name} cannot be run here: {problem}")
    if chosen == "mlx" and facts.is_gguf:
        with _progress(f"Converting {path.name} for MLX, once") as progress:
            as_mlx(path, progress=progress)
    return chosen


@contextmanager
def _progress(what: str) -> Iterator[Callable[[int, int], None]]:
    """Yield a function that reports bytes done and in all: a bar on a terminal, one line elsewhere."""
    if not sys.stderr.isatty():
        yield _line(what)
        return
    from rich.console import Console
    from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TimeRemainingColumn

    columns = (TextColumn("{task.description}"), BarColumn(), DownloadColumn(), TimeRemainingColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task(what, visible=False)
        yield lambda done, total: bar.update(task, completed=done, total=total, visible=True)


def _line(what: str) -> Callable[[int, int], None]:
    from ..units import size_text

    def say(done: int, total: int) -> None:
        if done == 0:
            print(f"{what} ({size_text(total)})...", file=sys.stderr, flush=True)  # noqa: T201

    return say
