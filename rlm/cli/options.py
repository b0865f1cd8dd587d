"""Options that `run` and `check` share: what the command line says in place of the file."""

from __future__ import annotations

import contextlib
import math
from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, TypeVar

import click

if TYPE_CHECKING:
    from ..tasks import Overrides

F = TypeVar("F", bound=Callable[..., Any])


class NumberRange(click.FloatRange):
    """A number between bounds. Not `nan`, which is beyond no bound since it compares with nothing; nor `inf`."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        """The number."""
        number = super().convert(value, param, ctx)
        if not math.isfinite(number):
            self.fail(f"{value!r} is no number that can be used here; give one such as 0.5", param, ctx)
        return number


def _duration(text: str) -> Any:
    from ..tasks.units import parse_duration

    try:
        return parse_duration(text)
    except ValueError as error:
        raise click.BadParameter(str(error)) from None


_WHOLE = click.IntRange(min=0)
_BUDGET: tuple[tuple[str, Any, str], ...] = (
    ("max_iterations", _WHOLE, "How often the model may write code."),
    ("max_llm_calls", _WHOLE, "Calls to models from inside the code."),
    ("max_duration", _duration, "The whole run: seconds, or 5m, 1h30m."),
    ("max_tokens", _WHOLE, "All models together."),
    ("max_cost_usd", NumberRange(min=0), "All models together, where prices are known."),
    ("max_consecutive_errors", _WHOLE, "Iterations in a row that end in an error."),
)
_METAVARS = {"max_duration": "TIME", "max_cost_usd": "USD"}
_MODELS = (
    ("model", "main", "The model that writes the code, such as openai/gpt-5-mini."),
    ("sub_model", "sub", "The model that answers llm_query."),
    ("extraction_model", "extraction", "The model that extracts."),
)


def ending_options(function: F) -> F:
    """How a run is shown and judged."""
    for option in (
        click.option("-q", "--quiet", is_flag=True, help="No progress, only the ending."),
        click.option("--strict", is_flag=True, help="An extracted answer is no answer: exit code 1."),
        click.option(
            "--json", "as_json", is_flag=True, help="One JSON object on standard output, and nothing else there."
        ),
    ):
        function = option(function)
    return function


def change_options(function: F) -> F:
    """Models and budgets in place of those of the file."""
    for name, kind, text in reversed(_BUDGET):
        flag = "--" + name.replace("_", "-")
        function = click.option(flag, type=kind, metavar=_METAVARS.get(name, "N"), help=text)(function)
    for name, _, text in reversed(_MODELS):
        function = click.option("--" + name.replace("_", "-"), metavar="MODEL", help=text)(function)
    return function


def task_options(function: F) -> F:
    """The task file, and everything of it that can be said otherwise."""
    function = change_options(function)
    function = click.option(
        "-i",
        "--input",
        "inputs",
        multiple=True,
        metavar="NAME=VALUE",
        callback=_pairs,
        help="An input: text (or JSON, where the signature asks for it), @FILE, or @- for standard input. Repeatable.",
    )(function)
    return click.argument(
        "task_file", nargs=-1, required=True, type=click.Path(dir_okay=False), metavar="TASK.YAML", callback=_only_one
    )(function)


def _only_one(context: click.Context, parameter: click.Parameter, given: tuple[str, ...]) -> str:
    if len(given) > 1:
        raise click.UsageError(f"{len(given)} files were given; one task is run at a time. For many: rlm batch *.yaml")
    return given[0]


def cache_option(function: F) -> F:
    """Whether answers of models are taken from disk, and put there."""
    return click.option(
        "--cache",
        type=click.Choice(["off", "read", "read-write"]),
        help="Answers of models that were given before, by what was asked. Off unless told.",
    )(function)


@contextlib.contextmanager
def cached(mode: Any) -> Iterator[None]:
    """Ask models with the cache as it was said; as ever where nothing was said."""
    if mode is None:
        yield
        return
    from ..models.policy import Traffic, pace_path, using

    with using(Traffic(pace=str(pace_path()), cache_mode=mode)):
        yield


def overrides(options: Mapping[str, Any]) -> Overrides:
    """What was said, for `rlm.tasks.load`."""
    from ..tasks import Overrides

    return Overrides(
        inputs=options.get("inputs") or {},
        models={role: options[name] for name, role, _ in _MODELS if options[name]},
        budget={name: options[name] for name, _, _ in _BUDGET if options[name] is not None},
    )


def _pairs(ctx: click.Context, param: click.Parameter, values: tuple[str, ...]) -> dict[str, str]:
    made: dict[str, str] = {}
    for value in values:
        name, equals, text = value.partition("=")
        if not equals or not name.isidentifier():
            raise click.BadParameter(f"{value[:60]!r} is not NAME=VALUE, as in -i doc=@report.txt", ctx, param)
        if name in made:
            raise click.BadParameter(f"{name!r} is given twice", ctx, param)
        made[name] = text
    return made
