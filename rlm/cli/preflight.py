"""What has to be there before a run starts: isolation, packages, keys. Keys are only ever named."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from .exit_codes import EnvironmentProblem, missing_package_advice
from .model_setup import prepare

if TYPE_CHECKING:
    from ..tasks import ModelSpec, Task

# By the provider in a model's name: any one of the variables will do.
KEYS: dict[str, tuple[str, ...]] = {
    "openai": ("OPENAI_API_KEY",),
    "anthropic": ("ANTHROPIC_API_KEY",),
    "gemini": ("GEMINI_API_KEY", "GOOGLE_API_KEY"),
    "groq": ("GROQ_API_KEY",),
    "mistral": ("MISTRAL_API_KEY",),
    "deepseek": ("DEEPSEEK_API_KEY",),
    "openrouter": ("OPENROUTER_API_KEY",),
    "together_ai": ("TOGETHERAI_API_KEY", "TOGETHER_API_KEY"),
    "fireworks_ai": ("FIREWORKS_API_KEY", "FIREWORKS_AI_API_KEY"),
    "xai": ("XAI_API_KEY",),
    "cohere": ("COHERE_API_KEY", "CO_API_KEY"),
    "perplexity": ("PERPLEXITYAI_API_KEY", "PERPLEXITY_API_KEY"),
}


_LOCAL_PRICES = "LITELLM_LOCAL_MODEL_COST_MAP"


def require(task: Task) -> None:
    """Raise if the task cannot be run from here: no isolation; a key, a package or a local model missing."""
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


def keys_set() -> list[str]:
    """The names of the variables that look like keys and are set."""
    known = {name for names in KEYS.values() for name in names}
    return sorted(name for name in os.environ if (name in known or name.endswith("_API_KEY")) and os.environ[name])


def _variables(spec: ModelSpec) -> tuple[str, ...]:
    if spec.api_key_env is not None:
        return (spec.api_key_env,)
    if "api_base" in spec.options:
        return ()  # an endpoint of one's own may need none
    return KEYS.get(spec.model.partition("/")[0], ()) if "/" in spec.model else ()


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
    os.environ[_LOCAL_PRICES] = "True"  # else it fetches a price list, and where there is no network says so at length
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
