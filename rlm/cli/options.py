"""Options that several commands share: inputs, models and budgets in place of those of the task file, and the cache."""

from __future__ import annotations

import contextlib
import math
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

if TYPE_CHECKING:
    from ..tasks import Overrides

MODES = ("repl", "auto", "direct", "map")  # `rlm.reading.MODES`, which would have to be imported for `rlm --help`
F = TypeVar("F", bound=Callable[..., Any])


class NumberRange(click.FloatRange):
    """A finite number between bounds: `nan` passes every comparison with a bound, and `inf` is none to count with."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        """Return the number."""
        number = super().convert(value, param, ctx)
        if not math.isfinite(number):
            self.fail(f"{value!r} is no number that can be used here; write one such as 0.5", param, ctx)
        return number


def _duration(text: str) -> Any:
    from ..units import parse_duration

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
    ("model", "main", "The model that writes the code: openai/gpt-5-mini, ./model.gguf, http://localhost:8000/v1."),
    ("sub_model", "sub", "The model that answers llm_query."),
    ("extraction_model", "extraction", "The model that extracts."),
)
_API_BASE = ("api_base", "api_base", "")


def ending_options(function: F) -> F:
    """Add the options of how a run is shown, and which endings count as an answer."""
    for option in (
        click.option("-q", "--quiet", is_flag=True, help="Print no progress, only the ending."),
        click.option(
            "--strict", is_flag=True, help="An extracted, a disputed or an improbable answer is no answer: exit code 1."
        ),
        click.option("--json", "as_json", is_flag=True, help="One JSON object on standard output, and nothing else."),
    ):
        function = option(function)
    return function


def change_options(function: F) -> F:
    """Add the options for models and budgets in place of those of the file."""
    for name, kind, text in reversed(_BUDGET):
        flag = "--" + name.replace("_", "-")
        function = click.option(flag, type=kind, metavar=_METAVARS.get(name, "N"), help=text)(function)
    function = click.option(
        "--api-base",
        metavar="URL",
        callback=_api_base,
        help="The endpoint of the main model: http://localhost:8000/v1.",
    )(function)
    for name, _, text in reversed(_MODELS):
        function = click.option("--" + name.replace("_", "-"), metavar="MODEL", help=text)(function)
    return function


def input_option(function: F) -> F:
    """Add the option for inputs."""
    return click.option(
        "-i",
        "--input",
        "inputs",
        multiple=True,
        metavar="NAME=VALUE",
        callback=_inputs,
        help="An input: text (or JSON, where the signature asks for it), @FILE, or @- for standard input. Repeatable.",
    )(function)


def task_options(function: F) -> F:
    """Add the task file, and the options that replace parts of it."""
    function = change_options(function)
    function = click.option(
        "--mode",
        type=click.Choice(MODES),
        help="How the inputs are read: by code (repl), whole (direct), item by item (map), or as is decided (auto).",
    )(function)
    function = input_option(function)
    return click.argument(
        "task_file",
        nargs=-1,
        required=True,
        type=click.Path(dir_okay=False),
        metavar="TASK.YAML",
        callback=_single_file,
    )(function)


def _single_file(context: click.Context, parameter: click.Parameter, files: tuple[str, ...]) -> str:
    if len(files) > 1:
        raise click.UsageError(f"{len(files)} files were given; this runs one task. For many: rlm batch *.yaml")
    return files[0]


def agree_option(function: F) -> F:
    """Add the option for several independent runs."""
    return click.option(
        "--agree",
        type=click.IntRange(1, 15),
        metavar="N",
        help="Up to N independent runs, whose answers are compared; they share the budget.",
    )(function)


def cache_option(function: F) -> F:
    """Add the option for the response cache."""
    return click.option(
        "--cache",
        type=click.Choice(["off", "read", "read-write"]),
        help="Reuse responses of models to equal requests. Off by default.",
    )(function)


@contextlib.contextmanager
def cached(mode: Any) -> Iterator[None]:
    """Ask models with the response cache in this mode; leave the settings alone where it is None."""
    if mode is None:
        yield
        return
    from ..models.policy import RequestPolicy, rate_limit_folder, using

    with using(RequestPolicy(rate_limit_folder=str(rate_limit_folder()), cache_mode=mode)):
        yield


def overrides(options: Mapping[str, Any]) -> Overrides:
    """Return the options as the overrides that `rlm.tasks.load` takes."""
    from ..tasks import Overrides

    models = {role: _from_here(options[name]) for name, role, _ in (*_MODELS, _API_BASE) if options.get(name)}
    if (address := models.get("main", "")).startswith(("http://", "https://")):
        from .servers import model_at

        if "api_base" in models:
            raise click.UsageError("--model is an address already: leave out --api-base, or name the model itself")
        models |= {"main": model_at(address), "api_base": address}
    return Overrides(
        inputs=options.get("inputs") or {},
        models=models,
        budget={name: options[name] for name, _, _ in _BUDGET if options.get(name) is not None},
        mode=options.get("mode"),
        agree=options.get("agree"),
    )


def _from_here(model: str) -> str:
    """Return the path of a file of weights from the working folder: in a task file it is from the file's."""
    here = model.startswith(("./", "../", "~/")) or model.endswith(".gguf")
    return str(Path(model).expanduser().absolute()) if here and not model.startswith("local/") else model


def _api_base(ctx: click.Context, param: click.Parameter, value: str | None) -> str | None:
    if value is None:
        return None
    from pydantic import ValidationError

    from ..tasks.schema import ModelFile

    if not value.startswith(("http://", "https://")):
        raise click.BadParameter(f"{value!r} is not a URL, such as http://localhost:8000/v1", ctx, param)
    try:
        ModelFile.model_validate({"model": "x", "api_base": value})
    except ValidationError as error:
        raise click.BadParameter(error.errors()[0]["msg"].removeprefix("Value error, "), ctx, param) from None
    return value


def _inputs(ctx: click.Context, param: click.Parameter, values: tuple[str, ...]) -> dict[str, str]:
    inputs: dict[str, str] = {}
    for value in values:
        name, equals, text = value.partition("=")
        if not equals or not name.isidentifier():
            raise click.BadParameter(f"{value[:60]!r} is not NAME=VALUE, as in -i doc=@report.txt", ctx, param)
        if name in inputs:
            raise click.BadParameter(f"{name!r} is given twice", ctx, param)
        inputs[name] = text
    return inputs
