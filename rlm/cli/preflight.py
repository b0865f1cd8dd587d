"""Checks before a run starts: isolation, packages, keys and local models. Values of keys are never read or shown."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from ..evals.simulated import ORACLE
from ..models.providers import KEY_VARIABLES, PROVIDERS, provider_of
from .exit_codes import EnvironmentProblem, missing_package_advice
from .model_setup import prepare

if TYPE_CHECKING:
    from ..tasks import ModelSpec, Task

_LOCAL_PRICES = "LITELLM_LOCAL_MODEL_COST_MAP"


def require(task: Task) -> None:
    """Raise if the task cannot run on this machine: no isolation, or a missing key, package or local model."""
    from sandbox.isolation.probe import choose_tier

    choose_tier(task.isolation)
    asked = {(spec.model, spec.api_key_env): spec for spec in task.asked.values() if spec.scripted is None}
    for spec in asked.values():
        if spec.local:
            prepare(spec.weights, spec.options.get("backend"))
        elif not _has_key(spec):
            _import_litellm()  # it may read a key from a `.env` file
            if not _has_key(spec):
                raise EnvironmentProblem(_advice(spec))


def model_warnings(task: Task) -> list[str]:
    """Return what is probably wrong with the names of models, and which keys are missing."""
    from ..tasks.errors import near_name

    warnings = []
    for role, spec in task.asked.items():
        if spec.local or spec.scripted is not None or spec.model == ORACLE:
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
    return list(dict.fromkeys(warnings))


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


def _import_litellm() -> None:
    before = os.environ.get(_LOCAL_PRICES)
    os.environ[_LOCAL_PRICES] = "True"  # otherwise it fetches a price list, and logs at length if it cannot
    try:
        import litellm  # noqa: F401
    except ModuleNotFoundError as error:
        raise EnvironmentProblem(
            f"the package {error.name!r} is missing; `{missing_package_advice()}` installs it"
        ) from None
    finally:
        if before is None:
            del os.environ[_LOCAL_PRICES]
        else:
            os.environ[_LOCAL_PRICES] = before
