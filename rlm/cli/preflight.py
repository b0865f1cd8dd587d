"""Checks before a run starts: isolation, packages, keys and local models. Values of keys are never read or shown."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..evals.simulated import ORACLE
from ..models.profile import KEY_VARIABLES, PROVIDERS, provider_of
from .console import count
from .exit_codes import EnvironmentProblem, missing_package_advice

if TYPE_CHECKING:
    from ..models.local.model_files import Facts
    from ..tasks import ModelSpec, Task

_LEAST_WEIGHTS = 300e6
"""The smallest model that is worth trying as a main model, in weights."""

_EMBEDDED_WEIGHTS = 135_000_000


def require(task: Task) -> None:
    """Raise if the task cannot run on this machine: no isolation, or a missing key, package or local model."""
    from sandbox.isolation.probe import choose_tier

    choose_tier(task.isolation)
    asked = {(spec.model, spec.api_key_env): spec for spec in task.asked.values() if spec.scripted is None}
    for spec in asked.values():
        if spec.local:
            prepare(spec.weights, spec.options.get("backend"))
        elif spec.command is not None:
            if (problem := _command_problem(spec)) is not None:
                raise EnvironmentProblem(problem)
        elif not _has_key(spec):
            _import_litellm()  # it may read a key from a `.env` file
            if not _has_key(spec):
                raise EnvironmentProblem(_advice(spec))


def model_warnings(task: Task) -> list[str]:
    """Return what is probably wrong with the names of models, which keys are missing, and what cannot be run here."""
    from ..text import near_name

    warnings: list[str] = []
    roles: dict[tuple[str, str | None], str] = {}
    for role, spec in task.asked.items():
        roles.setdefault((spec.model, spec.api_key_env), role)
    for role, spec in task.asked.items():
        if roles[spec.model, spec.api_key_env] != role:  # said of another role already
            continue
        if spec.local:
            warnings += _local_warnings(spec)
            continue
        if spec.scripted is not None or spec.model == ORACLE:
            continue
        if spec.command is not None:
            warnings.extend(filter(None, [_command_problem(spec)]))
            continue
        provider = provider_of(spec.model)
        near = near_name(provider, PROVIDERS) if provider is not None and provider not in PROVIDERS else None
        if provider is None:
            warnings.append(f"the {role} model {spec.model!r} has no provider; write it as in openai/gpt-5-mini")
        elif provider not in PROVIDERS:
            hint = f"; did you mean {near}?" if near is not None else ""
            warnings.append(f"the {role} model {spec.model}: the provider {provider!r} is not known here{hint}")
        if not _has_key(spec):
            warnings.append(_advice(spec))
        own_endpoint = provider is None or "api_base" in spec.options
        if task.trigger.max_cost_usd is not None and spec.price is None and own_endpoint:
            what = f"the {role} model {spec.model}: its price is probably not known, so max_cost_usd does not count it"
            warnings.append(f"{what}; give `price: {{input: 0.25, output: 2}}`, in dollars for a million tokens")
    return list(dict.fromkeys(warnings))


def _local_warnings(spec: ModelSpec) -> list[str]:
    """Return why a local model cannot be run here, if it cannot; nothing is loaded."""
    from ..models.local.gguf import WeightsError

    try:
        _choose(spec.weights, spec.options.get("backend"))
    except (EnvironmentProblem, WeightsError) as error:
        return [str(error)]
    return []


def is_too_small(model: str, folder: Path) -> bool:
    """Return whether a model runs here and has too few weights to write code."""
    from ..models.local.library import EMBEDDED
    from ..tasks.models import is_local, weights_of

    path = weights_of(model, folder) if is_local(model) else None
    if path is None and model != f"local/{EMBEDDED}":
        return False
    weights = _weights(path)
    return weights is not None and weights < _LEAST_WEIGHTS


def size_warnings(task: Task) -> list[str]:
    """Return a warning for a main model that has too few weights to write code."""
    main = task.models.main
    writes_code = task.trigger.max_iterations and not (task.mode == "direct" or (task.mode == "map" and task.map))
    weights = _weights(main.weights) if main.local and writes_code else None
    if weights is None or weights >= _LEAST_WEIGHTS:
        return []
    return [
        f"{main} has {weights / 1e6:.0f} million weights, too few to write code: most runs end without a right answer. "
        "With `max_iterations: 0` it fills in the outputs from short inputs (`rlm init --model local/embedded`); with "
        "`mode: map` and a plan it judges items; or it answers questions, as `sub:`. To write code, take a model for "
        "code with 1.5 billion weights or more."
    ]


def _weights(path: Path | None) -> int | None:
    """Return how many weights a local model has, where that is known; without a path, the embedded one."""
    from ..models.local.embedded import embedded_gguf
    from ..models.local.gguf import WeightsError
    from ..models.local.library import examine

    try:
        return examine(path or embedded_gguf()).parameters
    except WeightsError:
        return _EMBEDDED_WEIGHTS if path is None else None


def keys_set() -> list[str]:
    """Return the names of variables that are set and seem to hold keys."""
    known = {name for names in KEY_VARIABLES.values() for name in names}
    return sorted(name for name in os.environ if (name in known or name.endswith("_API_KEY")) and os.environ[name])


def _variables(spec: ModelSpec) -> tuple[str, ...]:
    if spec.api_key_env is not None:
        return (spec.api_key_env,)
    if "api_base" in spec.options:
        return ()  # a self-hosted endpoint may need none
    return KEY_VARIABLES.get(provider_of(spec.model) or "", ())


def _has_key(spec: ModelSpec) -> bool:
    names = _variables(spec)
    return not names or any(os.environ.get(name) for name in names)


def _advice(spec: ModelSpec) -> str:
    names = _variables(spec)
    return (
        f"{spec.model} needs a key: set {' or '.join(names)}, or name the variable that holds it with `api_key_env:` "
        "in the task file"
    )


def _command_problem(spec: ModelSpec) -> str | None:
    """Return that the program of a command is missing, if it is. It is not started."""
    program = spec.command.program if spec.command is not None else ""
    if shutil.which(program) is not None:
        return None
    return f"{spec.model} needs the program {program!r}, which is not on PATH: install it, and log in with it once"


def _import_litellm() -> None:
    from ..dspy_bridge import import_litellm

    try:
        import_litellm()
    except ModuleNotFoundError as error:
        raise EnvironmentProblem(
            f"the package {error.name!r} is missing; `{missing_package_advice()}` installs it"
        ) from None


def costs_money(task: Task) -> bool:
    """Return whether a task asks models that may cost money: not local, not scripted, not the built-in one."""
    return any(spec.scripted is None and not spec.local and spec.model != ORACLE for spec in task.asked.values())


class CostWarning:
    """Warns once, the first time that a limit on the cost does not count all calls."""

    def __init__(self, active: bool, say: Callable[[str], None], limit: str = "--max-cost") -> None:
        """`active` is whether there is a limit, and a model that may cost money; `limit` is its name."""
        self._active, self._say, self._limit = active, say, limit

    def check(self, run: str, usage: Mapping[str, Any] | None) -> None:
        """Check the usage of a run."""
        calls = int((usage or {}).get("unpriced_calls") or 0)
        if self._active and calls:
            self._active = False
            self._say(
                f"{self._limit}: no price is known for {count(calls, 'call')} of {run}. Such calls count as free, and "
                "the limit does not stop them. A task file can give the price: "
                "`models: {main: {model: ..., price: {input: 0.25, output: 2}}}`, in dollars for a million tokens."
            )


def prepare(weights: Path | None, backend: str | None = None) -> str:
    """Return the backend that will run a model, and convert the weights if needed, with progress on standard error.

    `weights` of None is the embedded model. Raise `EnvironmentProblem` or `WeightsError` where it cannot run here.
    """
    from ..models.local.gguf import as_mlx

    path, facts, chosen = _choose(weights, backend)
    if chosen == "mlx" and facts.is_gguf:
        with _progress(f"Converting {path.name} for MLX, once") as progress:
            as_mlx(path, progress=progress)
    return chosen


def _choose(weights: Path | None, backend: str | None) -> tuple[Path, Facts, str]:
    """Return the file of a local model, its facts and its backend. Raise as `prepare` does."""
    from ..models.local.embedded import embedded_gguf
    from ..models.local.library import choose, examine

    path = weights or embedded_gguf()
    facts = examine(path)
    chosen, problem = choose(facts, backend)
    if chosen is None:
        raise EnvironmentProblem(f"{path.name} cannot be run here: {problem}")
    return path, facts, chosen


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
